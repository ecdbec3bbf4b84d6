"""Everything that decides. Pure: events and `now` go in, effects come out.

Nothing here awaits, reads a clock, draws a random number or logs. The server and the simulator run this same code.
Most of it is reached through two classes: `batcher.Batcher`, which forms batches, and `admission.Admission`, which
lets requests in.
"""
