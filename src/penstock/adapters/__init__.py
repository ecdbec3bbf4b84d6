"""One room for each outside thing: backends, Redis, API keys, the ledger, metrics and logs, traces, recorded
arrivals, webhooks, what adds workers, memory.

An adapter implements Protocols of `ports` and translates foreign errors into `penstock.errors`. It imports `ports`,
`words`, the vocabulary and its own library, and no other adapter; `docs/architecture.md` names what else some of
them may import. `roles/` chooses the adapters of a process; other rooms know them by their ports alone, but for
`server/`, which uses a part of `observe`. The files directly in this folder are helpers that every adapter may
import.
"""
