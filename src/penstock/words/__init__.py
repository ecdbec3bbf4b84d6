"""What the processes of an installation say to each other, whatever carries it: structs, and their bytes."""
