"""The admin plane: a Starlette application for operators, with probes, metrics, workers, requests and dead letters.

`roles/process.py` makes it for each process, and `server/listen.py` serves it on a port of its own. It imports the
vocabulary and the structs of `overview`: what it shows it asks of the process, through Protocols of its own. It
never sees the data plane.
"""
