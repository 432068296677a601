// SPDX-License-Identifier: Apache-2.0
// What Redis itself runs: one script that writes what a member has found out, if nothing that it has read was
// changed since, and one by which a member says that it is there (docs/formats/directory-in-redis.md).
#pragma once

#include <string_view>

namespace refract::object {

// A stream of which nothing was heard for so long has ended; a moment that lies ahead comes of a clock that was
// set back.
inline constexpr int kSilentAfter_ms = 5'000;

// KEYS: the directory. ARGV: now (empty: Redis's own), own member, own stream, the stamp of the state that was read (* any), the new
// state or nothing, whether the directory begins, the members that must not be silent (numbers and commas), the
// change of the number of births without a word, the number of rows, each a field, what it was, what it is; the number
// of messages, each a member of the channel; the number of published ids, each an id and its message.
inline constexpr std::string_view kWriteScript = R"lua(
local key = KEYS[1]
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function heard(member)
  local said = redis.call('HGET', key, 'p' .. member)
  if not said then return nil, false end
  local stream, at = string.match(said, '^(%d+):(%d+)$')
  if not stream then return nil, false end
  local age = now - tonumber(at)
  return stream, age <= 5000 and age >= -2000
end
local own, stream, begins = ARGV[2], ARGV[3], ARGV[6] == '1'
local is_hello = ARGV[7] == 'hello'
local state = redis.call('HGET', key, 'g') or ''
if not is_hello then
  local last, is_there = heard(own)
  if last ~= stream or not is_there then return {'over'} end
end
if ARGV[4] ~= '*' and string.sub(state, 1, 48) ~= ARGV[4] then return {'again'} end
if not is_hello then
  for member in string.gmatch(ARGV[7], '%d+') do
    local _, is_there = heard(member)
    if not is_there then return {'silent', member} end
  end
end
local at = 9
local rows = tonumber(ARGV[at])
for i = 1, rows do
  local is = redis.call('HGET', key, ARGV[at + 1 + (i - 1) * 3]) or ''
  if is ~= ARGV[at + 2 + (i - 1) * 3] then return {'again'} end
end
if begins then redis.call('DEL', key) end
redis.call('HSET', key, 'p' .. own, string.format('%s:%.0f', stream, now))
if ARGV[5] ~= '' then redis.call('HSET', key, 'g', ARGV[5]) end
for i = 1, rows do
  local field, is = ARGV[at + 1 + (i - 1) * 3], ARGV[at + 3 + (i - 1) * 3]
  if is == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, is) end
end
local grown = tonumber(ARGV[8])
if grown ~= 0 then
  local count = (tonumber(redis.call('HGET', key, 'l')) or 0) + grown
  redis.call('HSET', key, 'l', string.format('%.0f', math.max(count, 0)))
end
at = at + 1 + rows * 3
local news = tonumber(ARGV[at])
for i = 1, news do redis.call('PUBLISH', key .. ':news', ARGV[at + i]) end
at = at + 1 + news
for i = 1, tonumber(ARGV[at]) do
  if redis.call('DEL', key .. ':w:' .. ARGV[at + i * 2 - 1]) == 1 then
    redis.call('PUBLISH', key .. ':news', ARGV[at + i * 2])
  end
end
if rows == 0 and news == 0 then redis.call('EXPIRE', key, 86400) end
return {'ok', ARGV[5] ~= '' and ARGV[5] or state}
)lua";

}  // namespace refract::object
