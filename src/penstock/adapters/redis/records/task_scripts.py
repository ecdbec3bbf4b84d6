"""The steps in the life of an asynchronous task, in Lua; the clock is Redis's own.

    PENDING ──► PROCESSING ──► SUCCESS | FAILED | EXPIRED | CANCELLED        the first ending is the ending

A record's fields: id, tenant, tier, key, model, status, created and changed (ms since the epoch), keep (ms, once it
is over), shard (that its request went to), and at the end output and execution, or code, message and details; and
lasting; held, the bytes it counts for (`holdings`); and letter, the dead letter that it was made to retry.
Those with an Idempotency-Key have more (`keyed_scripts`).

Whoever ends a task tells the ledger in the same step, where one is kept: its end and its row cannot come apart.
One without `created` has its row elsewhere, from whoever waits for it.
"""

from penstock.adapters.redis.link.scripts import Script
from penstock.adapters.redis.records.holdings import HOLD
from penstock.errors import Overloaded
from penstock.share import OVERHEAD

NOW = """
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
"""
OVER = """
local status = redis.call('HGET', KEYS[1], 'status')
local over = status == 'SUCCESS' or status == 'FAILED' or status == 'EXPIRED' or status == 'CANCELLED'
if status ~= 'PENDING' and status ~= 'PROCESSING' and not over then status = false end  -- nobody's record
"""
MOST_ENDED = 10_000  # tasks in a bucket that have ended and that no ledger has taken yet
# How a task ended is written once, and kept from then on for as long as results are. `lasting` is '0' if the same
# request might end otherwise another time.
_END = f"""
local function tell(status)
  local row = redis.call('HMGET', KEYS[1], 'created', 'key', 'id', 'tenant', 'tier', 'model')
  if row[1] and redis.call('XADD', KEYS[3], 'NOMKSTREAM', '*', 'created', row[1], 'key', row[2], 'id', row[3],
      'tenant', row[4], 'tier', row[5], 'model', row[6], 'completed', now, 'status', status) then
    local gone = redis.call('XTRIM', KEYS[3], 'MAXLEN', {MOST_ENDED})
    if gone > 0 then redis.pcall('INCRBY', KEYS[4], gone) end
  end
end
local function finish(status, output, code, message, details, execution, lasting)
  local had = redis.call('HMGET', KEYS[1], 'tenant', 'keep', 'brief', 'held')
  open_books(had[1])
  give(KEYS[1], had[4])
  local size = {OVERHEAD} + #output + #message + #details
  if make_room(size, '+inf', true) and output ~= '' then
    status, output, code, lasting, size = 'FAILED', '', '{Overloaded.code}', '0', {OVERHEAD}
    message = 'there was no room to keep the result: limits.tenant_share and ' ..
      (had[3] and 'idempotency.max_bytes' or 'limits.max_task_bytes') .. ' bound it'
  end
  redis.call('HSET', KEYS[1], 'status', status, 'changed', now, 'output', output,
    'code', code, 'message', message, 'details', details, 'execution', execution or '', 'lasting', lasting or '1',
    'held', size)
  local ms = lasting == '0' and had[3] or had[2]
  redis.call('PEXPIRE', KEYS[1], ms)
  take(KEYS[1], size, ms)
  put_by(KEYS[1], ms, had[2], not had[3] and status ~= 'CANCELLED')
  close_books()
  tell(code ~= '' and code or status)
end
"""

# KEYS ended, crowded out; ARGV ms they are kept from now on. Makes the list of ended tasks, which is there only
# while somebody asks for it. Gives how many were crowded out of it since.
EXPECT = Script("""
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then
  redis.call('XDEL', KEYS[1], redis.call('XADD', KEYS[1], '*', 'hello', ''))
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local gone = redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[2])
return math.min(tonumber(gone) or 0, 1e9)
""")

