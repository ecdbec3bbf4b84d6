"""What a gateway, a batcher and a worker do when they are processes of their own, over the ports of a bus. `roles`
makes one `GatewayMember`, `BatcherMember` or `WorkerMember` for each process. Nothing here knows an adapter."""
