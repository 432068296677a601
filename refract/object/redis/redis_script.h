// SPDX-License-Identifier: Apache-2.0
// What Redis itself runs: one script that writes what a member has found out, if nothing that it has read was
// changed since, and one by which a member says that it is there (docs/formats/directory-in-redis.md).
#pragma once

#include <string_view>

namespace refract::object {

// KEYS: the directory, its channel. ARGV: 1 now, in ms (empty: Redis's own), 2 for how long a stream may be
// silent, in ms, 3 own member, 4 own stream, 5 the stamp of the state that was read (* any), 6 the new state
// or nothing, 7 whether the directory begins, 8 the members that must not be silent (numbers and commas;
// "hello": this is one), 9 the change of the number of births without a word, 10 the number of rows, and of
// each its field, what it was, what it is; then the number of messages, and each; then the number of
// published ids, and of each its message.
inline constexpr std::string_view kWriteScript = R"lua(
local key = KEYS[1]
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local silent = tonumber(ARGV[2])
local function heard(member)
  local said = redis.call('HGET', key, 'p' .. member)
  if not said then return nil, false end
  local stream, at = string.match(said, '^(%d+):(%d+)$')
  if not stream then return nil, false end
  local age = now - tonumber(at)
  return stream, age <= silent and age >= -silent / 2
end
local own, stream, begins = ARGV[3], ARGV[4], ARGV[7] == '1'
local is_hello = ARGV[8] == 'hello'
local state = redis.call('HGET', key, 'g') or ''
if not is_hello then
  local last, is_there = heard(own)
  if last ~= stream or not is_there then return {'over'} end
end
if ARGV[5] ~= '*' and string.sub(state, 1, 48) ~= ARGV[5] then return {'again'} end
if not is_hello then
  for member in string.gmatch(ARGV[8], '%d+') do
    local _, is_there = heard(member)
    if not is_there then return {'silent', member} end
  end
end
local at = 10
local rows = tonumber(ARGV[at])
for i = 1, rows do
  local is = redis.call('HGET', key, ARGV[at + 1 + (i - 1) * 3]) or ''
  if is ~= ARGV[at + 2 + (i - 1) * 3] then return {'again'} end
end
if begins then redis.call('DEL', key) end
redis.call('HSET', key, 'p' .. own, string.format('%s:%.0f', stream, now))
if ARGV[6] ~= '' then redis.call('HSET', key, 'g', ARGV[6]) end
for i = 1, rows do
  local field, is = ARGV[at + 1 + (i - 1) * 3], ARGV[at + 3 + (i - 1) * 3]
  if is == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, is) end
end
local grown = tonumber(ARGV[9])
if grown ~= 0 then
  local count = (tonumber(redis.call('HGET', key, 'l')) or 0) + grown
  redis.call('HSET', key, 'l', string.format('%.0f', math.max(count, 0)))
end
at = at + 1 + rows * 3
local news = tonumber(ARGV[at])
for i = 1, news do redis.call('PUBLISH', KEYS[2], ARGV[at + i]) end
at = at + 1 + news
for i = 1, tonumber(ARGV[at]) do
  if redis.call('DEL', key .. ':w:' .. ARGV[at + i * 2 - 1]) == 1 then
    redis.call('PUBLISH', KEYS[2], ARGV[at + i * 2])
  end
end
if rows == 0 and news == 0 then redis.call('EXPIRE', key, 86400) end
local next = ARGV[6] ~= '' and ARGV[6] or state
return {'ok', next, redis.call('HGET', key, 'l') or '0', redis.call('HLEN', key)}
)lua";

}  // namespace refract::object
