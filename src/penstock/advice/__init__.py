"""What an installation needs, and how it is best set: the work behind `penstock plan` and `penstock tune`. It
calculates and simulates, and touches no server, no network and no clock; `cli/plan.py` and `cli/tune.py` call
it."""
