"""What one process does: its asyncio loops feed `core` with events and carry out what it decides, through the
ports.

`roles` puts these classes together for `penstock serve`; `cluster` uses many of them for processes over a bus. They
know `core`, `ports`, `words` and the vocabulary. They know no adapter, no door and no configuration, so that tests
can run them with doubles and in virtual time.
"""
