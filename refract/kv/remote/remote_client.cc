// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/remote/remote_client.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "refract/kv/calls/rpc_client_calls.h"
#include "refract/kv/layout/wire.h"
#include "refract/kv/remote/read_batch.h"
#include "refract/kv/remote/remote_search.h"
#include "refract/memory/space.h"
#include "refract/runtime/block_or.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;
namespace {

// Batches whose READs no operation waits for any more.
constexpr size_t kLostMax = 4;

}  // namespace

struct RemoteClient::Item {
  RemoteSearch search;
  ValueSink* sink = nullptr;  // Null: only whether it is there.
  RemoteSearch::State state = RemoteSearch::State::kAsks;
  std::optional<Result<Got>> result = std::nullopt;  // Nothing: it is not known yet, or a call must tell.
};

struct RemoteClient::Work {
  ReadBatch batch;
  std::vector<Item> items;
  std::vector<RpcClient::GetItem> calls;
};

class RemoteClient::Held {
 public:
  explicit Held(RemoteClient& client) : client_(client), work_(client.take_work()) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { client_.give_back(std::move(work_)); }

  [[nodiscard]] Work& work() noexcept { return *work_; }

 private:
  RemoteClient& client_;
  std::unique_ptr<Work> work_;
};

RemoteClient::RemoteClient(RpcClient& rpc, runtime::Shard& shard, const RemoteClientOptions& options)
    : AttachedClient(rpc, shard, options.timeout_ns), link_(options) {}

// Only a closed channel leaves memory alone.
RemoteClient::~RemoteClient() {
  take_back_lost();
  if (!lost_.empty()) session_.close();
}

bool RemoteClient::may_read() const noexcept {
  const fabric::Channel* channel = session_.channel();
  return channel != nullptr && channel->capabilities().read_bypasses_target_cpu;
}

std::unique_ptr<RemoteClient::Work> RemoteClient::take_work() {
  take_back_lost();
  if (free_.empty()) return std::make_unique<Work>();
  std::unique_ptr<Work> work = std::move(free_.back());
  free_.pop_back();
  return work;
}

void RemoteClient::give_back(std::unique_ptr<Work> work) {
  work->items.clear();
  work->calls.clear();
  work->batch.stop_waiting();
  if (!work->batch.is_under_way()) {
    work->batch.clear();
    free_.push_back(std::move(work));
    return;
  }
  lost_opened_ns_ = session_.opened_ns();
  lost_.push_back(std::move(work));
  if (lost_.size() > kLostMax) session_.close();
}

// Their channel has closed, or another one is open in its place.
void RemoteClient::take_back_lost() {
  const bool is_open = session_.state() == rpc::Session::State::kOpen;
  if (lost_.empty() || (is_open && lost_opened_ns_ == session_.opened_ns())) return;
  for (std::unique_ptr<Work>& work : lost_) {
    work->batch.forget_under_way();
    work->batch.clear();
    free_.push_back(std::move(work));
  }
  lost_.clear();
}

Task<Code> RemoteClient::learn(uint64_t deadline_ns) {
  Code code = session_.state() == rpc::Session::State::kOpen ? Code::kUnsupported : Code::kUnavailable;
  if (may_read()) code = co_await learn_regions(deadline_ns);
  if (code == Code::kOk) code = co_await read_root(deadline_ns);
  co_return code;
}

Task<Code> RemoteClient::learn_regions(uint64_t deadline_ns) {
  ++link_.counts.region_asks;
  RemoteSpace space;
  Code code = Code::kOk;
  bool has_all = false;
  while (code == Code::kOk && !has_all) {
    const wire::RegionsRequest request{.first = space.regions()};
    OwnerClock::Answer when{.asked_ns = shard_.refresh_now()};
    const rpc::Call call{.method = wire::kRegionsMethod, .head = std::as_bytes(std::span(&request, 1))};
    const OpResult reply = co_await session_.call(call, deadline_ns);
    if (reply.code != Code::kOk) co_return read_outcome(reply.code);
    when.answered_ns = shard_.refresh_now();
    const size_t before = space.regions();
    code = take_regions(reply.bytes, space, when);
    has_all = code == Code::kOk && space.regions() == before;
  }
  if (code == Code::kOk) link_.space = std::move(space);
  co_return code;
}

// Adds what the answer brings; nothing, where that was all.
Code RemoteClient::take_regions(std::span<const std::byte> reply, RemoteSpace& space,
                                const OwnerClock::Answer& when) {
  const auto head = wire::take<wire::RegionsReply>(reply);
  if (!head || head->regions > wire::kRegionsMax) return Code::kMalformed;
  while (!reply.empty()) {
    const auto region = wire::take<wire::RegionEntry>(reply);
    if (!region || !space.add(*region)) return Code::kMalformed;
  }
  link_.clock.note({.wall_ns = head->wall_ns, .asked_ns = when.asked_ns, .answered_ns = when.answered_ns});
  return Code::kOk;
}

