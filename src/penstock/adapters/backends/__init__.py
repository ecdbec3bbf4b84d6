"""The backends (`ports.Backend`): `process.py` for functions, `http.py`, `grpc.py`, and `simulated.py` for sim:…

`roles/backends.py` chooses one for a target. Three processes have a part in a function: the server (`spawned.py`),
the keeper (`keeper.py`), and the process that loads the function and calls it (`child.py`). Only the last imports a
user's code.
"""
