"""`ports.bus`, `ports.registry` and `ports.shards` over Redis: what processes say to each other, and which are
there.

`roles/redis.py` makes `bus.RedisBus` and `shards.RedisShards`, which hand out all the others to the gateways,
batchers and workers of `cluster`. Every file speaks to Redis through `redis/link`; `redis/records` is not known
here.
"""