# KEYS task, watch, held; ARGV id, tenant, tier, key, model, ms it is kept once over, ms it is kept until then, a
# mailbox that is told of its end or nothing, and for how many ms at most; its bytes, and of all tasks the number,
# the bytes and a tenant's share; the dead letter that is retried by it, or nothing. Gives 1, or 0 when there is one
# with this id, or why there is no room (`share.Full`). Results that have been read make room for it. One that
# retries a letter replaces what is over, but not what was made for that letter.
CREATE = Script(
    NOW
    + HOLD
    + OVER
    + """
if redis.call('EXISTS', KEYS[1]) == 1 then
  local again = ARGV[14] ~= '' and over and redis.call('HGET', KEYS[1], 'letter') ~= ARGV[14]
  if not again then return 0 end
end
check_books()
open_books(ARGV[2])
limit = {ARGV[11], ARGV[12], ARGV[13]}
local why = make_room(ARGV[10], UNREAD, false)
if why then
  close_books()
  return why
end
if over then
  give(KEYS[1], redis.call('HGET', KEYS[1], 'held'))
  redis.call('ZREM', shelf(tenant), KEYS[1])
  redis.call('DEL', KEYS[1])
end
if ARGV[14] ~= '' then redis.call('HSET', KEYS[1], 'letter', ARGV[14]) end
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'tenant', ARGV[2], 'tier', ARGV[3], 'key', ARGV[4], 'model', ARGV[5],
  'keep', ARGV[6], 'status', 'PENDING', 'created', now, 'changed', now, 'held', ARGV[10])
redis.call('PEXPIRE', KEYS[1], ARGV[7])
take(KEYS[1], ARGV[10], ARGV[7])
close_books(ARGV[7])
if ARGV[8] ~= '' then
  redis.call('SADD', KEYS[2], ARGV[8])
  redis.call('PEXPIRE', KEYS[2], ARGV[9])
end
return 1
"""
)

# KEYS task, held. Gives 1, or 0 when there is no such task.
DROP = Script(
    NOW
    + HOLD
    + """
open_books(owner(KEYS[1]))
give(KEYS[1], redis.call('HGET', KEYS[1], 'held'))
close_books()
redis.call('ZREM', shelf(tenant), KEYS[1])
return redis.call('DEL', KEYS[1])
"""
)

# KEYS task; ARGV shard. Gives 1, or 0 when there is no such task.
PLACE = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'shard', ARGV[1])
return 1
""")

# KEYS task. Gives 1, or 0 when it is not pending any more.
PROCESS = Script(
    NOW
    + """
if redis.call('HGET', KEYS[1], 'status') ~= 'PENDING' then return 0 end
redis.call('HSET', KEYS[1], 'status', 'PROCESSING', 'changed', now)
return 1
"""
)

# KEYS task, watch, ended, crowded out, held; ARGV status, output, code, message, details, execution, lasting.
# Gives {1 if this was the ending, watching mailboxes...}. They are told each time: whoever settles twice got no
# answer the first time, and so told nobody.
SETTLE = Script(
    NOW
    + HOLD
    + OVER
    + _END
    + """
if not status then return {0} end
if not over then finish(unpack(ARGV)) end
return {over and 0 or 1, unpack(redis.call('SMEMBERS', KEYS[2]))}
"""
)

# KEYS task, watch, ended, crowded out, held; ARGV tenant, code, message. Gives {} when there is no such task of
# this tenant, else {1 if this ended it, shard, key, watching mailboxes...}.
CANCEL = Script(
    NOW
    + HOLD
    + OVER
    + _END
    + """
if not status or redis.call('HGET', KEYS[1], 'tenant') ~= ARGV[1] then return {} end
if not over then finish('CANCELLED', '', ARGV[2], ARGV[3], '') end
local where = redis.call('HMGET', KEYS[1], 'shard', 'key')
return {over and 0 or 1, where[1] or '', where[2], unpack(redis.call('SMEMBERS', KEYS[2]))}
"""
)

# KEYS task, watch, held; ARGV mailbox, ms to watch. Gives the record; if it is not over, the mailbox is told of its
# end, and if it is, it has been read.
WATCH = Script(
    NOW
    + HOLD
    + OVER
    + """
if over then
  seen(KEYS[1])
elseif status then
  redis.call('SADD', KEYS[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return redis.call('HGETALL', KEYS[1])
"""
)

# KEYS task, held. Gives the record; if it is over, it has been read.
READ = Script(
    NOW
    + HOLD
    + OVER
    + """
if over then seen(KEYS[1]) end
return redis.call('HGETALL', KEYS[1])
"""
)
