"""What Penstock speaks over gRPC: the `.proto` files, which clients get at `/proto`, and the classes of their
messages. The doors for gRPC use them (`doors/grpc/`), and so does the backend for gRPC endpoints
(`adapters/backends/oip/`). The classes need protobuf, which comes with the extra `grpc`; the files do not.

The classes are built from these files when `messages.py` is imported: no code is generated, and what is served
is what is spoken.
"""
