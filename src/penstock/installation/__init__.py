"""`penstock up`: a whole installation on this machine, as processes that are looked after, and its own store.

`cli/up.py` makes the plan, and `roles/up.py` the `Installation` from it. Of what happens in the processes nothing
is known here but their command lines and what they print; so of other rooms only `server`, `config`, `core`'s
back-off and two helpers of `adapters/` are imported.
"""
