"""What the processes say to each other through Redis, and who is there."""
