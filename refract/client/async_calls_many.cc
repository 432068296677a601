// SPDX-License-Identifier: Apache-2.0
// Many keys at once: what can be read directly first, then each shard's items together.
#include <array>
#include <numeric>
#include <utility>

#include "refract/client/answers.h"
#include "refract/client/async_calls.h"
#include "refract/kv/calls/task_team.h"

namespace refract::client {

using runtime::Task;

namespace {

// Many keys are sorted by shard once, and again where another node with other shards was found meanwhile.
constexpr int kRounds = 2;
bool is_misplaced(Code code) noexcept {
  return code == Code::kWrongShard || code == Code::kUnavailable;
}

// The stages of a call's keys take turns by blocks: while the last stage runs on one block, the misses of the
// next blocks are under way. A short call is one block, a long one is several, smaller ones.
constexpr size_t kShortCall = 16;
constexpr size_t kBlock = 8;
constexpr size_t kStages = 4;

using Ahead = Connection::Reader::Ahead;

// The reader of a node's only shard, which there is.
struct OneReader {
  ShardReader only;
  uint64_t seed;  // Of its hashes.

  void begin(Bytes /*key*/, const Ahead& /*ahead*/) const noexcept {}
  [[nodiscard]] uint64_t hash_seed(const Ahead& /*ahead*/) const noexcept { return seed; }
  [[nodiscard]] bool has(uint64_t /*hash*/, const Ahead& /*ahead*/) const noexcept { return true; }
  [[nodiscard]] const ShardReader& of(uint64_t /*hash*/, const Ahead& /*ahead*/) const noexcept {
    return only;
  }
};

// Those of several shards, some of which may have none; and the key's hash says which.
struct ReaderOfEach {
  const ShortWays& ways;
  uint64_t seed;

  void begin(Bytes /*key*/, const Ahead& /*ahead*/) const noexcept {}
  [[nodiscard]] uint64_t hash_seed(const Ahead& /*ahead*/) const noexcept { return seed; }
  [[nodiscard]] const ShardReader& of(uint64_t hash, const Ahead& /*ahead*/) const noexcept {
    return ways.at(hash);
  }
  [[nodiscard]] bool has(uint64_t hash, const Ahead& ahead) const noexcept {
    return of(hash, ahead).reader != nullptr;
  }
};

// The same, and its slot does, which is computed once a key.
struct ReaderOfSlots {
  const ShortWays& ways;
  const Ahead* aheads;
  const ShardReader** found;  // Of each of the aheads.

  void begin(Bytes key, const Ahead& ahead) const noexcept { found[index_of(ahead)] = &ways.at_slot_of(key); }
  // Each node has its own.
  [[nodiscard]] uint64_t hash_seed(const Ahead& ahead) const noexcept {
    const ShardReader& way = *found[index_of(ahead)];
    return way.reader != nullptr ? way.reader->hash_seed() : 0;
  }
  [[nodiscard]] const ShardReader& of(uint64_t /*hash*/, const Ahead& ahead) const noexcept {
    return *found[index_of(ahead)];
  }
  [[nodiscard]] bool has(uint64_t hash, const Ahead& ahead) const noexcept {
    return of(hash, ahead).reader != nullptr;
  }
  [[nodiscard]] size_t index_of(const Ahead& ahead) const noexcept {
    return static_cast<size_t>(&ahead - aheads);
  }
};

// Where the value of an item goes. One that has a buffer is told how long the value is.
struct ItemRoom {
  GetIntoItem* item;

  std::byte* operator()(uint64_t bytes) const noexcept {
    item->value_bytes = bytes;
    return BufferRoom{item->buffer}(bytes);
  }
};
StringRoom room_of(GetItem& item) noexcept {
  return {&item.value};
}
ItemRoom room_of(GetIntoItem& item) noexcept {
  return {&item};
}
template <typename Item>
using RoomOf = decltype(room_of(std::declval<Item&>()));

}  // namespace

// The reads of one call, each in the stages of kv/direct/quick_reader.h. Keys of shards without a reader are
// left to calls.
template <typename Readers, typename Item>
class AsyncCalls::StagedGets {
 public:
  StagedGets(AsyncCalls& calls, std::span<Item> items, const Readers& readers,
             std::vector<uint32_t>& rest) noexcept
      : calls_(calls), items_(items), readers_(readers), rest_(rest) {}

