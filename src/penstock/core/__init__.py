"""Everything that decides: when a batch goes, to whom, who is let in, what is tried again. Pure: events and `now`
go in, effects come out.

Nothing here awaits, reads a clock, draws a random number or logs, and nothing is imported but the vocabulary. The
loops of `runtime` and `cluster` run this code in a server, and the simulator (`sim`) in virtual time. Most of it is
reached by two classes: `batcher.Batcher`, which forms batches, and `admission.Admission`, which lets requests in.
"""
