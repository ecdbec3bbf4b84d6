"""The Lua script of shared quotas: it takes the gateways' reports of use, and shares out what is free. A gateway's
limiter runs it when it settles (`quotas.py`).

For each tenant Redis keeps one packed value of six parts:
    used    the requests that were let in: a row of (when in ms, count), dated half-way between two reports. Each
            pair stands for a hundredth of the minute's limit, or for a second, so that the row is short and still
            tells when a burst was
    held    {gateway, allowance, demand, room, stamp, ...}: what each gateway may still let in without asking, and
            how many requests it may have in flight
    full    when the burst bucket is full again, in ms
    marked  when the gateways were last told that the tenant is short: less than half of its minute is left, or one
            gateway has more in flight than its equal part
    total   the sum of `used`. A request counts for a minute, less the tick until the next settlement
    since   when the tenant came
What is neither used nor held is free.

A gateway reports what it used, gives back what it did not use, and gets its next allowance: its part, by demand, of
what is left. That is no more than it needs for a while, so that load may move to other gateways. So use exceeds the
limit only by what gateways let in before they first asked (see `quotas.py`). Requests in flight are shared out in
the same way: the rooms of gateways never add up to more than the limit, except that each has room for one. For half
a second after a tenant has come, parts are equal, and the parts of gateways that have not reported yet are kept for
them.

The row is kept as bytes, and a call reads only its ends. The values are in two hashes that take turns every two
minutes: idle tenants go with the older hash, and a call needs the same few commands for one tenant or many.

If a value cannot be read, its tenant begins anew; other tenants are not affected.
"""

from penstock.adapters.redis.link.scripts import NOW, Script

SHARE = 1_000_000  # the script answers shares in millionths, because Redis turns its numbers into whole ones

