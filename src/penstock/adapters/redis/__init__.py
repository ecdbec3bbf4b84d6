"""The adapters to Redis or Valkey: the bus, shards and records that `ports` asks for, in three rooms. Only
`roles` makes them."""
