"""What one process does: its asyncio loops feed `core` with events and carry out what it decides, through the
ports. `roles` puts its classes together; `cluster` uses them over a bus."""
