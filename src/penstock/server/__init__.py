"""One server process: its sockets, its signals, and the order in which it starts and ends.

`cli/roles.py` and `roles/serve.py` call `life.live` with a role, which brings the edge and the admin application.
The rest of this room is used by that life, and a few files by `roles`, `cli` and `installation`. It imports `edge`,
`admin`, `config` and, of the adapters, `observe`; it knows no gateway, no batcher and no Redis.
"""
