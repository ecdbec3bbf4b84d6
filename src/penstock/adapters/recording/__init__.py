"""The record of arrivals: a file that `penstock sim`, `bench`, `plan` and `tune` replay.

An observer of a process that answers clients writes it, if `[trace] record` names a file; `roles/recording.py`
makes that observer. Ports, the vocabulary and helpers of `adapters/` are imported, and no other adapter.
"""
