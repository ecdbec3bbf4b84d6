"""The doors for gRPC: one for each method, by the path that gRPC gives it. `open_doors.py` in this folder lists
them, and `roles/grpc.py` puts a data plane with them behind the edge for gRPC (`edge/grpc.py`).

They are doors like any other: a message is a body, and what a door answers is a message. So identity, quotas,
tiers, deadlines, cancelling and metrics are those of all doors. They need protobuf, the extra `grpc`.
"""
