"""The Lua scripts of the bus: for the registry, leases, mailboxes, the line of idle slots, and shards. The other
files of this folder run them, each for its own part."""

from penstock.adapters.redis.link.scripts import NOW, Script

# Notes that one member is alive now, and returns all members.
#   KEYS     pulse, models, then a hash for each kind of member
#   ARGV     index of the own kind (1...), own name, own heartbeat, lease ms, ms until a member is forgotten
#   returns  {ms of unbroken service, models, then for each kind {name, age ms, heartbeat, ...}, and last the
#            entries that were removed, because they could not be read or their member has long been silent:
#            {key, name, value, ...}}
# Service is broken when no member at all has sent a heartbeat for half a lease, or the server's clock went back.
# Then Redis was away, and not the members, and their age counts from now.
BEAT = Script(
    NOW
    + """
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
"""
)

# Sets `held` to a lease's value, and `owner` and `number` to the batcher and the fence number that it names.
# `owner` is nil if the value names no batcher, or does not end within an hour (or ten times our own lease): it
# would keep everybody from the shard for ever.
HOLDER = """
local held, owner, number = redis.call('GET', KEYS[1]), nil, nil
if held then
  owner, number = string.match(held, '^(.*):(%d+)$')
  local left = redis.call('PTTL', KEYS[1])
  local counts = owner and #number <= 15 and tonumber(number) > 0
  if not counts or left < 0 or left > math.max(3600000, 10 * ARGV[2]) then owner = nil end
end
"""

# KEYS lease; ARGV owner, lease ms. Returns 0 if this owner may take the lease, 1 if another owner holds it, and the
# value of the key if it is no valid lease.
LEASE_HELD = Script(
    HOLDER
    + """
if not held or owner == ARGV[1] then return 0 end
return owner and 1 or held
"""
)

# KEYS lease, fence; ARGV owner, lease ms. Takes a lease; returns the fence number, or 0 when another owner holds
# the lease. If the fence key holds no positive number, the fence starts again from the current time in seconds,
# which is larger than any fence number given out before.
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

# KEYS lease; ARGV owner, fence, lease ms. Renews a lease; returns 1, or 0 when it is not this owner's any more.
LEASE_RENEW = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ':' .. ARGV[2] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
""")

# KEYS lease; ARGV owner, fence. Gives a lease back; returns 1, or 0 when it was not this owner's any more.
LEASE_RELEASE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ':' .. ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
""")

# KEYS mailbox; ARGV lifetime ms. Makes a mailbox, or lengthens its life. Returns the id of its first entry, or 0 if
# the stream existed already.
BOX_CREATE = Script("""
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then return 0 end
local hello = redis.call('XADD', KEYS[1], '*', 'hello', '')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return hello
""")

# KEYS idle; ARGV slot. Puts a slot at the end of the line; returns 1, or 0 when it stands there already and keeps
# its place. A slot's score is one more than that of the last one in the line.
CREDIT_POST = Script("""
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
return redis.call('ZADD', KEYS[1], 'NX', (tonumber(last[2]) or 0) + 1, ARGV[1])
""")

# KEYS stream; ARGV group, consumer. Deletes a consumer; returns 1, or 0 when it still has entries pending (they
# would be lost) or there is no such group.
DROP_CONSUMER = Script("""
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if pending.err or #pending > 0 then return 0 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
""")

# KEYS stream; ARGV group, ids... Acknowledges and deletes entries; returns how many were pending. XACK alone would
# leave them in the stream, where they have no further use.
ACK = Script("""
local acknowledged = 0
for first = 2, #ARGV, 1000 do
  local last = math.min(first + 999, #ARGV)
  acknowledged = acknowledged + redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, first, last))
  redis.call('XDEL', KEYS[1], unpack(ARGV, first, last))
end
return acknowledged
""")
