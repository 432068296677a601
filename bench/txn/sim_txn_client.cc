// SPDX-License-Identifier: Apache-2.0
#include "bench/txn/sim_txn_client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/calls/task_team.h"

namespace refract::bench {

using runtime::Task;

namespace {

// Other writers were in the way: the body runs again.
Code as_conflict_of(Code code) noexcept {
  return txn::Attempts::is_conflict(code) ? Code::kConflict : code;
}

bool are_together(const SimTxnLinks& links, const kv::RpcBatch& batch) noexcept {
  const uint32_t first = links.shard_of(batch.conditions.front().key);
  const auto is_there = [&](const auto& one) { return links.shard_of(one.key) == first; };
  return std::ranges::all_of(batch.conditions, is_there) && std::ranges::all_of(batch.writes, is_there);
}

std::span<const std::byte> bytes_of_text(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

}  // namespace

SimTxnLinks::SimTxnLinks(sim::Host& host, const SimTxnPlaces& places)
    : host_(host), places_(places), dispatcher_(host.domain(), host.shard()) {}

SimTxnLinks::~SimTxnLinks() = default;

Reported<> SimTxnLinks::connect() {
  for (uint32_t shard = 0; shard < places_.nodes * places_.shards; ++shard) {
    const std::string name = SimTxnPlaces::host_name(shard / places_.shards, shard % places_.shards);
    const Reported<fabric::Channel*> channel = host_.domain().connect(name);
    if (!channel) return report(channel.error());
    links_.push_back(std::make_unique<Link>(**channel, host_.shard()));
  }
  return {};
}

Task<Code> SimTxnLinks::open() {
  for (const auto& link : links_) {
    while (link->session.state() == rpc::Session::State::kOpening) {
      co_await host_.shard().sleep_for(kMicrosecond_ns);
    }
    if (link->session.state() != rpc::Session::State::kOpen) co_return Code::kUnavailable;
  }
  co_return Code::kOk;
}

// What is read of all entries, a call for each shard that has some.
struct SimTxnClient::Reading {
  class Room final : public kv::ValueSink {
   public:
    [[nodiscard]] std::byte* room(uint64_t bytes) override {
      value.resize(bytes);
      return value.data();
    }
    std::vector<std::byte> value;
  };
  Reading(const SimTxnLinks& links, const TxnMix& mix, std::span<const uint64_t> entries)
      : count(entries.size()), keys(count), order(count), rooms(count), items(count) {
    for (size_t i = 0; i < count; ++i) keys[i] = txn_key(mix, entries[i]);
    for (size_t i = 0; i < count; ++i) order[i] = i;
    const auto shard_at = [&](size_t i) { return links.shard_of(bytes_of(keys[i])); };
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(shard_at(i), i); });
    for (size_t at = 0; at < count; ++at) {
      items[at].key = bytes_of(keys[order[at]]);
      items[at].sink = &rooms[at];
      const uint32_t shard = shard_at(order[at]);
      if (at == 0 || shard != shards.back()) {
        shards.push_back(shard);
        begins.push_back(at);
      }
    }
    begins.push_back(count);
  }

  [[nodiscard]] Task<> run(SimTxnLinks& links) {
    kv::TaskTeam team(links.shard());
    for (size_t part = 0; part < shards.size(); ++part) team.add(ask(links, part, team));
    co_await team.run();
  }
  [[nodiscard]] Task<> ask(SimTxnLinks& links, size_t part, kv::TaskTeam& team) {
    const auto some = std::span(items).subspan(begins[part], begins[part + 1] - begins[part]);
    co_await links.owner_of(shards[part]).multi_get(some);
    team.leave();
  }
  [[nodiscard]] Code amount(const TxnMix& mix, size_t at, int64_t& amount) const {
    if (!items[at].result) return items[at].result.code();
    return read_amount(rooms[at].value, mix.value_bytes, amount) ? Code::kOk : Code::kCorrupt;
  }

