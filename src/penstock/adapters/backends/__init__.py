"""The backends: each runs one kind of target, a batch at a time, as `ports.Backend` says. A worker's slot owns one.
`process.py` is for functions, `http.py` and `grpc.py` for endpoints, `simulated.py` for sim:…

`roles/backends.py` chooses one for a target. Three processes have a part in a function: the server (`spawned.py`),
the keeper (`keeper.py`), and the process that loads the function and calls it (`child.py`). Only the last imports a
user's code. A backend knows `ports`, the vocabulary and its own library, and no other backend.
"""
