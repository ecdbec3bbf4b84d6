"""The adapters to Redis or Valkey. Gateways, batchers, workers and autoscalers speak to it through these files and
no others.

`bus/` implements `ports.bus`, `ports.registry` and `ports.shards`; `records/` implements `ports.records` and
`ports.tasks`; both speak to Redis through `link/`. `roles/redis.py` makes them for the processes of an
installation, which know the ports alone. They import `ports`, `words`, the vocabulary, the helpers of `adapters/`
and redis-py, the store of API keys also `auth`, and no other adapter.
"""
