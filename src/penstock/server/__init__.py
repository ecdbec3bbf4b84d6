"""One server process: its sockets, its signals, and the order in which it starts and ends.

A command calls `life.live` with a role; the role brings the edge and the admin application.
"""
