"""The admin plane: a Starlette application for operators. `roles/process.py` makes it, and `server/listen.py`
serves it on a port of its own."""