Task<Code> RemoteClient::read_root(uint64_t deadline_ns) {
  Held held(*this);
  ReadBatch& batch = held.work().batch;
  const auto place = link_.space.find({0}, TableGeometry::kFrontBytes);
  if (!place) co_return Code::kUnsupported;
  const size_t front = batch.add(place->remote, TableGeometry::kFrontBytes);
  const Code code = co_await batch.run(session_.endpoint(), shard_, deadline_ns);
  if (code != Code::kOk) co_return code;
  if (batch.code(front) != Code::kOk) co_return Code::kUnsupported;
  co_return take_root(batch.bytes(front).first<TableGeometry::kFrontBytes>());
}

Code RemoteClient::take_root(std::span<const std::byte, TableGeometry::kFrontBytes> front) {
  std::optional<TableGeometry> geometry = TableGeometry::of_front(front);
  if (!geometry) return Code::kMalformed;
  // Another node's memory has stamps of its own, which may well be the same numbers.
  if (geometry->hash_seed() != link_.geometry.hash_seed()) link_.locations.clear();
  link_.geometry = std::move(*geometry);
  return Code::kOk;
}

void RemoteClient::add(Work& work, const RemoteSearch::Wanted& wanted, ValueSink* sink) {
  Item& item = work.items.emplace_back(Item{.search = RemoteSearch(link_, wanted), .sink = sink});
  const Code code = check_lengths(wanted.key, 0);
  if (code == Code::kOk) {
    item.state = item.search.begin();
  } else {
    item.state = RemoteSearch::State::kByCall;
    item.result.emplace(fail(code));
  }
}

// All that is still sought, again.
void RemoteClient::plan(Work& work) {
  work.batch.clear();
  const uint64_t now_ns = shard_.now_ns();
  for (Item& item : work.items) {
    if (item.state == RemoteSearch::State::kAsks) item.state = item.search.plan(work.batch, now_ns);
    settle(item);
  }
  if (work.batch.size() == 0) return;
  ++link_.counts.batches;
  link_.counts.reads += work.batch.size();
}

void RemoteClient::take(Work& work) {
  const uint64_t now_ns = shard_.now_ns();
  for (Item& item : work.items) {
    if (item.state == RemoteSearch::State::kAsks) item.state = item.search.take(work.batch, now_ns);
    settle(item);
  }
}

void RemoteClient::begin_again(Work& work) {
  for (Item& item : work.items) {
    if (item.state == RemoteSearch::State::kUnmapped) item.state = item.search.begin_at_bucket();
    settle(item);
  }
}

// While what was read is still there.
void RemoteClient::settle(Item& item) {
  if (item.result) return;
  if (item.state == RemoteSearch::State::kAbsent) item.result.emplace(fail(Code::kNotFound));
  if (item.state == RemoteSearch::State::kFound) {
    const RemoteSearch::Match& found = item.search.found();
    const uint64_t bytes = found.lengths.value_bytes;
    std::byte* const room = item.sink == nullptr ? nullptr : item.sink->room(bytes);
    if (room != nullptr && bytes > 0)
      std::memcpy(room, found.buffer.data() + found.lengths.value_at(), bytes);
    item.result.emplace(
        Got{.version = found.stamp, .value_bytes = bytes, .expires_wall_ns = found.expires_wall_ns});
    if (item.sink != nullptr && room == nullptr) item.result.emplace(fail(Code::kTooLarge));
  }
  if (item.result) ++link_.counts.gets;
}

// What was not found is not known to be absent: by a call, unless there is no time for one.
void RemoteClient::give_up(Work& work, Code code) {
  for (Item& item : work.items) {
    if (item.result) continue;
    if (code == Code::kDeadlineExceeded) {
      item.result.emplace(fail(code));
      continue;
    }
    count_call(item.state == RemoteSearch::State::kByCall ? item.search.why() : WhyCalled::kClosed);
  }
}

