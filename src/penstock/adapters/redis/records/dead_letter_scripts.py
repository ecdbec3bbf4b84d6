"""The Lua scripts of dead letters. Only `dead_letters.py` runs them. Each changes the letters and the books (how
much each tenant holds of them) in one step.

    letters   stream: fields d (the letter) and t (its tenant)
    held      hash: the books, `totals` in the scripts (see `holdings.py`)
    held:T    list: the ids of tenant T's letters, the oldest first; the tenant's `shelf`

If the books do not agree with the stream, they are made anew from it. Somebody may have deleted letters by hand, or
an older version of Penstock may have written some.
"""

from penstock.adapters.redis.link.scripts import NOW, Script
from penstock.adapters.redis.records.holdings import COUNT, FULL
from penstock.share import OVERHEAD

# Functions for scripts whose KEYS are letters, held.
#   drop(entry)         removes a letter: an entry of the stream, as XRANGE returns it
#   drop_old(ms)        removes the letters that have been kept for so long
#   forget_books()      deletes the books
#   check_books()       makes the books anew if they do not agree with the stream
_LETTERS = (
    """
local letters, totals = KEYS[1], KEYS[2]
"""
    + COUNT
    + FULL
    + f"""
local function shelf(tenant) return totals .. ':' .. tenant end
local function read(entry)
  local tenant, size = '', {OVERHEAD}
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 't' then tenant = entry[2][i + 1] end
    if entry[2][i] == 'd' then size = size + #entry[2][i + 1] end
  end
  return tenant, size
end
local function drop(entry)
  local tenant, size = read(entry)
  redis.call('XDEL', letters, entry[1])
  redis.call('LREM', shelf(tenant), 1, entry[1])
  count(tenant, -1, -size)
end
local function drop_old(ms)
{NOW}
  local last = string.format('%.0f', now - ms)
  for _ = 1, 1000 do
    local old = redis.call('XRANGE', letters, '-', last, 'COUNT', 1)[1]
    if not old then return end
    drop(old)
  end
end
local function forget_books()
  for _, field in ipairs(redis.call('HKEYS', totals)) do
    local tenant = string.match(field, '^n:(.*)$')
    if tenant then redis.call('DEL', shelf(tenant)) end
  end
  redis.call('DEL', totals)
end
local function check_books()
  if tonumber(redis.call('HGET', totals, 'n') or 0) == redis.call('XLEN', letters) then return end
  forget_books()
  local from = '-'
  while true do
    local entry = redis.call('XRANGE', letters, from, '+', 'COUNT', 1)[1]
    if not entry then return end
    local tenant, size = read(entry)
    redis.call('RPUSH', shelf(tenant), entry[1])
    count(tenant, 1, size)
    from = '(' .. entry[1]
  end
end
"""
)

# KEYS letters, held; ARGV tenant, letter, ms that letters are kept, and the bounds of all letters: number, bytes
# and a tenant's share. Adds a letter. Returns its id, and how many letters were removed to make room for it: the
# oldest of its tenant, and if all tenants together have too many, the oldest of all. Redis refuses it while its
# memory is full.
ADD = Script(
    _LETTERS
    + """
local tenant, ms = ARGV[1], ARGV[3]
local limit = {ARGV[4], ARGV[5], ARGV[6]}
check_books()
drop_old(ms)
local id = redis.call('XADD', letters, '*', 'd', ARGV[2], 't', tenant)
redis.call('RPUSH', shelf(tenant), id)
local _, size = read({id, {'d', ARGV[2]}})
count(tenant, 1, size)
local dropped = 0
while redis.call('XLEN', letters) > 0 do
  local oldest
  local figures = redis.call('HMGET', totals, 'n', 'b', 'n:' .. tenant, 'b:' .. tenant)
  for i = 1, 4 do figures[i] = tonumber(figures[i] or 0) end
  if full(tenant, figures, limit, true) then oldest = redis.call('LINDEX', shelf(tenant), 0) end
  if not oldest and not full('', figures, limit, true) then break end
  local entry = redis.call('XRANGE', letters, oldest or '-', oldest or '+', 'COUNT', 1)[1]
  if entry then
    drop(entry)
    dropped = dropped + 1
  else
    redis.call('LPOP', shelf(tenant))
  end
end
for _, key in ipairs({letters, totals, shelf(tenant)}) do redis.call('PEXPIRE', key, ms) end
return {id, dropped}
""",
    flags="",
)

# KEYS letters, held; ARGV id. Removes a letter; returns 1, or 0 when there is none with this id.
REMOVE = Script(
    _LETTERS
    + """
local entry = redis.call('XRANGE', letters, ARGV[1], ARGV[1])[1]
if not entry then return 0 end
check_books()
drop(entry)
return 1
"""
)

# KEYS letters, held. Removes all letters; returns how many there were.
PURGE = Script(
    _LETTERS
    + """
forget_books()
return redis.call('XTRIM', letters, 'MAXLEN', 0)
"""
)

# KEYS letters, held; ARGV ms that letters are kept. Removes those that have been kept for so long.
DROP_OLD = Script(
    _LETTERS
    + """
check_books()
drop_old(ARGV[1])
"""
)
