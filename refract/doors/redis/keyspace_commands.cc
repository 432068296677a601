// SPDX-License-Identifier: Apache-2.0
// Commands of keys as such: which there are.
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/client/shard_cursor.h"
#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// Between two pages others have their turn.
constexpr size_t kKeysOfPage = 1000;
// Of one KEYS.
constexpr size_t kKeysBytesMax = size_t{512} << 20;
// No key is empty.
constexpr std::string_view kTurnOfKeys;

// One that a growing table shows twice is told once.
Task<> tell_keys(Store& store, Pending& command) {
  const std::string_view pattern = command.words[1];
  std::deque<std::string> found;
  std::unordered_set<std::string_view> names;
  size_t bytes = 0;
  uint64_t cursor = 0;
  do {
    Result<ScanPage> page = co_await store.client->scan(cursor, kKeysOfPage);
    if (!page) co_return fail_with(command, page.code(), *store.client);
    for (ScanEntry& entry : page->entries) {
      if (!matches(pattern, entry.key) || names.contains(entry.key)) continue;
      bytes += entry.key.size();
      found.push_back(std::move(entry.key));
      names.insert(found.back());
    }
    if (bytes > kKeysBytesMax)
      co_return command.reply().error("ERR the keys of one KEYS have at most 512 MiB");
    cursor = page->next;
    co_await store.shard.sleep_for(0);
  } while (cursor != 0);
  Reply reply = command.reply();
  reply.array(found.size());
  for (const std::string& key : found) reply.bulk(key);
}

}  // namespace

// What one has found lies here until its reply is made, so those of a thread go one behind the other.
Task<> keys(Store& store, Pending& command) {
  if (command.words[1].size() > kPatternBytesMax) co_return command.reply().error(kLongPattern);
  const bool has_turn = co_await store.turns.take(kTurnOfKeys);
  if (!has_turn) co_return fail_with(command, Code::kOverloaded, *store.client);
  co_await tell_keys(store, command);
  store.turns.give(kTurnOfKeys);
}

namespace {

// A place of a scan by chance.
uint64_t any_cursor(const AsyncClient& client, Prng& prng) {
  const Route route = client.route();
  uint32_t shards = route.nodes.empty() ? route.shards : 0;
  for (const RouteNode& node : route.nodes) shards += node.shards;
  const client::ShardCursor cursor{.shard = static_cast<uint32_t>(prng.below(std::max(shards, 1U)))};
  return cursor.followed_by(prng.next() >> client::kShardBits, shards);
}

}  // namespace

// One of those behind a place by chance, and of those in front of it where there is none.
Task<> randomkey(Store& store, Pending& command) {
  constexpr size_t kKeysMin = 16;
  Prng prng(store.client->new_request().sequence ^ store.shard.refresh_now());
  uint64_t cursor = any_cursor(*store.client, prng);
  for (bool is_from_begin = cursor == 0;;) {
    Result<ScanPage> page = co_await store.client->scan(cursor, kKeysMin);
    if (!page) co_return fail_with(command, page.code(), *store.client);
    if (!page->entries.empty()) {
      co_return command.reply().bulk(page->entries[prng.below(page->entries.size())].key);
    }
    cursor = page->next;
    if (cursor == 0 && std::exchange(is_from_begin, true)) co_return command.reply().null();
    co_await store.shard.sleep_for(0);
  }
}

}  // namespace refract::doors::redis
