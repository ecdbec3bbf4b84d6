"""What must happen in Redis in one step, in Lua.

Each may run when the memory is full (`allow-oom`), unless it says otherwise: they keep the books, and their writes
are small.
Times are the server's own, read inside the script; no process sends one.
"""

from collections.abc import Sequence
from hashlib import sha1
from typing import Any

from redis.exceptions import NoScriptError

from penstock.adapters.redis.link.connect import Client, Store

Argument = str | bytes | int | float
Call = tuple[Sequence[str | bytes], Sequence[Argument]]  # keys, arguments


class Script:
    """A script that is sent by its digest, or by its text where the server has not seen it (a restart, a flush, a
    failover)."""

    __slots__ = ("_digest", "_text")

    def __init__(self, text: str, flags: str = "allow-oom") -> None:
        self._text = f"#!lua flags={flags}\n{text}"
        self._digest = sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, client: Client, keys: Sequence[str], args: Sequence[Argument] = ()) -> Any:
        try:
            return await client.execute_command("EVALSHA", self._digest, len(keys), *keys, *args)
        except NoScriptError:
            return await client.execute_command("EVAL", self._text, len(keys), *keys, *args)

    async def each(self, store: Store, calls: Sequence[Call]) -> list[Any]:
        """The answer to each call, or the error it met."""
        answers = await store.each(
            [("EVALSHA", self._digest, len(keys), *keys, *args) for keys, args in calls]
        )
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        again = await store.each(
            [("EVAL", self._text, len(calls[i][0]), *calls[i][0], *calls[i][1]) for i in unknown]
        )
        for index, answer in zip(unknown, again, strict=True):
            answers[index] = answer
        return answers


# Stamps one member and reads them all.
#   KEYS  pulse, models, then a hash for each kind of member
#   ARGV  index of the own kind (1...), own name, own description, lease ms, ms until one is forgotten
#   gives {ms of unbroken service, models, then for each kind {name, age ms, description, ...}, and last what was
#   taken out, because it is no member or has long been silent: {key, name, value, ...}}
# Service is broken when nobody at all has beaten for half a lease, or the server's clock went back: then
# Redis was away, not the members, and their age counts from now.
BEAT = Script("""
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local lease, forget = tonumber(ARGV[4]), tonumber(ARGV[5])
local pulse = redis.call('HMGET', KEYS[1], 'last', 'since')
local last, since = tonumber(pulse[1]), tonumber(pulse[2])
local unbroken = last and since and last <= now and now - last <= lease / 2 and since <= now
if not unbroken then since = now end
redis.call('HSET', KEYS[1], 'last', string.format('%.0f', now), 'since', string.format('%.0f', since))
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[2 + ARGV[1]], ARGV[2], string.format('%.0f', now) .. ' ' .. ARGV[3])
end
local answer, strange = {now - since, redis.call('HGETALL', KEYS[2])}, {}
for kind = 3, #KEYS do
  local entries, seen = redis.call('HGETALL', KEYS[kind]), {}
  for i = 1, #entries, 2 do
    local stamp, description = string.match(entries[i + 1], '^(%d+) (.*)$')
    stamp = tonumber(stamp)
    if stamp and (stamp > now or stamp < since) then stamp = since end
    if not stamp or now - stamp > forget then
      redis.call('HDEL', KEYS[kind], entries[i])
      for _, each in ipairs({KEYS[kind], entries[i], entries[i + 1]}) do strange[#strange + 1] = each end
    else
      seen[#seen + 1] = entries[i]
      seen[#seen + 1] = now - stamp
      seen[#seen + 1] = description
    end
  end
  answer[#answer + 1] = seen
end
answer[#answer + 1] = strange
return answer
""")

# `holder`: who holds a lease. A value that does not say so, or does not end within an hour (or ten times our own
# lease), is nobody's: it would keep everybody from the shard for ever.
HOLDER = """
local held, owner, number = redis.call('GET', KEYS[1]), nil, nil
if held then
  owner, number = string.match(held, '^(.*):(%d+)$')
  local left = redis.call('PTTL', KEYS[1])
  local counts = owner and #number <= 15 and tonumber(number) > 0
  if not counts or left < 0 or left > math.max(3600000, 10 * ARGV[2]) then owner = nil end
end
"""

# KEYS lease; ARGV owner, lease ms. Gives 0 for one that this owner may take, 1 for one that another holds, and the
# value of one that is nobody's.
LEASE_HELD = Script(
    HOLDER
    + """
if not held or owner == ARGV[1] then return 0 end
return owner and 1 or held
"""
)

# KEYS lease, fence; ARGV owner, lease ms. Gives the fence number, 0 when another holds it. A counter that does not
# count is begun anew with the time, which no shard has changed hands as often as.
LEASE_TAKE = Script(
    HOLDER
    + """
if owner then
  if owner ~= ARGV[1] then return 0 end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(number)
end
local fence = redis.pcall('INCR', KEYS[2])
if type(fence) == 'table' or fence < 1 then
  fence = redis.call('TIME')[1]
  redis.call('SET', KEYS[2], fence)
end
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence, 'PX', ARGV[2])
return tonumber(fence)
"""
)

# KEYS lease; ARGV owner, fence, lease ms. Gives 1, or 0 when it is not ours any more.
LEASE_RENEW = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ':' .. ARGV[2] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
""")

# KEYS lease; ARGV owner, fence. Gives 1, or 0 when it was not ours any more.
LEASE_RELEASE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ':' .. ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
""")

# KEYS box; ARGV lifetime ms. Gives the id of the entry that makes the stream; 0 when it was there.
BOX_CREATE = Script("""
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then return 0 end
local hello = redis.call('XADD', KEYS[1], '*', 'hello', '')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return hello
""")

# KEYS idle; ARGV slot. Gives 1, or 0 when the slot waits already: it keeps its place.
# Scores order only those that wait together, so the next one is one more than the last one's.
CREDIT_POST = Script("""
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
return redis.call('ZADD', KEYS[1], 'NX', (tonumber(last[2]) or 0) + 1, ARGV[1])
""")

# KEYS stream; ARGV group, consumer. Gives 1, or 0 when it still has entries pending (deleting it would
# lose track of them) or there is no such group.
DROP_CONSUMER = Script("""
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if pending.err or #pending > 0 then return 0 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
""")

# KEYS stream; ARGV group, ids... Gives how many were pending. An acknowledged entry has no further use,
# and XACK alone would leave it in the stream.
ACK = Script("""
local acknowledged = 0
for first = 2, #ARGV, 1000 do
  local last = math.min(first + 999, #ARGV)
  acknowledged = acknowledged + redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, first, last))
  redis.call('XDEL', KEYS[1], unpack(ARGV, first, last))
end
return acknowledged
""")
