"""The Open Inference Protocol v2, as much of it as a batch needs.

Only `backends/grpc.py` uses it. Nothing here does I/O, except that `credentials` reads files.
"""
