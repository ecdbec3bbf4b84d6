"""The admin plane: an ordinary Starlette application for operators, which `server` puts on a port of its own."""
