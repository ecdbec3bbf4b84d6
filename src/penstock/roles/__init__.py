"""Each role puts one server together: it reads the configuration, chooses the adapters, and wires them. Only the
commands call this room, and only this room picks adapters."""
