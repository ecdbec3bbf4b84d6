"""The books: what each tenant holds in Redis of tasks, requests with an Idempotency-Key, and dead letters. A script
changes the books in the same step as the thing itself. This file has the rules of `penstock/share.py` as pieces of
Lua, and the bounds, which `roles/redis.py` makes by the configuration. The scripts of tasks, keys and letters are
put together with these pieces; nothing here runs by itself. The books of tasks and keyed requests are:

    totals   hash: n and b (number and bytes of all), n:TENANT and b:TENANT, and the bounds as last set
    index    sorted set: SIZE:KEY, by the time at which the key expires
    shelf    sorted set of a tenant: the keys of what is over, in the order in which they make room

The index counts. The next script that makes a task or claims a key strikes off what has expired, so a process that
dies leaves nothing behind. If the totals do not agree with the index, they are counted anew. Dead letters have
totals without the bounds, no index, and a list as shelf: `dead_letter_scripts.py` describes their books.

A script in a cluster sees the keys of one node only. So in a cluster each of the 16 buckets of tasks has books of
its own, and a 16th of the bounds.
"""

from dataclasses import dataclass

from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.link.names import TASK_BUCKETS
from penstock.errors import Refused
from penstock.share import LITTLE, RESERVED, Full, refusal

MIB = 2**20
NO_BOUND = 2**50  # stands for a bound where there is none
# The parts of the memory that Penstock may use which tasks, keyed requests and letters may take. The rest is for
# requests on their way.
TASKS_PART, KEYED_PART, LETTERS_PART = 0.25, 0.25, 0.1


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one kind of thing, and the names of their settings, which a refusal tells."""

    number: int
    size: int  # bytes
    share: float = 1.0  # the part of both that one tenant may hold
    of_memory: float = 1.0  # the part of Redis' maxmemory that these things may take at most
    things: str = "tasks"
    number_setting: str = ""  # empty: their number is not bounded
    bytes_setting: str = ""

    def arguments(self, store: Store) -> list[int | float]:
        """Returns number, bytes and share, as the scripts of tasks and keys take them."""
        parts = TASK_BUCKETS if store.clustered else 1
        return [max(1, self.number // parts), self._bytes(store) // parts, self.share]

    def whole(self, store: Store) -> list[int | float]:
        """Returns number, bytes and share for dead letters, which are all on one node even in a cluster."""
        return [self.number, self._bytes(store), self.share]

    def _bytes(self, store: Store) -> int:
        limit = store.maxmemory
        return min(self.size, int(self.of_memory * limit)) if limit else self.size

    def refusal(self, why: bytes, store: Store, retry_after: float) -> Refused:
        """Returns the refusal of something for which there is no room. `why`: what the script answered."""
        said = f"{self.number_setting} is {self.number} and " if self.number_setting else ""
        said += f"{self.bytes_setting} is {self.size}"
        allowed = self._bytes(store)
        if allowed < self.size:
            said += f", of which Redis' maxmemory allows {allowed}"
        return refusal(Full(why.decode()), self.things, said, self.share, retry_after)


def tasks(
    number: int = 100_000, size: int = 512 * MIB, share: float = 1.0, memory_limit: float = 1.0
) -> Bounds:
    """Returns the bounds of tasks. `memory_limit`: the part of maxmemory that all of Penstock may use."""
    part = TASKS_PART * memory_limit
    return Bounds(number, size, share, part, "tasks", "limits.max_tasks", "limits.max_task_bytes")


def keyed(size: int = 512 * MIB, share: float = 1.0, memory_limit: float = 1.0) -> Bounds:
    """Returns the bounds of requests with an Idempotency-Key. `memory_limit`: as in `tasks`."""
    things, part = "requests with an Idempotency-Key", KEYED_PART * memory_limit
    return Bounds(NO_BOUND, size, share, part, things, bytes_setting="idempotency.max_bytes")


def letters(
    number: int = 10_000, size: int = 64 * MIB, share: float = 1.0, memory_limit: float = 1.0
) -> Bounds:
    """Returns the bounds of dead letters. `memory_limit`: as in `tasks`."""
    return Bounds(number, size, share, LETTERS_PART * memory_limit)


# `full` returns why a tenant may hold no more, or false. `figures`: number and bytes of all, then of the tenant, as
# they would be. `limit`: number, bytes, share. `grown`: the tenant has the thing already, and it has only grown.
FULL = f"""
local function full(tenant, figures, limit, grown)
  local most, most_bytes, share = tonumber(limit[1]), tonumber(limit[2]), tonumber(limit[3])
  if not most then return false end
  local all, all_bytes, mine, my_bytes = figures[1], figures[2], figures[3], figures[4]
  local little = mine <= 1 or (mine <= most / {LITTLE} and my_bytes <= most_bytes / {LITTLE})
  if tenant ~= '' and share < 1 and not little then
    if mine > share * most or my_bytes > share * most_bytes then return '{Full.TENANT}' end
    local open = {1 - RESERVED}
    if all > open * most or all_bytes > open * most_bytes then return '{Full.TOTAL}' end
  end
  if tenant ~= '' and grown and little then return false end
  return (all > most or all_bytes > most_bytes) and '{Full.TOTAL}'
