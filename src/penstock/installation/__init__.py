"""`penstock up`: a whole installation on this machine, as processes that are looked after, and its own store.

`cli/up.py` makes the plan and runs the `Installation`, which `roles/up.py` makes from the plan. Of what happens in
the processes nothing is known here but their command lines, what they print and what their admin planes say. So of
other rooms only `server`, `config`, the back-off of `core`, a word of `ports.scaling` and two helpers of
`adapters/` are imported.
"""
