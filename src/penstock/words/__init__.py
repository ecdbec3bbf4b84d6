"""What the processes of an installation say to each other: structs, and their bytes. `cluster` and the adapters to
a bus use these. How the bytes are carried is not in this folder."""
