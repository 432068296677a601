// SPDX-License-Identifier: Apache-2.0
// Several changes at one moment: by one call where one shard has all their keys.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/client/answers.h"
#include "refract/client/async_calls.h"
#include "refract/client/transactions/batch.h"
#include "refract/client/transactions/reads.h"
#include "refract/kv/calls/batch_body.h"
#include "refract/txn/attempts.h"
#include "refract/txn/changes.h"
#include "refract/txn/coordinator.h"

namespace refract::client {

using runtime::Task;

namespace {

Task<Result<>> ask_change(Connection& connection, kv::RpcBatch& batch, Write& write, uint64_t deadline_ns) {
  const uint64_t begun_ns = connection.now_ns();
  const Result<> changed = co_await connection.rpc().change(batch, deadline_ns, write.attempt());
  write.note(changed.code(), begun_ns);
  co_return changed;
}

// Of the first key. Empty: there is none.
Bytes first_key(const kv::RpcBatch& batch) noexcept {
  if (!batch.conditions.empty()) return Bytes(batch.conditions.front().key);
  return batch.writes.empty() ? Bytes() : Bytes(batch.writes.front().key);
}

bool are_together(const Peers& peers, const kv::RpcBatch& batch) noexcept {
  const uint32_t shard = peers.number_of({.key = {first_key(batch)}});
  const auto is_there = [&](const auto& one) { return peers.number_of({.key = {Bytes(one.key)}}) == shard; };
  return std::ranges::all_of(batch.conditions, is_there) && std::ranges::all_of(batch.writes, is_there);
}

uint32_t node_of(const Peers& peers, Bytes key) {
  return ShardPlace::from(peers.number_of({.key = {key}})).node;
}

// A key of each node that has some.
std::vector<Bytes> keys_of_nodes(const Peers& peers, const kv::RpcBatch& batch) {
  std::vector<Bytes> keys;
  const auto add = [&](Bytes key) {
    const auto is_there = [&](Bytes one) { return node_of(peers, one) == node_of(peers, key); };
    if (std::ranges::none_of(keys, is_there)) keys.push_back(key);
  };
  for (const auto& one : batch.conditions) add(Bytes(one.key));
  for (const auto& one : batch.writes) add(Bytes(one.key));
  return keys;
}

// A node takes no part in transactions over several nodes.
Report over_nodes(const Peers& peers, const std::vector<Bytes>& keys) {
  return {
      Code::kUnsupported,
      fmt::format("the transaction has keys of nodes '{}' and '{}', which share no secret",
                  peers.name_of(node_of(peers, keys.front())), peers.name_of(node_of(peers, keys.back()))),
      "start all nodes with one --cluster-secret-file; or give the keys of a transaction one tag, as in "
      "order:{42} and item:{42}: then one node has them"};
}

// The connections stay while it does.
class Access final : public txn::ShardAccess {
 public:
  explicit Access(Peers& peers) noexcept : peers_(peers) {}

  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key) const noexcept override {
    return peers_.number_of({.key = {Bytes(key)}});
  }
  [[nodiscard]] uint64_t node_of(uint32_t shard) const noexcept override {
    const Connection* const connection = peers_.answering_at({.key = {}, .shard = shard});
    return connection != nullptr ? connection->facts().identity[0] : 0;
  }
  [[nodiscard]] kv::wire::FarPlace place_of(uint32_t shard) const noexcept override {
    const ShardPlace place = ShardPlace::from(shard);
    return {.member = static_cast<uint16_t>(place.node), .shard = static_cast<uint16_t>(place.shard)};
  }
  [[nodiscard]] kv::TransactionCalls* at(uint32_t shard) noexcept override {
    Connection* const connection = peers_.answering_at({.key = {}, .shard = shard});
    if (connection == nullptr) return nullptr;
    uses_.emplace_back(*connection);
    return &connection->transactions();
  }
  [[nodiscard]] Task<bool> await(uint32_t shard, uint64_t deadline_ns) override {
    Patience patience{.deadline_ns = deadline_ns};
    const bool is_there = co_await peers_.await_server({.key = {}, .shard = shard}, patience);
    co_return is_there;
  }

