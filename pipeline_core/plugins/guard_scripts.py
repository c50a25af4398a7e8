"""The guard's scripts, which Redis runs one at a time.

Of each plugin Redis holds the calls under way (a sorted set of their ids by the time at which they count as lost), the
circuit (a hash: `failures` in a row, `cause` of the last, `opened` since when, and the `probe` that may pass although
it is open, with `probe_until`), and the recent outcomes (a list): KEYS 1, 2 and 3. KEYS 4 is the hash of all plugins'
totals (`pipeline_core.metrics.totals`).
Times are Redis's own, in milliseconds.
"""

from __future__ import annotations

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

ENTER = (
    _NOW
    + """
local call, limit, span, open = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'probe_until', 'cause')
local opened, probed, cause = tonumber(circuit[1]), tonumber(circuit[2]), circuit[3] or ''
if opened then
  if now < opened + open then return {'open', opened + open - now, cause} end
  if probed and now < probed then return {'open', math.min(open, probed - now), cause} end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= limit then return {'full', 0, ''} end
if opened then redis.call('HSET', KEYS[2], 'probe', call, 'probe_until', now + span) end
redis.call('ZADD', KEYS[1], now + span, call)
if redis.call('PTTL', KEYS[1]) < span then redis.call('PEXPIRE', KEYS[1], span) end
return {'in', 0, ''}
"""
)
"""Before a call. Arguments: id, limit, longest time, open time. Answers: `in`, `full`, `open`; time to wait; cause."""

LEAVE = (
    _NOW
    + """
local call, mark, threshold, entry, cause = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
redis.call('ZREM', KEYS[1], call)
redis.call('LPUSH', KEYS[3], entry)
redis.call('LTRIM', KEYS[3], 0, 19)
redis.call('EXPIRE', KEYS[3], 86400)
for index = 6, #ARGV, 2 do redis.call('HINCRBY', KEYS[4], ARGV[index], ARGV[index + 1]) end
redis.call('EXPIRE', KEYS[4], 2592000)
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'probe')
local opened, probing = circuit[1], circuit[2] == call
if mark == 'up' then
  redis.call('DEL', KEYS[2])
  return opened and 'closed' or ''
end
if probing then redis.call('HDEL', KEYS[2], 'probe', 'probe_until') end
if mark ~= 'down' then return '' end
local failures = redis.call('HINCRBY', KEYS[2], 'failures', 1)
redis.call('HSET', KEYS[2], 'cause', cause)
redis.call('EXPIRE', KEYS[2], 86400)
if probing or (not opened and failures >= threshold) then
  redis.call('HSET', KEYS[2], 'opened', now)
  return 'open'
end
return ''
"""
)
"""After a call. Arguments: id, mark (`up`, `down`, `unknown`), threshold, entry, cause, then pairs of a total's field and
what is added to it. Answers what the circuit became; empty when nothing changed."""

LOOK = (
    _NOW
    + """
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'failures', 'cause')
local opened = tonumber(circuit[1])
local state = 'closed'
if opened then state = now < opened + tonumber(ARGV[1]) and 'open' or 'half-open' end
return {state, redis.call('ZCOUNT', KEYS[1], now, '+inf'), tonumber(circuit[2]) or 0, circuit[3] or '',
  redis.call('LRANGE', KEYS[3], 0, -1)}
"""
)
"""For display. Argument: open time. Answers: circuit, calls under way, failures in a row, cause, recent entries."""
