"""`ports.bus`, `ports.registry` and `ports.shards` over Redis: what processes say to each other, and which are
there. `roles/redis.py` uses `bus.py` and `shards.py`, which make all the others."""