# KEYS  two hashes, marks
# ARGV  gateway, how many gateways there are, marks since, ms until a silent gateway no longer holds anything, then
#       for each tenant: name, limit, burst (0: none), used, demand in 1/1000 a second, in flight, the limit on
#       those (0: none), whether it stays
# returns {now, tenants marked, then for each tenant {allowance, left, ms until some of what is used no longer
#       counts, share, room, and its old value if that could not be read}}
BODY = """
local me, gateways = ARGV[1], tonumber(ARGV[2])
local since, forget, counts = ARGV[3], tonumber(ARGV[4]), 59900
local turn = math.floor(now / 120000)
local young, old = KEYS[1 + turn % 2], KEYS[1 + (turn + 1) % 2]
local names, values, marks = {}, {}, {}
for i = 5, #ARGV, 8 do names[#names + 1] = ':' .. ARGV[i] end
local answer = {now, redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. since, '+inf')}
if #names == 0 then return answer end
if redis.call('HGET', young, 'turn') ~= string.format('%.0f', turn) then
  redis.call('DEL', young)
  redis.call('HSET', young, 'turn', string.format('%.0f', turn))
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now - 120000))
end
local recent, elder = redis.call('HMGET', young, unpack(names)), redis.call('HMGET', old, unpack(names))

local function plausible(was)
  if type(was) ~= 'table' or type(was[1]) ~= 'string' or #was[1] % 10 ~= 0 then return false end
  if type(was[2]) ~= 'table' or #was[2] % 5 ~= 0 then return false end
  for k = 3, 6 do
    if type(was[k]) ~= 'number' or not (math.abs(was[k]) < 1e15) then return false end
  end
  return was[3] < now + 3600000
end

local function settle(n, was)
  local i = 5 + (n - 1) * 8
  local limit, burst, spent = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local demand, busy, most = tonumber(ARGV[i + 4]) / 1000, tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
  local held, mine, others, wanted, elsewhere, last, met = {}, 0, 0, demand, 0, now, false
  for j = 1, #was[2], 5 do
    local stamp = was[2][j + 4]
    if stamp <= now and was[2][j] == me then mine, last, met = was[2][j + 1], stamp, true
    elseif stamp <= now and now - stamp < forget then
      for k = 0, 4 do held[#held + 1] = was[2][j + k] end
      others, wanted, elsewhere = others + was[2][j + 1], wanted + was[2][j + 2], elsewhere + was[2][j + 3]
    end
  end

  local used, total, first, last_used, latest = was[1], was[5], 1, 0, 0
  if #used > 0 then last_used, latest = struct.unpack('>I6i4', used, #used - 9) end
  if last_used > now then used, total = '', 0 end  -- the clock went back: nobody knows
  local oldest = 0
  while first < #used do
    local at, count = struct.unpack('>I6i4', used, first)
    oldest = at
    if at > now - counts then break end
    total, first = total - count, first + 10
  end
  used, total = string.sub(used, first), total + spent
  if spent ~= 0 then  -- less than nought: what was refused after it had been reported
    local at, count = math.floor((last + now) / 2), spent
    local lump = at - last_used < 1000 and latest * 100 < limit
    if #used > 0 and (lump or spent < 0 or at <= last_used) then
      used, count = string.sub(used, 1, -11), latest + spent
      local moves = spent > 0 and latest > 0 and at > last_used
      at = moves and math.floor(last_used + (at - last_used) * spent / count) or last_used
    end
    if #used == 0 then oldest = at end
    used = used .. struct.pack('>I6i4', at, count)
  end

  local left = math.max(0, limit - total)
  local free, full, interval = left - others, 0, 60000 / limit
  if burst > 0 then
    full = math.max(now, was[3] - (mine - spent) * interval)
    free = math.min(free, math.floor(burst - (full - now) / interval + 0.001))
  end
  local share, least = 1 / gateways, 1 / (4 * gateways)
  if wanted > 0 then share = demand / wanted end
  local whole = math.max(0, free) + others
  local part = math.min(whole * math.max(share, least), math.max(demand, whole * least))
  local grant = math.max(0, math.min(free, math.max(1, math.floor(part))))

  local equal, came = math.ceil(most / gateways), was[6]
  if (#held == 0 and not met) or came > now then came = now end
  local fresh, places = now - came < 500, math.max(0, most - busy - elsewhere)
  if fresh then places = places - math.max(0, gateways - 1 - #held / 5) * equal
  else places = math.ceil(places * math.max(share, least)) end
  local room = math.max(1, math.min(busy + math.max(0, places), math.max(fresh and busy or 2 * busy, equal)))

  if ARGV[i + 7] == '0' then grant = 0
  else
    for _, each in ipairs({me, grant, demand, most > 0 and room or 0, now}) do held[#held + 1] = each end
  end
  if burst > 0 then full = full + grant * interval end
  assert(grant == grant and left == left and share == share and room == room)

  local marked = was[4]
  if (left * 2 < limit or (most > 0 and room > equal)) and (now - marked > 20000 or marked > now) then
    marked = now
    marks[#marks + 1], marks[#marks + 2] = string.format('%.0f', now), ARGV[i]
  end
  values[#values + 1], values[#values + 2] = names[n], cmsgpack.pack({used, held, full, marked, total, came})
  local reset = 60000
  if #used > 0 then reset = oldest + counts - now end
  if grant < 1 and left - others >= 1 then reset = math.ceil(interval)  -- the next drop of the burst bucket
  elseif grant < 1 and left >= 1 then reset = 100 end  -- others hold it, and may give it back
  answer[#answer + 1] = {grant, left, reset, math.floor(share * 1000000), room}
end

for n = 1, #names do
  local packed = recent[n] or elder[n]
  local read, was = true, nil
  if packed then
    read, was = pcall(cmsgpack.unpack, packed)
    read = read and plausible(was) and pcall(settle, n, was)
  end
  if not packed or not read then settle(n, {'', {}, 0, 0, 0, now}) end
  if not read then answer[#answer][6] = packed end
end
redis.call('HSET', young, unpack(values))
redis.call('PEXPIRE', young, 300000)
if #marks > 0 then
  redis.call('ZADD', KEYS[3], unpack(marks))
  redis.call('PEXPIRE', KEYS[3], 300000)
end
return answer
"""

SETTLE = Script(NOW + BODY)
