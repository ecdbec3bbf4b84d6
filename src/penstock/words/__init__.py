"""What the processes of an installation say to each other: structs, and their bytes. `cluster` makes and reads
them, and the adapters to a bus carry them.

These files import the vocabulary and nothing that moves bytes: no event loop, no Redis. A process of the release
before or after must understand them (see `basics.py`).
"""
