"""`penstock top`: the overview in a terminal. `cli/top.py` calls `watch.py`.

    a key ──► `keys`: what is looked at ──┐
    an overview ──► `lists` ──────────────┴──► `screen`: lines ──► `terminal`

Only `terminal.py` and `watch.py` touch the outside.
"""
