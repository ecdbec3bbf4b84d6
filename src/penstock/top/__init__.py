"""`penstock top`: the overview in a terminal. `cli/top.py` calls `watch.py`, or with `--once` only `screen.py`.

    a key ──► `keys`: what is looked at ──┐
    an overview ──► `lists` ──────────────┴──► `screen`: lines ──► `terminal`

Only `terminal.py` and `watch.py` touch the outside: the terminal, signals and a thread. `screen.py` asks the system
for the local time zone.
"""
