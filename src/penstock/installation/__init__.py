"""`penstock up`: a whole installation on this machine, as processes that are looked after, and its own store."""
