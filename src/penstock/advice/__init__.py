"""What an installation needs, and how it is best set: the work behind `penstock plan`, `penstock tune` and
`penstock sim --cells`, whose commands in `cli` call it.

It calculates and simulates, and touches no server, no network and no clock. Only `side_by_side` touches anything
outside: it simulates in several processes. Besides the vocabulary this room imports `core`, `sim` and `load`.
"""
