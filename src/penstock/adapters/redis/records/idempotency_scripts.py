"""The Lua scripts of a request with an Idempotency-Key: which gateway may execute it, and for how long the others
believe that it does. Only `idempotency.py` runs them.

    nobody's ──CLAIM──► claimed ──PLACE──► placed ──► over      ends as any task does (`task_scripts.py`)
                 ▲         │ FORGET            │
                 └─────────┴── its time is up ─┘                 so no key is ever stuck

The record of such a request is that of a task, with more fields:

    fingerprint   of the request for which the key stands
    asked         the id that the first client gave
    brief         ms for which the record is kept once it is over, if the outcome is a failure that a retry may mend
    until         when the gateway that claimed the key must have placed the request, in ms since the epoch
    ends          when the request must be over, in ms since the epoch

A request that is being processed counts as placed, even if its gateway died before it said so.
"""

from penstock.adapters.redis.link.scripts import Script
from penstock.adapters.redis.records.holdings import HOLD
from penstock.adapters.redis.records.task_scripts import OVER, STAMP

# Claims a key.
#   KEYS     task, books
#   ARGV     tenant, key, model, ms an outcome is kept, `brief`, fingerprint, the client's id, ms to place it,
#            ms until it is over, its bytes, the bounds of all keys (number, bytes, a tenant's share), and the tier
#            if the script that ends it must add its row for the ledger
#   returns  {'ours'}                 the caller must execute it
#            {'other'}                the key stands for another request
#            {'held', ms, placed}     another gateway has the key, and is believed for so long; placed: 1 or 0
#            {'over'}                 its outcome is there
#            {'full', why}            there is no room, though the tenant's oldest outcomes have made way
CLAIM = Script(
    STAMP
    + HOLD
    + OVER
    + """
local had = redis.call('HMGET', KEYS[1], 'tenant', 'fingerprint', 'lasting', 'key', 'shard', 'until', 'ends')
if status and not (over and had[3] == '0') then
  if had[1] ~= ARGV[1] or (had[2] and had[2] ~= ARGV[6]) then return {'other'} end
  if over then return {'over'} end
  local placed = had[5] or status == 'PROCESSING'
  local left = (tonumber(placed and had[7] or had[6]) or 0) - now
  local asked_twice = had[4] == ARGV[2] and not placed
  if left > 0 and not asked_twice then return {'held', left, placed and 1 or 0} end
end
check_books()
open_books(ARGV[1])
limit = {ARGV[11], ARGV[12], ARGV[13]}
if status then
  give(KEYS[1], redis.call('HGET', KEYS[1], 'held'))
  redis.call('ZREM', shelf(tenant), KEYS[1])
  redis.call('DEL', KEYS[1])
end
local why = make_room(ARGV[10], UNREAD, false)
if why then
  close_books()
  return {'full', why}
end
redis.call('HSET', KEYS[1], 'tenant', ARGV[1], 'key', ARGV[2], 'model', ARGV[3], 'keep', ARGV[4], 'brief', ARGV[5],
  'fingerprint', ARGV[6], 'asked', ARGV[7], 'until', string.format('%.0f', now + ARGV[8]),
  'ends', string.format('%.0f', now + ARGV[9]), 'status', 'PENDING', 'changed', now, 'held', ARGV[10])
if ARGV[14] then redis.call('HSET', KEYS[1], 'id', ARGV[7], 'tier', ARGV[14], 'created', now) end
redis.call('PEXPIRE', KEYS[1], ARGV[4] + ARGV[9])
take(KEYS[1], ARGV[10], ARGV[4] + ARGV[9])
close_books(ARGV[4] + ARGV[9])
return {'ours'}
"""
)

# KEYS task, watch; ARGV key, shard. Notes where the request went. Returns {1, watching mailboxes...}, or {0} when
# another gateway has claimed the key meanwhile.
PLACE = Script("""
if redis.call('HGET', KEYS[1], 'key') ~= ARGV[1] then return {0} end
redis.call('HSET', KEYS[1], 'shard', ARGV[2])
return {1, unpack(redis.call('SMEMBERS', KEYS[2]))}
""")

# KEYS task, watch, books; ARGV key. Gives a claim up. Returns {1, watching mailboxes...}, or {0} when another
# gateway has the key, or it is over.
FORGET = Script(
    STAMP
    + HOLD
    + OVER
    + """
if over or redis.call('HGET', KEYS[1], 'key') ~= ARGV[1] then return {0} end
open_books(owner(KEYS[1]))
give(KEYS[1], redis.call('HGET', KEYS[1], 'held'))
close_books()
redis.call('DEL', KEYS[1])
return {1, unpack(redis.call('SMEMBERS', KEYS[2]))}
"""
)
