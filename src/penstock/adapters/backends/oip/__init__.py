"""The Open Inference Protocol v2, as much of it as a batch needs: requests made, answers read, settings checked.

Only the backend for gRPC endpoints uses it (`backends/grpc.py`), and `roles/backends.py` the settings in
`shape.py`. Nothing here does I/O, except that `credentials.py` reads files; calls are made in `grpc.py`. Only the
vocabulary, `penstock.protos`, msgspec and protobuf are imported.
"""
