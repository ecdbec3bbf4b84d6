"""Each role puts one process together: it reads the configuration, chooses the adapters, and wires them. Once that
is done, nothing here stands on the way of a request.

Only the commands (`cli/`) call this room, and only this room chooses adapters. It may import every room but `cli`,
`client`, `bench`, `top`, `advice`, `explanation` and the doubles for tests.
"""
