"""The adapters to Redis or Valkey. Gateways, batchers and workers speak to it through these files and no others.

`bus/` implements `ports.bus`, `ports.registry` and `ports.shards`; `records/` implements `ports.records` and
`ports.tasks`; both speak to Redis through `link/`. `roles/redis.py` makes them for gateways, batchers and workers,
which know the ports alone. They import `ports`, `words`, the vocabulary and redis-py, and no other adapter.
"""
