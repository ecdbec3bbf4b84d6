"""The Lua scripts of a task's life. Gateways run them to create, read and cancel tasks (`tasks.py`) and to read
which have ended (`ended_tasks.py`); workers and batchers to end them (`task_endings.py`). Each is one step that
Redis does as a whole, by its own clock.

    PENDING ──► PROCESSING ──► SUCCESS | FAILED | EXPIRED | CANCELLED        the first ending counts

The fields of a task's record:

    id, tenant, tier, key, model, status
    created, changed    ms since the epoch
    keep                ms for which the record is kept once the task is over
    shard               the shard that the task's request went to
    held                the bytes that the task counts for in the books (`holdings.py`)
    letter              the dead letter that the task was made to retry
    and at the end output and execution, or code, message and details; and lasting (see `_END`)

A task with an Idempotency-Key has more fields (`idempotency_scripts.py`).

The script that ends a task adds its row for the ledger in the same step, if a ledger is kept, so that neither can
be lost without the other. A record without the field `created` gets no row here: the gateway that waits for the
request writes it.
"""

from penstock.adapters.redis.link.scripts import NOW, Script
from penstock.adapters.redis.records.holdings import HOLD
from penstock.errors import Overloaded
from penstock.share import OVERHEAD

# The time as the records hold it: `now` is text.
STAMP = f"""{NOW}
now = string.format('%.0f', now)
"""
OVER = """
local status = redis.call('HGET', KEYS[1], 'status')
local over = status == 'SUCCESS' or status == 'FAILED' or status == 'EXPIRED' or status == 'CANCELLED'
if status ~= 'PENDING' and status ~= 'PROCESSING' and not over then status = false end  -- the key holds no task
"""
MOST_ENDED = 10_000  # tasks in a bucket that have ended and that no ledger has taken yet
# `finish` writes how a task ended, once. The record is kept from then on for as long as results are. `lasting` is
# '0' if the same request might end otherwise another time.
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

# KEYS ended, crowded out; ARGV ms they are kept from now on. Makes or keeps the stream of ended tasks, which exists
# only while a gateway with a ledger asks for it. Returns how many rows were dropped since the last call, because
# the stream was full.
EXPECT = Script("""
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then
  redis.call('XDEL', KEYS[1], redis.call('XADD', KEYS[1], '*', 'hello', ''))
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local gone = redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[2])
return math.min(tonumber(gone) or 0, 1e9)
""")

# Makes a task.
#   KEYS     task, watch, books
#   ARGV     id, tenant, tier, key, model, ms it is kept once over, ms it is kept until then, the mailbox that is
#            told of its end (or ''), for how many ms at most, its bytes, the bounds of all tasks (number, bytes,
#            a tenant's share), the dead letter that it retries (or '')
#   returns  1, or 0 when there is a task with this id, or why there is no room (`share.Full`)
# Results that have been read make room for it. A task that retries a dead letter replaces a task that is over,
# unless that task was made for the same letter.
CREATE = Script(
    STAMP
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

# KEYS task, books. Deletes a task; returns 1, or 0 when there is no such task.
DROP = Script(
    STAMP
    + HOLD
    + """
open_books(owner(KEYS[1]))
give(KEYS[1], redis.call('HGET', KEYS[1], 'held'))
close_books()
redis.call('ZREM', shelf(tenant), KEYS[1])
return redis.call('DEL', KEYS[1])
"""
)

# KEYS task; ARGV shard. Notes where its request went; returns 1, or 0 when there is no such task.
PLACE = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'shard', ARGV[1])
return 1
""")

# KEYS task. Notes that the task is being processed; returns 1, or 0 when it is not pending any more.
PROCESS = Script(
    STAMP
    + """
if redis.call('HGET', KEYS[1], 'status') ~= 'PENDING' then return 0 end
redis.call('HSET', KEYS[1], 'status', 'PROCESSING', 'changed', now)
return 1
"""
)

# KEYS task, watch, ended, crowded out, books; ARGV status, output, code, message, details, execution, lasting. Ends
# a task; returns {1 if this was the first ending, watching mailboxes...}. The mailboxes are returned every time: a
# caller that settles twice got no answer the first time, so it told nobody.
SETTLE = Script(
    STAMP
    + HOLD
    + OVER
    + _END
    + """
if not status then return {0} end
if not over then finish(unpack(ARGV)) end
return {over and 0 or 1, unpack(redis.call('SMEMBERS', KEYS[2]))}
"""
)

# KEYS task, watch, ended, crowded out, books; ARGV tenant, code, message. Cancels a task. Returns {} when there is
# no such task of this tenant, else {1 if this ended it, shard, key, watching mailboxes...}.
CANCEL = Script(
    STAMP
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

# KEYS task, watch, books; ARGV mailbox, ms to watch. Returns the record. If the task is not over, the mailbox will
# be told of its end; if it is over, its result counts as read.
WATCH = Script(
    STAMP
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

# KEYS task, books. Returns the record. If the task is over, its result counts as read.
READ = Script(
    STAMP
    + HOLD
    + OVER
    + """
if over then seen(KEYS[1]) end
return redis.call('HGETALL', KEYS[1])
"""
)
