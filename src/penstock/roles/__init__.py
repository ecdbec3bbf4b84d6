"""Each role puts one server together: it reads the configuration, chooses the adapters, and wires them. Only the
commands (`cli/`) call this room, and only this room chooses adapters."""
