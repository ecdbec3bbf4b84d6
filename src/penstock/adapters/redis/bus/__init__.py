"""`ports.bus`, `ports.registry` and `ports.shards` over Redis: what processes say to each other, and which are
there.

`roles/redis.py` makes `bus.RedisBus` and `shards.RedisShards`, which hand out nearly all the others to the
gateways, batchers, workers and autoscalers of `cluster`; `roles/up.py` makes the `Obituaries`. Every file speaks to
Redis through `redis/link`; `redis/records` is not known here.
"""