  void run() {
    const size_t block = items_.size() > kShortCall ? kBlock : kShortCall;
    for (size_t begin = 0; begin < items_.size() + (kStages - 1) * block; begin += block) {
      each(begin, block, [&](Item& item, Ahead& ahead) { fetch_bucket(item, ahead); });
      each(begin - block, block, [&](Item& /*item*/, Ahead& ahead) {
        if (readers_.has(ahead.hash, ahead)) readers_.of(ahead.hash, ahead).reader->fetch_buffer(ahead);
      });
      each(begin - 2 * block, block, [&](Item& /*item*/, Ahead& ahead) {
        if (readers_.has(ahead.hash, ahead)) readers_.of(ahead.hash, ahead).reader->fetch_behind(ahead);
      });
      each(begin - 3 * block, block, [&](Item& item, Ahead& ahead) { read(item, ahead); });
    }
  }

 private:
  // Of no key where `begin`, which may be below 0, lies outside of the call.
  template <typename Work>
  [[gnu::always_inline]] void each(size_t begin, size_t block, Work work) {
    if (begin >= items_.size()) return;
    const std::span<Item> items = items_.subspan(begin, std::min(block, items_.size() - begin));
    Ahead* ahead = &calls_.aheads_[begin % calls_.aheads_.size()];
    for (Item& item : items) work(item, *ahead++);
  }
  [[gnu::flatten]] uint64_t hash_of(const Bytes& key, const Ahead& ahead) const noexcept {
    return hash_key(key, readers_.hash_seed(ahead));
  }

  [[gnu::always_inline]] void fetch_bucket(const Item& item, Ahead& ahead) {
    readers_.begin(item.key, ahead);
    const uint64_t hash = hash_of(item.key, ahead);
    if (readers_.has(hash, ahead)) {
      readers_.of(hash, ahead).reader->fetch_bucket(hash, ahead);
    } else {
      ahead.hash = hash;
    }
  }
  [[gnu::always_inline]] void read(Item& item, const Ahead& ahead) {
    if (item.key.size() - 1 < kv::kKeyBytesMax && readers_.has(ahead.hash, ahead)) [[likely]] {
      const auto& way = readers_.of(ahead.hash, ahead);
      calls_.note_read(*way.connection, item.key);
      kv::Found found;
      const RoomOf<Item> room = room_of(item);
      if (way.reader->get_at_once(ahead, item.key, room, found)) [[likely]] {
        Got& got = item.result ? *item.result : item.result.emplace();
        got = got_of(found);
        return;
      }
    }
    if (!read_again(item, ahead.hash, ahead)) rest_.push_back(static_cast<uint32_t>(&item - items_.data()));
  }
  // False: ask the key's shard.
  [[nodiscard, gnu::noinline, gnu::cold]] bool read_again(Item& item, uint64_t hash, const Ahead& ahead) {
    if (const Code code = check_key(item.key); code != Code::kOk) {
      item.result = fail(code);
      return true;
    }
    if (!readers_.has(hash, ahead)) return false;
    const kv::Found found = readers_.of(hash, ahead).reader->get(item.key, hash, room_of(item));
    item.result = found.code == Code::kOk ? Result<Got>(got_of(found)) : fail(found.code);
    return found.code != Code::kInvalidated && found.code != Code::kCorrupt;
  }