end
"""

# `count` adds to the totals. A script defines `totals` before it.
COUNT = """
local function count(tenant, things, size)
  redis.call('HINCRBY', totals, 'n', things)
  redis.call('HINCRBY', totals, 'b', size)
  redis.call('HINCRBY', totals, 'b:' .. tenant, size)
  if redis.call('HINCRBY', totals, 'n:' .. tenant, things) <= 0 then
    redis.call('HDEL', totals, 'n:' .. tenant, 'b:' .. tenant)
  end
end
"""

_MARGIN = 3_600_000  # milliseconds that the books outlive what they count

# Functions for scripts on tasks and keyed requests, whose last two KEYS are totals and index. A script defines
# `now` before them (`task_scripts.STAMP`). The books of one tenant are opened, changed and closed, so that a script
# reads and writes them once.
#   check_books()                       strikes off what has expired; called before the books are opened
#   open_books(tenant)                  reads the tenant's figures and the bounds
#   give(key, size)                     notes that the tenant does not hold the key any more
#   take(key, size, ms)                 notes that the tenant holds the key for so long; its record has the size
#   put_by(key, ms, keep, unread)       puts the key on the shelf: it may make room; what nobody has read comes last
#   make_room(size, most, grown)        removes what is on the shelf, up to this score; returns why there is still
#                                       no room, or false
#   close_books(keep)                   writes the figures; `keep`: ms that things are kept at most
#   seen(key)                           notes that the result has been read; works while the books are closed
HOLD = (
    FULL
    + """
local totals, index = KEYS[#KEYS - 1], KEYS[#KEYS]
local UNREAD = 100000000000000
local tenant, figures, limit
local function whole(number) return string.format('%.0f', number) end
local function owner(key) return string.match(key, '}:task:(.*)/') end
local function shelf(whose) return totals .. ':of:' .. whose end
local function open_books(whose)
  local had = redis.call('HMGET', totals, 'n', 'b', 'n:' .. whose, 'b:' .. whose, 'most', 'most_bytes', 'share')
  tenant, limit, figures = whose, {had[5], had[6], had[7]}, {}
  for i = 1, 4 do figures[i] = tonumber(had[i] or 0) end
end
local function close_books(keep)
  redis.call('HSET', totals, 'n', whole(figures[1]), 'b', whole(figures[2]),
    'n:' .. tenant, whole(figures[3]), 'b:' .. tenant, whole(figures[4]),
    'most', limit[1] or '', 'most_bytes', limit[2] or '', 'share', limit[3] or '')
  if figures[3] <= 0 then redis.call('HDEL', totals, 'n:' .. tenant, 'b:' .. tenant) end
  if keep then
    redis.call('PEXPIRE', totals, whole(keep + MARGIN))
    redis.call('PEXPIRE', index, whole(keep + MARGIN))
  end
end
local function with(things, size)
  return {figures[1] + things, figures[2] + size, figures[3] + things, figures[4] + size}
end
local function give(key, size)
  if size and redis.call('ZREM', index, size .. ':' .. key) == 1 then figures = with(-1, -size) end
end
local function take(key, size, ms)
  if redis.call('ZADD', index, whole(now + ms), size .. ':' .. key) == 1 then figures = with(1, size) end
end
local function put_by(key, ms, keep, unread)
  redis.call('ZADD', shelf(tenant), whole(now + ms + (unread and UNREAD or 0)), key)
  redis.call('PEXPIRE', shelf(tenant), whole(keep + MARGIN))
end
local function make_room(size, most, grown)
  local why = full(tenant, with(1, size), limit, grown)
  for _ = 1, 1000 do
    if not why then return false end
    local oldest = redis.call('ZRANGEBYSCORE', shelf(tenant), '-inf', most, 'LIMIT', 0, 1)[1]
    if not oldest then return why end
    give(oldest, redis.call('HGET', oldest, 'held'))
    redis.call('ZREM', shelf(tenant), oldest)
    redis.call('UNLINK', oldest)
    why = full(tenant, with(1, size), limit, grown)
  end
  return not grown and why  -- there is more that may go: the next one goes on with it
end
local function seen(key)
  local mine = shelf(owner(key))
  local score = tonumber(redis.call('ZSCORE', mine, key) or 0)
  if score >= UNREAD then redis.call('ZADD', mine, whole(score - UNREAD), key) end
end
local function recount()
  local sums, all, all_bytes = {}, 0, 0
  for _, member in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    local size, key = string.match(member, '^(%d+):(.*)$')
    local whose = owner(key)
    local sum = sums[whose] or {0, 0}
    sums[whose] = {sum[1] + 1, sum[2] + size}
    all, all_bytes = all + 1, all_bytes + size
  end
  redis.call('DEL', totals)
  redis.call('HSET', totals, 'n', all, 'b', whole(all_bytes))
  for whose, sum in pairs(sums) do
    redis.call('HSET', totals, 'n:' .. whose, sum[1], 'b:' .. whose, whole(sum[2]))
  end
end
"""
    + COUNT
    + """
local function check_books()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, 1000)) do
    redis.call('ZREM', index, member)
    local size, key = string.match(member, '^(%d+):(.*)$')
    count(owner(key), -1, -size)
    if redis.call('EXISTS', key) == 0 then redis.call('ZREM', shelf(owner(key)), key) end
  end
  if tonumber(redis.call('HGET', totals, 'n') or 0) ~= redis.call('ZCARD', index) then recount() end
end
"""
).replace("MARGIN", str(_MARGIN))
