"""One room for each outside thing: backends, Redis, API keys, the ledger, metrics and logs, traces, recorded
arrivals, memory.

An adapter implements Protocols of `ports` and translates foreign errors into `penstock.errors`. It imports `ports`,
`words`, the vocabulary and its own library, and no other adapter. `roles/` chooses the adapters of a process; all
other rooms know them by their ports alone. The files directly in this folder are helpers that every adapter may
import.
"""
