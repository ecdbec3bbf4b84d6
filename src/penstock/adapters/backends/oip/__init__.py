"""The Open Inference Protocol v2, as much of it as a batch needs. Only `backends/grpc.py` uses it, and
`roles/backends.py` the settings in `shape.py`. Nothing here does I/O, except that `credentials.py` reads files.
"""
