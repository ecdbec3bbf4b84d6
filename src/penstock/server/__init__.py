"""One server process: its sockets, its signals, and the order in which it starts and ends."""
