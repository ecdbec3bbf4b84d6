"""One server process: its sockets, its signals, and the order in which it starts and ends.

`cli/roles.py` and `roles/serve.py` call `life.live` with a role. The role brings the edge and the admin
application.
"""