 private:
  Peers& peers_;
  std::deque<Peers::Use> uses_;
};

}  // namespace

Task<Result<>> AsyncCalls::change(kv::RpcBatch& batch, txn::Effort& effort, RequestId request) {
  const Bytes key = first_key(batch);
  if (batch.conditions.empty() && batch.writes.empty()) co_return Result<>();
  if (const Code code = check_key(key); code != Code::kOk) {
    batch.failed = 0;
    co_return fail(code);
  }
  // Which shards there are is known from the first connection on.
  co_await peers_.know_nodes();
  const std::vector<Bytes> keys = keys_of_nodes(peers_, batch);
  for (const Bytes one : keys) co_await peers_.find_node_of({one}, effort.deadline_ns);
  if (!are_together(peers_, batch)) {
    batch.failed = batch.conditions.size() + batch.writes.size();
    // An identity is an owner's, and here are several.
    if (request.client != 0) co_return fail(Code::kUnsupported);
    const Result<> changed = co_await change_over_shards(batch, effort);
    // One that names a row is of another release, whose functions are others.
    const bool is_of_row = batch.failed < batch.conditions.size() + batch.writes.size();
    if (changed.code() == Code::kUnsupported && keys.size() > 1 && !is_of_row) {
      peers_.refuse(over_nodes(peers_, keys));
    }
    co_return changed;
  }
  Write write(peers_, request, !batch.writes.empty());
  Patience patience;
  const bool is_brief = effort.deadline_ns < peers_.shard().now_ns() + peers_.settings().options.timeout_ns;
  if (is_brief) patience.deadline_ns = effort.deadline_ns;
  const Result<> changed = co_await peers_.ask<void>(
      {.key = {key}},
      [&](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        return ask_change(connection, batch, write, deadline_ns);
      },
      [&](const Connection& connection, Code code) { return write.may_go_again(connection, code); },
      patience);
  Code code = write.outcome(changed.code());
  write.end(peers_, code);
  // What writes nothing leaves no doubt.
  if (batch.writes.empty() && code == Code::kIndeterminate) code = Code::kUnavailable;
  if (code != Code::kOk) co_return fail(code);
  co_return Result<>();
}

// Each attempt is a transaction of its own: what is not decided of it never will be.
Task<Result<>> AsyncCalls::change_over_shards(kv::RpcBatch& batch, txn::Effort& effort) {
  runtime::Shard& shard = peers_.shard();
  const uint64_t now_ns = shard.refresh_now();
  const uint64_t left_ns = effort.deadline_ns - std::min(effort.deadline_ns, now_ns);
  txn::Attempts attempts(now_ns, std::min(peers_.settings().options.timeout_ns, left_ns),
                         peers_.new_request().sequence ^ now_ns);
  for (;;) {
    Access access(peers_);
    txn::Coordinator coordinator(access, shard, batch, {effort, attempts.deadline_ns()});
    const Result<> changed = co_await coordinator.run();
    const Code code = changed.code();
    if (code == Code::kUnavailable) {
      const bool is_there = co_await access.await(coordinator.unreached(), attempts.deadline_ns());
      if (!is_there) co_return changed;
    } else if (code != Code::kConflict && code != Code::kOverloaded) {
      co_return changed;
    }
    effort.refusals += code == Code::kConflict ? 1 : 0;
    const std::optional<uint64_t> pause_ns = attempts.pause(shard.refresh_now());
    if (!pause_ns) co_return changed;
    co_await shard.sleep_for(*pause_ns);
  }
}