  size_t count;
  std::vector<TxnKey> keys;
  std::vector<size_t> order;  // Of what is asked, by shards.
  std::vector<Room> rooms;
  std::vector<kv::RpcClient::GetItem> items;
  std::vector<uint32_t> shards;
  std::vector<size_t> begins;
};

Task<Code> SimTxnClient::read(std::span<const uint64_t> entries, std::span<int64_t> amounts) {
  const auto reading = std::make_unique<Reading>(links_, mix_, entries);
  co_await reading->run(links_);
  for (size_t at = 0; at < reading->count; ++at) {
    const Code code = reading->amount(mix_, at, amounts[reading->order[at]]);
    if (code != Code::kOk) co_return code;
  }
  co_return Code::kOk;
}

Task<Code> SimTxnClient::attempt(const TxnPlan& plan, Try& tried, TxnEffect& effect) {
  changes_.clear();
  const auto reading = std::make_unique<Reading>(links_, mix_, plan.read());
  co_await reading->run(links_);
  std::array<int64_t, kTxnEntriesMax> amounts = {};
  for (size_t at = 0; at < plan.count; ++at) {
    const Code code = reading->amount(mix_, at, amounts[reading->order[at]]);
    if (code != Code::kOk) co_return code;
    const TxnKey& key = reading->keys[reading->order[at]];
    const bool is_first = changes_.note_read({key.data(), key.size()}, reading->items[at].result->version);
    if (!is_first) co_return Code::kConflict;
  }
  effect = apply(plan, std::span(amounts).first(plan.count));
  std::vector<std::byte> value(mix_.value_bytes);
  for (size_t i = 0; i < plan.count; ++i) {
    if (effect.is_refused || !plan.writes(i)) continue;
    const TxnKey& key = reading->keys[i];
    write_amount(value, amounts[i]);
    const std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
    const Code put = changes_.put({key.data(), key.size()}, text, 0);
    if (put != Code::kOk) co_return put;
  }
  const Code code = co_await commit(tried);
  co_return as_conflict_of(code);
}

Task<Code> SimTxnClient::commit(Try& tried) {
  // What one read has found stood then.
  if (!changes_.writes() && changes_.reads() < 2) co_return Code::kOk;
  if (const auto only = changes_.only_put()) {
    const auto key = bytes_of_text(only->key);
    kv::RpcPutOptions options;
    options.if_version = only->if_version;
    const Result<uint64_t> put =
        co_await links_.owner_of(links_.shard_of(key)).put(key, bytes_of_text(only->value), options);
    co_return put.code();
  }
  txn::Changes::Request request = changes_.request();
  kv::RpcBatch batch;
  batch.conditions = request.conditions;
  batch.writes = request.writes;
  if (are_together(links_, batch)) {
    const uint32_t shard = links_.shard_of(batch.conditions.front().key);
    const Result<> changed = co_await links_.owner_of(shard).change(batch);
    co_return changed.code();
  }
  const Code changed = co_await change_over_shards(batch, tried);
  co_return changed;
}

// As AsyncCalls::change_over_shards(): what meets another transaction is sent again, without its body.
Task<Code> SimTxnClient::change_over_shards(kv::RpcBatch& batch, Try& tried) {
  const uint64_t now_ns = shard().refresh_now();
  txn::Attempts attempts(now_ns, tried.deadline_ns - std::min(now_ns, tried.deadline_ns), pauses_.next());
  for (;;) {
    txn::Coordinator::Terms terms;
    terms.effort = tried.effort;
    terms.deadline_ns = tried.deadline_ns;
    txn::Coordinator coordinator(links_, shard(), batch, terms);
    const Result<> changed = co_await coordinator.run();
    const Code code = changed.code();
    if (code != Code::kConflict && code != Code::kOverloaded) co_return code;
    tried.effort.refusals += code == Code::kConflict ? 1 : 0;
    const std::optional<uint64_t> pause_ns = attempts.pause(shard().refresh_now());
    if (!pause_ns) co_return Code::kConflict;
    co_await shard().sleep_for(*pause_ns);
  }
}

}  // namespace refract::bench
