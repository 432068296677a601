// SPDX-License-Identifier: Apache-2.0
// Commands of keys as such: which there are, and that one takes the place of another.
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "refract/client/shard_cursor.h"
#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"
#include "refract/kv/layout/contract.h"
#include "refract/txn/attempts.h"

namespace refract::doors::redis {

using runtime::Task;
using txn::Attempts;

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

namespace {

struct Move {
  std::string_view from;
  std::string_view to;
  bool replaces = false;  // What is at `to`.
  bool copies = false;    // Then `from` stays.
};
enum class Moved : uint8_t { kDone, kNothingThere, kIsTaken };

// One attempt, on what `from` has. The batch has a copy of the value, and so has the message.
Task<Result<Moved>> move_once(Store& store, const Move& move, ChangingRoom& room, std::string& value) {
  constexpr size_t kCopies = 3;
  const Result<Got> look = co_await store.client->exists(move.from);
  if (look.code() == Code::kNotFound) co_return Moved::kNothingThere;
  if (!look) co_return fail(look.error());
  if (move.from == move.to) co_return move.replaces ? Moved::kDone : Moved::kIsTaken;
  if (look->value_bytes > kv::kBatchBytesMax) co_return fail(Code::kTooLarge);
  co_await room.take(kCopies * look->value_bytes);
  const Result<Got> got = co_await store.client->get(move.from, value);
  if (got.code() == Code::kNotFound) co_return Moved::kNothingThere;
  if (!got) co_return fail(got.error());
  Batch batch;
  batch.if_version(move.from, got->version);
  if (!move.replaces) batch.if_absent(move.to);
  batch.put(move.to, value, ttl_until(store, in_whole_ms(got->expires_wall_ns)));
  if (!move.copies) batch.erase(move.from);
  const Result<> done = co_await store.client->commit(batch);
  if (done) co_return Moved::kDone;
  if (done.code() == Code::kExists) co_return Moved::kIsTaken;
  co_return fail(done.error());
}

// Nothing: it was replied what is wrong.
Task<std::optional<Moved>> move_key(Store& store, Pending& command, Move wanted) {
  const uint64_t begun_ns = store.shard.refresh_now();
  Attempts attempts(begun_ns, kDoorTimeout_ns, store.client->new_request().sequence ^ begun_ns);
  ChangingRoom room(store);
  std::string value;
  for (;;) {
    const Result<Moved> moved = co_await move_once(store, wanted, room, value);
    if (moved) co_return *moved;
    const std::optional<uint64_t> pause_ns = attempts.pause(store.shard.refresh_now());
    if (!Attempts::is_conflict(moved.code()) || !pause_ns) {
      fail_batch(command, moved.code(), *store.client);
      co_return std::nullopt;
    }
    co_await store.shard.sleep_for(*pause_ns);
  }
}

}  // namespace

// RENAME and RENAMENX.
Task<> rename(Store& store, Pending& command) {
  const bool replaces = command.row->name == "rename";
  const std::optional<Moved> moved = co_await move_key(
      store, command, {.from = command.words[1], .to = command.words[2], .replaces = replaces});
  if (!moved) co_return;
  Reply reply = command.reply();
  if (*moved == Moved::kNothingThere) {
    reply.error("ERR no such key");
  } else if (replaces) {
    reply.ok();
  } else {
    reply.number(*moved == Moved::kDone ? 1 : 0);
  }
}

Task<> copy(Store& store, Pending& command) {
  const auto& words = command.words;
  Move wanted{.from = words[1], .to = words[2], .copies = true};
  for (size_t i = 3; i < words.size(); ++i) {
    if (is_option(words[i], "replace")) {
      wanted.replaces = true;
    } else if (is_option(words[i], "db") && i + 1 < words.size()) {
      const std::string wrong = wrong_database(words[++i]);
      if (!wrong.empty()) co_return command.reply().error(wrong);
    } else {
      co_return command.reply().error(kSyntaxError);
    }
  }
  if (wanted.from == wanted.to) {
    co_return command.reply().error("ERR source and destination objects are the same");
  }
  const std::optional<Moved> moved = co_await move_key(store, command, wanted);
  if (moved) command.reply().number(*moved == Moved::kDone ? 1 : 0);
}

}  // namespace refract::doors::redis
