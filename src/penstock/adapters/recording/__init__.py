"""The record of arrivals: a file that `penstock sim`, `bench`, `plan` and `tune` replay.

It is written by an observer of each gateway that is told to (`[trace] record`), which `roles/recording.py` makes.
Ports, the vocabulary and helpers of `adapters/` are imported, and no other adapter.
"""
