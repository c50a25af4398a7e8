"""The Lua scripts of the guard, which Redis runs one at a time.

For each plugin Redis holds three keys. `slots` is a hash: by process, the slots of the bulkhead that it holds, when they expire,
and its calls under way (`3 1767225600000 1`). `circuit` is a hash: `failures` in a row, the `cause` of the last and when it
`failed`, when the circuit was `opened`, and the `probe` that may pass although it is open, with `probe_until`. `recent` is a list
of attempts. They are KEYS 1, 2 and 3; KEYS 4 is the hash of all plugins' totals (`pipeline_core.metrics.totals`). Times are
Redis's own, in milliseconds.
"""

from __future__ import annotations

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_HOLD = """
local function hold(process, slots, calls, lease)
  if slots == 0 then
    redis.call('HDEL', KEYS[1], process)
    return
  end
  redis.call('HSET', KEYS[1], process, string.format('%d %d %d', slots, now + lease, calls))
  redis.call('PEXPIRE', KEYS[1], lease)
end
"""

TAKE = (
    _NOW
    + _HOLD
    + """
local process, calls, wanted, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lease, probe, span, open = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'probe_until', 'cause', 'failures')
local opened, probed, cause = tonumber(circuit[1]), tonumber(circuit[2]), circuit[3] or ''
if opened then
  if now < opened + open then return {'open', opened + open - now, cause, 0} end
  if probed and now < probed then return {'open', math.min(open, probed - now), cause, 0} end
end
local free = limit
local entries = redis.call('HGETALL', KEYS[1])
for index = 1, #entries, 2 do
  local slots, expiry = string.match(entries[index + 1], '(%d+) (%d+)')
  if tonumber(expiry) <= now then
    redis.call('HDEL', KEYS[1], entries[index])
  elseif entries[index] ~= process then
    free = free - tonumber(slots)
  end
end
if free < calls then return {'full', 0, '', 0} end
if opened then redis.call('HSET', KEYS[2], 'probe', probe, 'probe_until', now + span) end
local slots = math.min(wanted, free)
hold(process, slots, calls, lease)
return {opened and 'probe' or 'in', tonumber(circuit[4]) or 0, '', slots}
"""
)
"""Before an attempt. Arguments: process, its calls with this one, slots wanted, limit, lease, a probe's ID and longest time, open
time. Returns `in`, `probe`, `full` or `open`; the failures in a row, or the wait; the cause; the slots that the process holds."""

REPORT = (
    _NOW
    + _HOLD
    + """
local process, slots, calls, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local probe, threshold, marks = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
hold(process, slots, calls, lease)
local change = ''
for index = 8, 7 + 4 * marks, 4 do
  local mark, cause, ended, entry = ARGV[index], ARGV[index + 1], now - tonumber(ARGV[index + 2]), ARGV[index + 3]
  redis.call('LPUSH', KEYS[3], entry)
  local circuit = redis.call('HMGET', KEYS[2], 'opened', 'probe', 'failed')
  local opened, probing = circuit[1], probe ~= '' and circuit[2] == probe
  if mark == 'up' then
    if probing or ended >= (tonumber(circuit[3]) or 0) then
      redis.call('DEL', KEYS[2])
      if opened then change = 'closed' end
    end
  else
    if probing then redis.call('HDEL', KEYS[2], 'probe', 'probe_until') end
    if mark == 'down' then
      local failures = redis.call('HINCRBY', KEYS[2], 'failures', 1)
      redis.call('HSET', KEYS[2], 'cause', cause, 'failed', ended)
      redis.call('EXPIRE', KEYS[2], 86400)
      if probing or (not opened and failures >= threshold) then
        redis.call('HSET', KEYS[2], 'opened', now)
        change = 'open'
      end
    end
  end
end
if marks > 0 then
  redis.call('LTRIM', KEYS[3], 0, 19)
  redis.call('EXPIRE', KEYS[3], 86400)
  for index = 8 + 4 * marks, #ARGV, 2 do redis.call('HINCRBY', KEYS[4], ARGV[index], ARGV[index + 1]) end
  redis.call('EXPIRE', KEYS[4], 2592000)
end
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'failures')
return {change, circuit[1] and 1 or 0, tonumber(circuit[2]) or 0}
"""
)
"""After attempts, and to keep slots or give them back. Arguments: process, the slots that it keeps, its calls, lease, the ID of
the probe that has ended or '', threshold, number of attempts; then for each, the oldest first, its mark (`up`, `down`,
`unknown`), cause, milliseconds since its end, and entry; then pairs of a total's field and what is added to it. An answer that
is older than the last failure does not change the circuit. Returns the new state of the circuit, empty when it did not change;
whether it is open; and the failures in a row."""

READ = (
    _NOW
    + """
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'failures', 'cause')
local opened = tonumber(circuit[1])
local state = 'closed'
if opened then state = now < opened + tonumber(ARGV[1]) and 'open' or 'half-open' end
local calls = 0
for _, entry in ipairs(redis.call('HVALS', KEYS[1])) do
  local expiry, held = string.match(entry, '%d+ (%d+) (%d+)')
  if tonumber(expiry) > now then calls = calls + tonumber(held) end
end
return {state, calls, tonumber(circuit[2]) or 0, circuit[3] or '', redis.call('LRANGE', KEYS[3], 0, -1)}
"""
)
"""For display. Argument: open time. Returns the circuit, calls in progress, failures in a row, cause, recent entries."""
