"""The backends (`ports.Backend`): `process` for functions, `http`, `grpc`, and `simulated` for sim:…

`roles/backends.py` chooses one for a target. Around a function stand three processes: `spawned` in the server, the
`keeper`, and `child`, which loads the function and calls it. Only `child` imports a user's code.
"""
