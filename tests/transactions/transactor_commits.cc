// SPDX-License-Identifier: Apache-2.0
// A transaction of a campaign's client: its body, which reads and wants to write, and its commit, as
// refract/client has both.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/transactions/transactor.h"

#include "refract/base/units.h"
#include "refract/kv/functions/functions.h"

namespace refract::campaign {

using kv::WriteKind;
using runtime::Task;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Task<> Transactor::transact(bool is_read_only) {
  const size_t record = begin();
  changes_.clear();
  const bool is_good = co_await run_body(record, is_read_only);
  if (is_good) {
    co_await commit_and_note(record);
  } else {
    end(record, Outcome::kRefused);
  }
}

// False: it cannot be committed.
Task<bool> Transactor::run_body(size_t record, bool is_read_only) {
  const uint64_t keys = is_read_only ? 2 + prng_.below(2) : 1 + prng_.below(4);
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string key = any_key();
    if (is_read_only || prng_.chance(0.5)) {
      const bool is_read = co_await read_into(record, key);
      if (!is_read) co_return false;
    }
    if (!is_read_only && prng_.chance(0.75)) change_some(key);
  }
  co_return true;
}

Task<bool> Transactor::read_into(size_t record, std::string key) {
  if (changes_.has_at_once(key)) co_return true;
  const Seen seen = co_await read(key, draw_way());
  if (!seen.is_answer()) co_return false;
  if (!changes_.note_read(key, seen.code == Code::kOk ? seen.version : 0)) co_return false;
  note(record, key, seen);
  co_return true;
}

void Transactor::change_some(const std::string& key) {
  const uint64_t draw = prng_.below(100);
  Code code = Code::kOk;
  if (draw < 20) {
    code = changes_.erase(key);
  } else if (is_number(key) && draw < 75) {
    code = changes_.add(key, 1 + static_cast<int64_t>(prng_.below(5)));
  } else {
    int64_t number = 0;
    const std::string value = new_value(key, number);
    code = changes_.put(key, value, draw_ttl_ns(key));
  }
  if (code != Code::kOk) stage_.complain("a change of a transaction was refused");
}

// A condition on a key that was not read and is not written.
void Transactor::ask_for_more(size_t record, txn::Changes::Request& request) {
  asked_key_ = any_key();
  if (changes_.find(asked_key_) != nullptr) return;
  const bool is_there = prng_.chance(0.7);
  kv::RpcCondition condition;
  condition.key = bytes_of(asked_key_);
  condition.kind = is_there ? kv::ConditionKind::kExists : kv::ConditionKind::kAbsent;
  request.conditions.push_back(condition);
  stage_.recorder.add(record, {.kind = Kind::kGet,
                               .key = stage_.recorder.key(asked_key_),
                               .found = is_there ? Found::kPresent : Found::kAbsent});
}

// Some adds are rows of the function; and a row that changes nothing reads a key that is not written: its
// answer is how long the value is.
void Transactor::draw_rows(txn::Changes::Request& request) {
  using kv::functions::Function;
  addends_.clear();
  for (kv::RpcBatchWrite& write : request.writes) {
    if (write.kind != WriteKind::kAdd || !prng_.chance(0.6)) continue;
    addends_.push_back(write.addend);
    write.kind = WriteKind::kFunction;
    write.function = Function::kAdd;
    write.value = std::as_bytes(std::span(&addends_.back(), 1));
  }
  if (!prng_.chance(0.3)) return;
  read_key_ = any_key();
  const txn::Changes::Item* const item = changes_.find(read_key_);
  if (item != nullptr && item->write) return;
  addends_.push_back(static_cast<int64_t>(prng_.below(9)));
  kv::RpcBatchWrite& row = request.writes.emplace_back();
  row.key = bytes_of(read_key_);
  row.kind = WriteKind::kFunction;
  row.function = Function::kSetRange;
  row.value = std::as_bytes(std::span(&addends_.back(), 1));
  std::swap(row, request.writes[prng_.below(request.writes.size())]);
}

// Before they are sent: they may take effect whatever the client learns.
void Transactor::note_writes(size_t record, const txn::Changes::Request& request) {
  for (const kv::RpcBatchWrite& write : request.writes) {
    const std::string key = text_of(write.key);
    Operation operation{.kind = Kind::kErase, .key = stage_.recorder.key(key)};
    const bool is_row = write.kind == WriteKind::kFunction;
    if (is_row && write.function == kv::functions::Function::kSetRange) {
      operation.kind = Kind::kGet;
    } else if (write.kind == WriteKind::kAdd || is_row) {
      operation.kind = Kind::kAdd;
      operation.amount = write.addend;
    } else if (write.kind == WriteKind::kPut) {
      operation.kind = Kind::kPut;
      operation.value = number_in(key, text_of(write.value));
    }
    stage_.recorder.add(record, operation);
    const size_t last = stage_.recorder.transaction(record).operations.size() - 1;
    const bool is_add = operation.kind == Kind::kAdd;
    if (write.ttl_ns != 0 || is_add) note_lease(record, last, write.ttl_ns);
  }
}

void Transactor::note_told(Operation& told, const kv::RpcBatchWrite& write) {
  if (write.kind == WriteKind::kFunction) {
    uint64_t answer = 0;
    if (write.code != Code::kOk || write.answer_bytes != sizeof(answer)) {
      return stage_.complain("a row was not answered");
    }
    ++stage_.outcome.rows;
    std::memcpy(&answer, write.answer.data(), sizeof(answer));
    if (told.kind == Kind::kGet) {
      told.found = answer != 0 ? Found::kPresent : Found::kAbsent;
    } else {
      told.version = write.version;
      told.value = static_cast<int64_t>(answer);
    }
    return;
  }
  if (write.version == 0) return;
  if (write.kind == WriteKind::kErase) {
    told.found = Found::kPresent;
    told.found_version = write.version;
  } else {
    told.version = write.version;
  }
  if (write.kind == WriteKind::kAdd) told.value = write.sum;
}

