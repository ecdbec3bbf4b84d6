"""What Penstock speaks over gRPC: the `.proto` files, which clients get at `/proto`, and the classes of their
messages. The doors for gRPC use them (`doors/grpc/`). It needs protobuf, which comes with the extra `grpc`.

The classes are built from these files when `messages.py` is imported: no code is generated, and what is served
is what is spoken.
"""
