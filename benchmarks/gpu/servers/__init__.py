"""The rivals' servers of `python -m benchmarks.gpu`, each around the same function. `contenders.py` says how each
is started; they run in processes of their own and import nothing of Penstock."""