  AsyncCalls& calls_;
  const std::span<Item> items_;
  const Readers readers_;
  std::vector<uint32_t>& rest_;
};

template <typename Item>
void AsyncCalls::read_directly(std::span<Item> items, std::vector<uint32_t>& rest) {
  static_assert(std::tuple_size_v<decltype(aheads_)> == kStages * kBlock && kShortCall <= kStages * kBlock);
  const ShortWays& ways = peers_.short_ways();
  if (ways.reader != nullptr) [[likely]] {
    ways.reader->begin();
    return StagedGets<OneReader, Item>(*this, items, {{ways.reader, ways.connection}, ways.hash_seed}, rest)
        .run();
  }
  if (!ways.by_slot.empty()) return read_by_slot(items, rest);
  if (ways.shards.empty()) {
    rest.resize(items.size());
    std::iota(rest.begin(), rest.end(), 0U);
    return;
  }
  for (const ShardReader& way : ways.shards) {
    if (way.reader != nullptr) way.reader->begin();
  }
  StagedGets<ReaderOfEach, Item>(*this, items, {ways, ways.hash_seed}, rest).run();
}

// Out of line: else the stages of a node's only shard were no longer inlined where they are called.
template <typename Item>
void AsyncCalls::read_by_slot(std::span<Item> items, std::vector<uint32_t>& rest) {
  const ShortWays& ways = peers_.short_ways();
  for (const ShardReader& way : ways.by_slot) {
    if (way.reader != nullptr) way.reader->begin();
  }
  std::array<const ShardReader*, std::tuple_size_v<decltype(aheads_)>> found{};
  StagedGets<ReaderOfSlots, Item>(*this, items, {ways, aheads_.data(), found.data()}, rest).run();
}

void AsyncCalls::get_directly(std::span<GetItem> items, std::vector<uint32_t>& rest) {
  read_directly(items, rest);
}

void AsyncCalls::get_directly(std::span<GetIntoItem> items, std::vector<uint32_t>& rest) {
  for (GetIntoItem& item : items) item.value_bytes = 0;
  read_directly(items, rest);
}

// What one shard is asked for: what is still open, and whose it is.
template <typename Item>
struct AsyncCalls::ShardGets {
  uint32_t shard = 0;
  uint64_t layout = 0;  // Of its node, when the keys were shared out.
  std::vector<Item*> owners;
  std::vector<kv::KeyHash> hashes;
  std::vector<RoomOf<Item>> rooms;
  std::vector<Sink<RoomOf<Item>>> sinks;
  std::vector<kv::RpcClient::GetItem> open;
  kv::TaskTeam* team = nullptr;  // Null: it is the only shard.

  void expect(size_t count) {
    owners.reserve(count);
    hashes.reserve(count);
  }
};

struct AsyncCalls::ShardPuts {
  uint32_t shard = 0;
  uint64_t layout = 0;  // Of its node, when the keys were shared out.
  std::vector<PutItem*> owners;
  std::vector<kv::KeyHash> hashes;
  std::vector<Write> writes;
  std::vector<kv::RpcClient::PutItem> open;
  kv::TaskTeam* team = nullptr;

