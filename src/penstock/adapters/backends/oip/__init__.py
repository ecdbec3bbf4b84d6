"""The Open Inference Protocol v2, as much of it as a batch needs: requests made, answers read, settings checked.

The backend for gRPC endpoints uses it (`backends/grpc.py`), which `roles/backends.py` makes with the settings of
`settings.py`. What does not depend on protobuf, `columns.py` and `rows.py`, is the same over HTTP
(`dialects/open_inference.py`). Nothing here does I/O, except that `credentials.py` reads files. Only the
vocabulary, `penstock.protos`, msgspec and protobuf are imported.
"""
