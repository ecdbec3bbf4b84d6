"""The steps of a task with an Idempotency-Key, in Lua: who may execute it, and until when that is believed.

    nobody's ──CLAIM──► claimed ──PLACE──► placed ──► over      as any task (`task_scripts`)
                 ▲         │ FORGET            │
                 └─────────┴── its time is up ─┘                 so no key is ever stuck

More fields of a record: fingerprint, asked (the first asker's own id), brief (ms it is kept once over, if its
outcome does not last), and in ms since the epoch until (when who claimed it must have placed it) and ends (when it
must be over). One that is being processed has been placed, whether or not who claimed it lived to say so.
"""

from penstock.adapters.redis.link.scripts import Script
from penstock.adapters.redis.records.holdings import HOLD
from penstock.adapters.redis.records.task_scripts import NOW, OVER

# KEYS task, held; ARGV tenant, key, model, ms an outcome is kept, ms one that does not last is kept, fingerprint,
# the asker's id, ms to place it, ms until it is over, its bytes, and of all keys the number, the bytes and a
# tenant's share; tier (none: its row in the ledger is told elsewhere). Gives {'ours'}: it is to be executed by the
# caller; {'other'}: it stands for another request; {'held', ms, 1 if placed}: somebody has it, and is believed
# for so long; {'over'}; {'full', why}. The oldest outcomes of its tenant make room for it.
CLAIM = Script(
    NOW
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

# KEYS task, watch; ARGV key, shard. Gives {1, watching mailboxes...}, or {0} when another has claimed it meanwhile.
PLACE = Script("""
if redis.call('HGET', KEYS[1], 'key') ~= ARGV[1] then return {0} end
redis.call('HSET', KEYS[1], 'shard', ARGV[2])
return {1, unpack(redis.call('SMEMBERS', KEYS[2]))}
""")

# KEYS task, watch, held; ARGV key. Gives {1, watching mailboxes...}, or {0} when it is another's, or over.
FORGET = Script(
    NOW
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
