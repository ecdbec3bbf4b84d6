"""What the processes of an installation say to each other: structs, and their bytes. `cluster` and the adapters
to a bus use it; whatever carries the bytes, it is not here."""
