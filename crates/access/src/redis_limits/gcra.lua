-- GCRA for all keys, or for none of them. Times are microseconds since 2026 of this server's clock.
-- ARGV: for each key, how long its cost and its whole burst take to come back.
-- Returns the refused key (0: none), how long it has to wait, and how much of each burst is used, as a time.
local time = redis.call('TIME')
local now = (tonumber(time[1]) - 1767225600) * 1000000 + tonumber(time[2])
local refused, wait, used, spent = 0, 0, {}, {}
for i = 1, #KEYS do
  local cost, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local arrival = tonumber(redis.call('GET', KEYS[i]) or '') or 0
  -- A clock that was set back takes no more than one burst.
  used[i] = math.min(math.max(arrival - now, 0), burst)
  spent[i] = used[i] + cost
  if spent[i] - burst > 0.5 and spent[i] - burst > wait then
    refused, wait = i, spent[i] - burst
  end
end
if refused == 0 then
  for i = 1, #KEYS do
    used[i] = spent[i]
    if spent[i] > 0 then
      redis.call('SET', KEYS[i], string.format('%.3f', now + spent[i]), 'PX', math.ceil(spent[i] / 1000) + 1)
    end
  end
end
local answer = { refused, math.ceil(wait) }
for i = 1, #KEYS do answer[i + 2] = math.ceil(used[i]) end
return answer
