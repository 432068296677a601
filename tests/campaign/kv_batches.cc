// SPDX-License-Identifier: Apache-2.0
// Batches of a campaign's worker: puts and erasures of several keys of its own, with conditions.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "tests/campaign/kv_worker.h"

#include "refract/base/units.h"

namespace refract::campaign {

using runtime::Task;

namespace {

constexpr size_t kWritesMax = 6;
constexpr size_t kConditionsMax = 2;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Whether it may hold of a key of which its writer knows this much.
bool may_hold(const kv::RpcCondition& condition, const Model::State& state) {
  switch (condition.kind) {
    case kv::ConditionKind::kAbsent:
      return !state.is_there;
    case kv::ConditionKind::kVersion:
      return !state.is_absent && condition.version == state.version;
    default:
      return !state.is_absent;
  }
}

// What it answers where it does not hold.
bool may_answer(Code code, const kv::RpcCondition& condition, const Model::State& state) {
  switch (code) {
    case Code::kExists:
      return condition.kind == kv::ConditionKind::kAbsent && !state.is_absent;
    case Code::kNotFound:
      return condition.kind != kv::ConditionKind::kAbsent && !state.is_there;
    case Code::kVersionMismatch:
      return condition.kind == kv::ConditionKind::kVersion && !state.is_absent &&
             condition.version != state.version;
    default:
      return false;
  }
}

}  // namespace

struct Worker::Batch {
  std::vector<Write> writes;
  std::vector<std::string> values;
  std::vector<std::string> condition_keys;
  std::vector<kv::RpcCondition> conditions;
  std::vector<kv::RpcBatchWrite> changes;
  size_t failed = 0;
};

Worker::Batch Worker::draw_batch() {
  Batch batch;
  std::vector<Model::Part> parts;
  const size_t count = 2 + prng_.below(kWritesMax - 1);
  for (size_t i = 0; i < count; ++i) {
    Write write{.key = own_key(), .options = {}, .is_erase = prng_.chance(0.3)};
    if (!stage_.model.may_write(write.key)) continue;
    if (std::ranges::find(batch.writes, write.key, &Write::key) != batch.writes.end()) continue;
    if (prng_.chance(0.1)) write.options.ttl_ns = 3 * kWallError_ns + prng_.below(2 * kMillisecond_ns);
    write.begun_ns = stage_.now_ns();
    write.version_before = stage_.model.highest_version();
    const size_t bytes = draw_bytes();
    if (batch.conditions.size() < kConditionsMax && prng_.chance(0.3)) add_condition(batch, write.key);
    write.number = write.is_erase
                       ? stage_.model.begin_erase(write.key)
                       : stage_.model.begin_put(write.key, {.bytes = bytes, .ttl_ns = write.options.ttl_ns},
                                                stage_.now_ns());
    batch.values.push_back(write.is_erase ? "" : sealed_value(write.key, write.number, bytes));
    parts.push_back({.key = write.key, .number = write.number});
    batch.writes.push_back(write);
  }
  stage_.model.join(parts);
  return batch;
}

// One that holds, mostly.
void Worker::add_condition(Batch& batch, const std::string& key) {
  const Model::State state = stage_.model.state(key, stage_.now_ns(), stage_.now_ns());
  kv::RpcCondition condition;
  if (state.is_absent != prng_.chance(0.2)) {
    condition.kind = kv::ConditionKind::kAbsent;
  } else if (prng_.chance(0.7)) {
    condition.kind = kv::ConditionKind::kVersion;
    condition.version = state.version + (prng_.chance(0.2) ? 1 : 0);
  }
  batch.condition_keys.push_back(key);
  batch.conditions.push_back(condition);
}

Task<> Worker::change() {
  Batch batch = draw_batch();
  for (size_t i = 0; i < batch.conditions.size(); ++i) {
    batch.conditions[i].key = bytes_of(batch.condition_keys[i]);
  }
  for (size_t i = 0; i < batch.writes.size(); ++i) {
    const Write& write = batch.writes[i];
    batch.changes.push_back({.key = bytes_of(write.key),
                             .kind = write.is_erase ? kv::WriteKind::kErase : kv::WriteKind::kPut,
                             .value = bytes_of(batch.values[i]),
                             .ttl_ns = write.is_erase ? 0 : write.options.ttl_ns});
  }
  kv::RpcBatch sent{.conditions = batch.conditions, .writes = batch.changes};
  const Result<> result = co_await client_->change(sent);
  batch.failed = sent.failed;
  end_batch(batch, result.code());
}

void Worker::end_batch(Batch& batch, Code code) {
  using Outcome = Model::Outcome;
  if (const std::string fault = fault_of(batch, code); !fault.empty()) stage_.complain(fault);
  KvOutcome& outcome = stage_.outcome;
  if (code == Code::kOk) ++outcome.batches;
  if (code == Code::kIndeterminate) ++outcome.batches_unknown;
  if (code == Code::kNoSpace) ++outcome.no_space;
  if (!is_no_answer(code) && batch.failed < batch.conditions.size()) ++outcome.batches_refused;
  for (size_t i = 0; i < batch.writes.size(); ++i) {
    const Write& write = batch.writes[i];
    stage_.complain(stage_.model.end(write.key, write.number,
                                     {.outcome = code == Code::kOk              ? Outcome::kDone
                                                 : code == Code::kIndeterminate ? Outcome::kUnknown
                                                                                : Outcome::kNothing,
                                      .version = write.is_erase ? 0 : batch.changes[i].version,
                                      .now_ns = stage_.now_ns()}));
  }
}

// What is wrong with the answer; empty: nothing.
std::string Worker::fault_of(const Batch& batch, Code code) const {
  if (is_no_answer(code) || code == Code::kIndeterminate || code == Code::kNoSpace) return {};
  const auto state_of = [&](const std::string& key, uint64_t begun_ns) {
    return stage_.model.state(key, begun_ns, stage_.now_ns());
  };
  if (batch.writes.empty())
    return code == Code::kOk ? "" : fmt::format("an empty batch gave '{}'", info(code).text);
  const uint64_t begun_ns = batch.writes.front().begun_ns;
  if (code != Code::kOk) {
    if (batch.failed >= batch.conditions.size()) return fmt::format("a batch gave '{}'", info(code).text);
    const std::string& key = batch.condition_keys[batch.failed];
    const kv::RpcCondition& condition = batch.conditions[batch.failed];
    if (may_answer(code, condition, state_of(key, begun_ns))) return {};
    return fmt::format("a condition of {} gave '{}'", key.substr(0, 24), info(code).text);
  }
  for (size_t i = 0; i < batch.conditions.size(); ++i) {
    if (may_hold(batch.conditions[i], state_of(batch.condition_keys[i], begun_ns))) continue;
    return fmt::format("a condition of {} was taken to hold", batch.condition_keys[i].substr(0, 24));
  }
  for (size_t i = 0; i < batch.writes.size(); ++i) {
    const Write& write = batch.writes[i];
    const Model::State state = state_of(write.key, begun_ns);
    const uint64_t version = batch.changes[i].version;
    const bool is_right = !write.is_erase ? version > write.version_before
                          : version == 0  ? !state.is_there
                                          : version == state.version && !state.is_absent;
    if (is_right) continue;
    return fmt::format("{} of {} in a batch gave version {}, where it had {}",
                       write.is_erase ? "an erasure" : "a put", write.key.substr(0, 24), version,
                       state.version);
  }
  return {};
}

}  // namespace refract::campaign
