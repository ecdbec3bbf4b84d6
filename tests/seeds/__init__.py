"""Random simulations of a whole installation, in virtual time. Each run is made by one number, its seed:
`python -m tests.seeds --seed 4711` plays it again and prints what happened."""
