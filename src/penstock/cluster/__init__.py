"""What a gateway, a batcher, a worker and an autoscaler do when they are processes of their own, over a bus.

Each such process is a `Member` with a mailbox and heartbeats: a `GatewayMember`, `BatcherMember`, `WorkerMember` or
`AutoscalerMember`, which `roles` makes. The bus, the shards and the records stand behind ports, so nothing here
knows Redis or any other adapter. The same `core` and `runtime` as in one process decide and run; this room also
reads the configuration.
"""
