"""How many workers a model needs: the rules of the autoscaler. Pure, as all of `core`: what is seen and `now` go
in, a number of workers and the reason in plain words come out.

`scaler.Scaler` is what others use. `sim` runs it in virtual time, and `cluster/autoscaler.py` in a process. It asks
the chosen rules, `predicted` or `classic`, and keeps what holds for both: the bounds, the cool-down, and at most a
part of the workers removed at once.
"""
