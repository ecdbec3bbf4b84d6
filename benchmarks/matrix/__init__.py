"""Does the default policy ever lose? Every policy on a matrix of workers, service curves, loads and traffic.

    python -m benchmarks.matrix --quick

`cells` makes the matrix, `play` plays a cell in the simulator, `verdict` says which are lost. No server is started.
"""
