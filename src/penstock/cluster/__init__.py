"""Gateway, batcher and worker as several processes: what each does, over the ports of a bus. `roles` puts them
together; they know no adapter."""
