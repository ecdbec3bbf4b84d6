"""The Open Inference Protocol v2, as much of it as a batch needs."""
