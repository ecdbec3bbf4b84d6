"""The adapters to Redis or Valkey. `bus/` implements `ports.bus`, `ports.registry` and `ports.shards`; `records/`
implements `ports.records` and `ports.tasks`; both speak to Redis through `link/`. Only `roles/` makes them."""