// Of a transaction that writers overtake again and again. What is known is proven as ever: that it is held
// only has it stand for so long. Nothing is held while the body runs.
Task<> AsyncCalls::hold_reads(txn::Changes& changes, txn::Effort& effort, uint64_t deadline_ns) {
  const std::vector<std::string> keys = keys_read(changes);
  changes.clear();
  changes.know({});
  std::vector<kv::RpcCondition> conditions;
  conditions.reserve(keys.size());
  std::vector<GetItem> items;
  items.reserve(keys.size());
  for (const std::string& key : keys) {
    conditions.push_back({.key = Bytes(key), .kind = kv::ConditionKind::kAny});
    items.push_back({.key = key});
  }
  kv::RpcBatch batch{.conditions = conditions, .writes = {}};
  Access access(peers_);
  txn::Coordinator coordinator(access, peers_.shard(), batch, {effort, deadline_ns});
  const Result<> held = co_await coordinator.hold();
  effort.refusals += held.code() == Code::kConflict ? 1 : 0;
  if (!held) co_return;
  co_await multi_get(items);
  txn::Changes::Known known;
  Result<> stood = fail(Code::kTooLarge);
  if (take_known(changes, items, known)) stood = co_await validate(changes, deadline_ns);
  coordinator.release();
  if (stood) changes.know(std::move(known));
}

Task<Result<>> AsyncCalls::commit(Batch& batch, RequestId request) {
  std::vector<kv::RpcCondition> conditions;
  conditions.reserve(batch.conditions_.size());
  for (const Batch::Condition& one : batch.conditions_) {
    conditions.push_back({.key = Bytes(one.key),
                          .kind = static_cast<kv::ConditionKind>(one.kind),
                          .version = one.version,
                          .value = Bytes(one.value)});
  }
  std::vector<kv::RpcBatchWrite> writes;
  writes.reserve(batch.writes_.size());
  for (const Batch::Write& one : batch.writes_) {
    const int first = static_cast<int>(Batch::Kind::kPut) - static_cast<int>(kv::WriteKind::kPut);
    const bool is_put = one.kind == Batch::Kind::kPut;
    const bool is_add = one.kind == Batch::Kind::kAdd;
    const bool is_function = one.kind == Batch::Kind::kFunction;
    writes.push_back({.key = Bytes(one.key),
                      .kind = static_cast<kv::WriteKind>(static_cast<int>(one.kind) - first),
                      .value = Bytes(one.value),
                      .ttl_ns = is_put ? one.argument : 0,
                      .expires_wall_ns = one.terms.expires_wall_ns,
                      .keeps_expiry = one.terms.keeps_ttl,
                      .if_absent = one.terms.if_absent,
                      .if_present = one.terms.if_present,
                      .function = static_cast<kv::functions::Function>(is_function ? one.argument : 0),
                      .addend = is_add ? static_cast<int64_t>(one.argument) : 0});
  }
  kv::RpcBatch wanted{.conditions = conditions, .writes = writes};
  txn::Effort effort{.begun_ns = peers_.shard().refresh_now()};
  // All of it: each shard would take its part of more.
  Code code = kv::check_batch(wanted);
  if (code == Code::kOk) {
    const Result<> changed = co_await change(wanted, effort, request);
    code = changed.code();
  }
  batch.failed_ = wanted.failed;
  for (size_t i = 0; code == Code::kOk && i < writes.size(); ++i) {
    Batch::Write& told = batch.writes_[i];
    told.version = writes[i].version;
    told.sum = writes[i].sum;
    told.code = writes[i].code;
    told.answer_bytes = writes[i].answer_bytes;
    std::memcpy(told.answer.data(), writes[i].answer.data(), told.answer.size());
  }
  // Of a row the caller knows what is too long.
  const size_t row = batch.failed_ - conditions.size();
  const bool is_row = row < writes.size() && writes[row].kind == kv::WriteKind::kFunction;
  if (code == Code::kTooLarge && !is_row) peers_.refuse(too_large());
  co_return result_of(code);
}

}  // namespace refract::client
