"""The admin plane: an ordinary Starlette application on a port of its own."""