Task<> Transactor::commit_and_note(size_t record) {
  txn::Changes::Request request = changes_.request();
  if (!request.writes.empty() && prng_.chance(0.2)) ask_for_more(record, request);
  if (!request.writes.empty() && prng_.chance(0.5)) draw_rows(request);
  const size_t reads = stage_.recorder.transaction(record).operations.size();
  note_writes(record, request);
  Result<> done;
  if (request.writes.empty()) {
    done = co_await validate();
  } else {
    kv::RpcBatch batch;
    batch.conditions = request.conditions;
    batch.writes = request.writes;
    done = co_await commit(batch);
  }
  for (size_t i = 0; done && i < request.writes.size(); ++i) {
    note_told(stage_.recorder.transaction(record).operations[reads + i], request.writes[i]);
  }
  end(record, outcome_of(done.code()));
}

// What has its version still, behind the last read, has stood since it was read; absences only the owners can
// tell.
Task<Result<>> Transactor::validate() {
  txn::Changes::Request request = changes_.request();
  if (changes_.reads() < 2 || stage_.run.mutation == Mutation::kOneLook) co_return Result<>();
  bool is_all_there = prng_.chance(0.5);
  for (const kv::RpcCondition& read : request.conditions) {
    if (read.kind != kv::ConditionKind::kVersion) {
      is_all_there = false;
      continue;
    }
    const std::string key = text_of(read.key);
    const Result<kv::Got> now = co_await reach_of(key).client().exists(bytes_of(key));
    if (!now && now.code() != Code::kNotFound) co_return fail(now.code());
    if (!now || now->version != read.version) co_return fail(Code::kConflict);
  }
  if (is_all_there) co_return Result<>();
  kv::RpcBatch batch;
  batch.conditions = request.conditions;
  const Result<> held = co_await commit(batch);
  co_return held;
}

bool Transactor::is_over_shards(const kv::RpcBatch& batch) const noexcept {
  const std::span<const std::byte> first =
      batch.conditions.empty() ? batch.writes.front().key : batch.conditions.front().key;
  const auto is_elsewhere = [&](const auto& one) { return shard_of(one.key) != shard_of(first); };
  return std::ranges::any_of(batch.conditions, is_elsewhere) ||
         std::ranges::any_of(batch.writes, is_elsewhere);
}

Task<Result<>> Transactor::commit(kv::RpcBatch& batch) {
  const bool is_over_shards = this->is_over_shards(batch);
  TransactionOutcome& outcome = stage_.outcome;
  // An owner alone looks at its clock, and its stores are seen a little later.
  if (!is_over_shards && !stage_.expires() && prng_.chance(0.7)) {
    ++outcome.batches;
    const std::string key =
        text_of(batch.conditions.empty() ? batch.writes.front().key : batch.conditions.front().key);
    const Result<> changed = co_await reach_of(key).client().change(batch);
    co_return changed;
  }
  make_trouble();
  const uint64_t hurry_ns = prng_.chance(0.06) ? 5'000 + prng_.below(150'000) : Reach::kTimeout_ns;
  const uint64_t now_ns = host_.shard().refresh_now();
  txn::Coordinator::Terms terms;
  terms.deadline_ns = now_ns + hurry_ns;
  // Of any age, and some that ask the shards one by one.
  terms.effort.begun_ns = now_ns - prng_.below(2 * kMillisecond_ns) / (1 + prng_.below(50));
  terms.effort.refusals = prng_.chance(0.3) ? txn::Effort::kRefusals : 0;
  txn::Coordinator coordinator(*this, host_.shard(), batch, terms);
  const Result<> done = co_await coordinator.run();
  const Code code = done.code();
  const bool is_condition =
      code == Code::kExists || code == Code::kNotFound || code == Code::kVersionMismatch;
  outcome.committed += code == Code::kOk && !batch.writes.empty() ? 1 : 0;
  outcome.read_only += code == Code::kOk && batch.writes.empty() ? 1 : 0;
  outcome.unknown += code == Code::kIndeterminate ? 1 : 0;
  outcome.refused += code != Code::kOk && code != Code::kIndeterminate ? 1 : 0;
  outcome.conflicts += code == Code::kConflict ? 1 : 0;
  outcome.conditions += is_condition ? 1 : 0;
  const auto is_row = [](const kv::RpcBatchWrite& write) { return write.kind == WriteKind::kFunction; };
  const bool has_learned = code == Code::kOk && coordinator.has_learned();
  outcome.learned += has_learned ? 1 : 0;
  outcome.learned_with_rows += has_learned && std::ranges::any_of(batch.writes, is_row) ? 1 : 0;
  co_return done;
}

// In the middle of it a session may close.
void Transactor::make_trouble() {
  if (!prng_.chance(stage_.has_few_words() ? 0.03 : 0.08)) return;
  host_.shard().spawn(close_later(static_cast<uint32_t>(prng_.below(reaches_.size())), prng_.below(30'000)));
}

Task<> Transactor::close_later(uint32_t shard, uint64_t after_ns) {
  co_await host_.shard().sleep_for(after_ns);
  reaches_[shard].close();
}

}  // namespace refract::campaign
