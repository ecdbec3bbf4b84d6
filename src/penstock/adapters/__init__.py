"""One room for each outside thing: backends, Redis, API keys, the ledger, metrics, memory.

An adapter fits a protocol of `ports`, translates foreign errors into `penstock.errors`, and knows no other adapter.
Only `roles` chooses among them.
"""