  void expect(size_t count) {
    owners.reserve(count);
    hashes.reserve(count);
    writes.reserve(count);
  }
};

namespace {

template <typename Job>
Task<Result<bool>> ask_gets(const Peers& peers, Connection& connection, Job& job, uint64_t deadline_ns) {
  if (peers.layout_of(job.shard) != job.layout) co_return fail(Code::kWrongShard);
  co_await connection.multi_get(job.open, deadline_ns);
  size_t left = 0;
  for (size_t i = 0; i < job.open.size(); ++i) {
    Got got;
    const Code code = take(job.open[i].result, got);
    job.owners[i]->result = code == Code::kOk ? Result<Got>(got) : fail(code);
    if (code != Code::kUnavailable) continue;
    job.open[left] = job.open[i];
    job.owners[left++] = job.owners[i];
  }
  job.open.resize(left);
  job.owners.resize(left);
  if (left > 0) co_return fail(Code::kUnavailable);
  co_return true;
}

// Those that surely were not sent go again when there is a server, and those whose outcome was lost, too,
// where the server will know them again; the others have their outcome.
template <typename Job>
Task<Result<bool>> ask_puts(Peers& peers, Connection& connection, Job& job, uint64_t deadline_ns) {
  if (peers.layout_of(job.shard) != job.layout) co_return fail(Code::kWrongShard);
  const uint64_t begun_ns = connection.now_ns();
  for (size_t i = 0; i < job.open.size(); ++i) job.open[i].options.attempt = job.writes[i].attempt();
  co_await connection.multi_put(job.open, deadline_ns);
  for (size_t i = 0; i < job.open.size(); ++i) {
    const Code code = job.open[i].result.code();
    job.writes[i].note(code, begun_ns);
    job.owners[i]->result =
        code == Code::kOk ? job.open[i].result : Result<uint64_t>(fail(job.writes[i].outcome(code)));
  }
  size_t left = 0;
  for (size_t i = 0; i < job.open.size(); ++i) {
    if (!job.writes[i].may_go_again(connection, job.open[i].result.code())) {
      job.writes[i].end(peers, job.owners[i]->result.code());
      continue;
    }
    job.open[left] = job.open[i];
    job.writes[left] = job.writes[i];
    job.owners[left++] = job.owners[i];
  }
  job.open.resize(left);
  job.writes.erase(job.writes.begin() + static_cast<ptrdiff_t>(left), job.writes.end());
  job.owners.resize(left);
  if (left > 0) co_return fail(Code::kUnavailable);
  co_return true;
}

// One job for each shard that has some of the items, of which each will have about `share`.
template <typename Job>
Job& job_of(const Peers& peers, std::vector<Job>& jobs, uint32_t shard, size_t share) {
  for (Job& job : jobs) {
    if (job.shard == shard) return job;
  }
  jobs.emplace_back();
  jobs.back().shard = shard;
  jobs.back().layout = peers.layout_of(shard);
  jobs.back().expect(share);
  return jobs.back();
}

}  // namespace

template <typename Item>
Task<> AsyncCalls::get_of_shard(ShardGets<Item>& job) {
  // What points into these stays true.
  job.rooms.reserve(job.owners.size());
  job.sinks.reserve(job.owners.size());
  job.open.reserve(job.owners.size());
  for (size_t i = 0; i < job.owners.size(); ++i) {
    job.sinks.emplace_back(job.rooms.emplace_back(room_of(*job.owners[i])));
    job.open.push_back({.key = job.owners[i]->key, .sink = &job.sinks.back(), .hash = job.hashes[i]});
  }
  const Result<bool> all = co_await peers_.ask<bool>(
      {.key = {}, .shard = job.shard},
      [&](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        return ask_gets(peers_, connection, job, deadline_ns);
      },
      Unsent{}, Patience{.is_of_many = true});
  for (Item* item : job.owners) item->result = fail(all.code());
  if (job.team != nullptr) job.team->leave();
}

Task<> AsyncCalls::put_of_shard(ShardPuts& job) {
  job.open.reserve(job.owners.size());
  for (size_t i = 0; i < job.owners.size(); ++i) {
    const PutItem& item = *job.owners[i];
    job.open.push_back({.key = item.key,
                        .value = item.value,
                        .options = options_of(item.options, job.writes[i].attempt()),
                        .hash = job.hashes[i]});
  }
  const Result<bool> all = co_await peers_.ask<bool>(
      {.key = {}, .shard = job.shard},
      [&](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        return ask_puts(peers_, connection, job, deadline_ns);
      },
      Unsent{}, Patience{.is_of_many = true});
  for (size_t i = 0; i < job.owners.size(); ++i) {
    const Code code = job.writes[i].outcome(all.code());
    job.owners[i]->result = fail(code);
    job.writes[i].end(peers_, code);
  }
  if (job.team != nullptr) job.team->leave();
}

template <typename Job>
Task<> AsyncCalls::run(std::vector<Job>& jobs, Task<> (AsyncCalls::*work)(Job&)) {
  if (jobs.size() == 1) co_await (this->*work)(jobs.front());
  if (jobs.size() < 2) co_return;
  kv::TaskTeam team(peers_.shard());
  for (Job& job : jobs) {
    job.team = &team;
    team.add((this->*work)(job));
  }
  co_await team.run();
}

template <typename Item>
Task<> AsyncCalls::ask_shards(std::span<Item> items, std::span<const uint32_t> which) {
  co_await peers_.know_nodes();
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t node = peers_.connections();
    std::vector<ShardGets<Item>> jobs;
    for (const uint32_t index : which) {
      Item& item = items[index];
      if (round > 0 && !is_misplaced(item.result.code())) continue;
      if (const Code code = check_key(item.key); code != Code::kOk) {
        item.result = fail(code);
      } else {
        const KeyOwner place{.key = item.key};
        ShardGets<Item>& job =
            job_of(peers_, jobs, peers_.number_of(place), which.size() / peers_.count() + 1);
        job.owners.push_back(&item);
        job.hashes.push_back(place.key.known());
      }
    }
    co_await run(jobs, &AsyncCalls::get_of_shard<Item>);
    if (peers_.connections() == node) break;
  }
}

