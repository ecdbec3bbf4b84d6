"""A real GPU behind Penstock, Mosec and LitServe, and the function alone: how much of it clients get, and how soon.

    python -m benchmarks.gpu

All serve the same function on the same GPU, are up at once and are measured in turns, so that none is measured on a
machine that another one did not have. It needs a GPU, and its own environment (`wheels.py`).
"""
