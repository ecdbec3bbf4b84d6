"""What an installation needs, and how it is best set: the work behind `penstock plan` and `penstock tune`, whose
commands call it (`cli/plan.py`, `cli/tune.py`).

It calculates and simulates, and touches no server, no network and no clock. Besides the vocabulary it imports
`core`, `sim` and `load`.
"""