// Each turn of the loop is one round trip for all keys together.
Task<Code> RemoteClient::read_all(Work& work, uint64_t deadline_ns) {
  const uint64_t opened_ns = session_.opened_ns();
  Code code = Code::kOk;
  while (code == Code::kOk) {
    plan(work);
    if (work.batch.size() > 0) {
      code = co_await work.batch.run(session_.endpoint(), shard_, deadline_ns);
      // Behind another channel there may be another node, with other memory.
      if (opened_ns != session_.opened_ns()) code = Code::kUnavailable;
      if (code == Code::kOk) take(work);
    }
    const bool is_unmapped = std::ranges::any_of(
        work.items, [](const Item& item) { return item.state == RemoteSearch::State::kUnmapped; });
    if (code == Code::kOk && is_unmapped) {
      code = co_await learn_regions(deadline_ns);
      if (opened_ns != session_.opened_ns()) code = Code::kUnavailable;
      if (code == Code::kOk) begin_again(work);
    }
    const bool asks = std::ranges::any_of(
        work.items, [](const Item& item) { return item.state == RemoteSearch::State::kAsks; });
    if (!asks) break;
  }
  give_up(work, code);
  co_return code;
}

// The attachment first; another code than kOk: there is none.
Task<Code> RemoteClient::read_one(Work& work, const HashedKey& key, ValueSink* sink, uint64_t deadline_ns) {
  const uint64_t give_up_ns = deadline_or_default(deadline_ns);
  const Code attached = co_await attach(give_up_ns);
  if (attached != Code::kOk) {
    count_call(attached == Code::kUnavailable ? WhyCalled::kClosed : WhyCalled::kNotAttached);
    co_return attached;
  }
  const RemoteSearch::Wanted wanted{
      .key = key.bytes(), .hash = key.hash(link_.geometry.hash_seed()), .value = sink != nullptr};
  add(work, wanted, sink);
  (void)co_await read_all(work, give_up_ns);
  co_return Code::kOk;
}

Task<Result<Got>> RemoteClient::get(HashedKey key, ValueSink& sink, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key.bytes(), 0); code != Code::kOk) co_return fail(code);
  {
    Held held(*this);
    const Code code = co_await read_one(held.work(), key, &sink, deadline_ns);
    if (code == Code::kDeadlineExceeded) co_return fail(code);
    if (code == Code::kOk && held.work().items[0].result) co_return *held.work().items[0].result;
  }
  const Result<Got> got = co_await rpc_.get(key.bytes(), sink, deadline_ns);
  co_return got;
}

Task<Result<Got>> RemoteClient::exists(HashedKey key, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key.bytes(), 0); code != Code::kOk) co_return fail(code);
  {
    Held held(*this);
    const Code code = co_await read_one(held.work(), key, nullptr, deadline_ns);
    if (code == Code::kDeadlineExceeded) co_return fail(code);
    if (code == Code::kOk && held.work().items[0].result) co_return *held.work().items[0].result;
  }
  const Result<Got> got = co_await rpc_.exists(key.bytes(), deadline_ns);
  co_return got;
}

Result<Got> RemoteClient::get_and_wait(const HashedKey& key, ValueSink& sink, uint64_t deadline_ns) {
  return runtime::block_or(Code::kDeadlineExceeded, shard_, get(key, sink, deadline_ns));
}

// REQUIRES: attached.
Task<> RemoteClient::read_together(std::span<RpcClient::GetItem> items, uint64_t deadline_ns) {
  Held held(*this);
  Work& work = held.work();
  const uint64_t hash_seed = link_.geometry.hash_seed();
  for (const RpcClient::GetItem& item : items) {
    const HashedKey key(item.key, item.hash);
    const RemoteSearch::Wanted wanted{.key = item.key, .hash = key.hash(hash_seed), .value = true};
    add(work, wanted, item.sink);
  }
  (void)co_await read_all(work, deadline_or_default(deadline_ns));
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = work.items[i];
    if (item.result) {
      items[i].result = *item.result;
    } else {
      work.calls.push_back({.key = items[i].key, .sink = items[i].sink});
    }
  }
  if (work.calls.empty()) co_return;
  co_await rpc_.multi_get(work.calls, deadline_ns);
  for (size_t i = 0, call = 0; i < items.size(); ++i) {
    if (!work.items[i].result) items[i].result = work.calls[call++].result;
  }
}

Task<> RemoteClient::multi_get(std::span<RpcClient::GetItem> items, uint64_t deadline_ns) {
  while (!items.empty()) {
    const std::span<RpcClient::GetItem> together =
        items.first(std::min(items.size(), std::max<size_t>(link_.options.batch, 1)));
    items = items.subspan(together.size());
    const Code attached = co_await attach(deadline_or_default(deadline_ns));
    if (attached == Code::kOk) {
      co_await read_together(together, deadline_ns);
      continue;
    }
    for (size_t i = 0; i < together.size(); ++i) {
      count_call(attached == Code::kUnavailable ? WhyCalled::kClosed : WhyCalled::kNotAttached);
    }
    co_await rpc_.multi_get(together, deadline_ns);
  }
}

}  // namespace refract::kv
