"""The steps of a task with an Idempotency-Key, in Lua: who may execute it, and until when that is believed.

    nobody's ──CLAIM──► claimed ──PLACE──► placed ──► over      as any task (`task_scripts`)
                 ▲         │ FORGET            │
                 └─────────┴── its time is up ─┘                 so no key is ever stuck

More fields of a record: fingerprint, asked (the first asker's own id), until (ms since the epoch: so long whoever
claimed it is believed to place it, and then its request to be under way), brief (ms it is kept once over, if its
outcome does not last).
"""

from penstock.adapters.redis.scripts import Script
from penstock.adapters.redis.task_scripts import NOW, OVER

# KEYS task; ARGV tenant, key, model, ms an outcome is kept, ms one that does not last is kept, fingerprint, the
# asker's id, ms to place it, ms until it is over. Gives {'ours'}: it is to be executed by the caller; {'other'}: it
# stands for another request; {'held', ms, 1 if placed}: somebody has it, and is believed for so long; {'over'}.
CLAIM = Script(
    NOW
    + OVER
    + """
local had = redis.call('HMGET', KEYS[1], 'tenant', 'fingerprint', 'until', 'lasting', 'shard', 'key')
if status and not (over and had[4] == '0') then
  if had[1] ~= ARGV[1] or (had[2] and had[2] ~= ARGV[6]) then return {'other'} end
  if over then return {'over'} end
  local left = (tonumber(had[3]) or 0) - tonumber(now)
  local asked_twice = had[6] == ARGV[2] and not had[5]
  if left > 0 and not asked_twice then return {'held', left, had[5] and 1 or 0} end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'tenant', ARGV[1], 'key', ARGV[2], 'model', ARGV[3], 'keep', ARGV[4], 'brief', ARGV[5],
  'fingerprint', ARGV[6], 'asked', ARGV[7], 'until', string.format('%.0f', now + ARGV[8]),
  'status', 'PENDING', 'changed', now)
redis.call('PEXPIRE', KEYS[1], ARGV[4] + ARGV[9])
return {'ours'}
"""
)

# KEYS task, watch; ARGV key, shard, ms until it is over. Gives {1, watching mailboxes...}, or {0} when another has
# claimed it meanwhile.
PLACE = Script(
    NOW
    + """
if redis.call('HGET', KEYS[1], 'key') ~= ARGV[1] then return {0} end
redis.call('HSET', KEYS[1], 'shard', ARGV[2], 'until', string.format('%.0f', now + ARGV[3]))
return {1, unpack(redis.call('SMEMBERS', KEYS[2]))}
"""
)

# KEYS task, watch; ARGV key. Gives {1, watching mailboxes...}, or {0} when it is another's, or over.
FORGET = Script(
    OVER
    + """
if over or redis.call('HGET', KEYS[1], 'key') ~= ARGV[1] then return {0} end
redis.call('DEL', KEYS[1])
return {1, unpack(redis.call('SMEMBERS', KEYS[2]))}
"""
)
