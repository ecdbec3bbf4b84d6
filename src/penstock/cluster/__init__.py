"""Gateway, batcher and worker as several processes: what each does, over a bus."""