Task<> AsyncCalls::get_by_calls(std::span<GetItem> items, std::span<const uint32_t> which) {
  return ask_shards(items, which);
}

Task<> AsyncCalls::get_by_calls(std::span<GetIntoItem> items, std::span<const uint32_t> which) {
  return ask_shards(items, which);
}

template <typename Item>
Task<> AsyncCalls::read_many(std::span<Item> items) {
  std::vector<uint32_t> rest;
  if (peers_.is_child()) {
    for (Item& item : items) item.result = fail(Code::kForked);
    co_return;
  }
  get_directly(items, rest);
  if (!rest.empty()) co_await ask_shards(items, rest);
}

Task<> AsyncCalls::multi_get(std::span<GetItem> items) {
  return read_many(items);
}

Task<> AsyncCalls::multi_get_into(std::span<GetIntoItem> items) {
  return read_many(items);
}

// Taken one after the other by as many tasks as are to be under way at once.
struct AsyncCalls::Looks {
  std::span<ExistsItem> items;
  std::span<const uint32_t> which;
  kv::TaskTeam& team;
  size_t next = 0;
};

Task<> AsyncCalls::look_in_turn(Looks& looks) {
  while (looks.next < looks.which.size()) {
    ExistsItem& item = looks.items[looks.which[looks.next++]];
    item.result = co_await exists({.key = item.key});
  }
  looks.team.leave();
}

Task<> AsyncCalls::look_by_calls(std::span<ExistsItem> items, std::span<const uint32_t> which) {
  constexpr size_t kAtOnce = 64;
  kv::TaskTeam team(peers_.shard());
  Looks looks{.items = items, .which = which, .team = team};
  for (size_t i = 0; i < std::min(kAtOnce, which.size()); ++i) team.add(look_in_turn(looks));
  co_await team.run();
}

Task<> AsyncCalls::multi_exists(std::span<ExistsItem> items) {
  std::vector<uint32_t> rest;
  for (ExistsItem& item : items) {
    Got got;
    const Code code = look_directly({.key = item.key}, got);
    item.result = code == Code::kOk ? Result<Got>(got) : fail(code);
    if (code != Code::kInvalidated && code != Code::kCorrupt) continue;
    rest.push_back(static_cast<uint32_t>(&item - items.data()));
  }
  if (!rest.empty()) co_await look_by_calls(items, rest);
}

Task<Result<size_t>> AsyncCalls::prefix_exists(std::span<const Bytes> keys) {
  PrefixRounds rounds(keys);
  while (!rounds.is_over()) {
    co_await multi_exists(rounds.next());
    rounds.take();
  }
  co_return rounds.result();
}

Task<> AsyncCalls::multi_put(std::span<PutItem> items) {
  co_await peers_.know_nodes();
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t node = peers_.connections();
    std::vector<ShardPuts> jobs;
    for (PutItem& item : items) {
      if (round > 0 && !is_misplaced(item.result.code())) continue;
      item.result = fail(Code::kUnavailable);
      const Code code =
          item.options.front.empty() ? check_put(item.key, item.options) : Code::kInvalidArgument;
      if (code != Code::kOk) {
        item.result = fail(code);
        continue;
      }
      const KeyOwner place{.key = item.key};
      ShardPuts& job = job_of(peers_, jobs, peers_.number_of(place), items.size() / peers_.count() + 1);
      job.owners.push_back(&item);
      job.hashes.push_back(place.key.known());
      job.writes.emplace_back(peers_, item.options.request, is_conditional(item.options));
    }
    co_await run(jobs, &AsyncCalls::put_of_shard);
    if (peers_.connections() == node) break;
  }
}

}  // namespace refract::client
