"""`penstock up`: a whole installation on this machine, as processes that are looked after, and its own store.
`cli/up.py` makes the plan, and `roles/up.py` the `Installation` from it."""
