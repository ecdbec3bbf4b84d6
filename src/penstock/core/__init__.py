"""Everything that decides. Pure: events and `now` go in, effects come out.

Nothing here awaits, reads a clock, draws a random number or logs;
the server and the simulator run this same code.
"""
