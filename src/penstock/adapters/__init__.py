"""One room for each outside thing: backends, Redis, API keys, the ledger, metrics, memory.

An adapter implements a Protocol of `ports`, translates foreign errors into `penstock.errors`, and knows no other
adapter. `roles/` chooses the adapters of a process. The files directly in this folder are helpers that every
adapter may import.
"""
