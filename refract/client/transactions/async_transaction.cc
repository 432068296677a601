// SPDX-License-Identifier: Apache-2.0
// Transactions as coroutines. The blocking form ends here, too, where the owner has to be asked.
#include <algorithm>
#include <utility>
#include <vector>

#include "refract/client/answers.h"
#include "refract/client/async_calls.h"
#include "refract/client/async_client.h"
#include "refract/client/transactions/reads.h"
#include "refract/txn/attempts.h"
#include "refract/txn/changes.h"

namespace refract {

using client::as_conflict;
using client::AsyncCalls;
using client::result_of;
using client::Room;
using runtime::Task;
using txn::Attempts;
using txn::Changes;

Task<Result<std::string>> AsyncTransaction::get(Bytes key) {
  if (auto value = changes_.at_once(key.text())) co_return *std::move(value);
  std::string value;
  const Room room{.string = &value, .buffer = {}};
  Got got;
  Code code = calls_.get_directly({.key = {key}}, room, got);
  if (code == Code::kInvalidated || code == Code::kCorrupt) {
    const Result<Got> slow = co_await calls_.get_slowly({.key = {key}}, room);
    code = slow.code();
    if (slow) got = *slow;
  }
  co_return changes_.take_read(key.text(), code, got.version, std::move(value));
}

Task<> AsyncTransaction::multi_get(std::span<GetItem> items) {
  std::vector<GetItem> asked = client::to_ask(changes_, items);
  co_await calls_.multi_get(asked);
  client::take_reads(changes_, asked, items);
}

Task<Result<bool>> AsyncTransaction::exists(Bytes key) {
  if (const auto is_there = changes_.presence_at_once(key.text())) co_return *is_there;
  const Result<Got> got = co_await calls_.exists({.key = {key}});
  co_return changes_.take_look(key.text(), got.code(), got ? got->version : 0);
}

Result<> AsyncTransaction::put(Bytes key, Bytes value, uint64_t ttl_ns) {
  if (is_read_only_) return fail(Code::kInvalidArgument);
  if (const Code code = client::check_key(key); code != Code::kOk) return fail(code);
  return result_of(changes_.put(key.text(), value.text(), ttl_ns));
}
Result<> AsyncTransaction::erase(Bytes key) {
  if (is_read_only_) return fail(Code::kInvalidArgument);
  if (const Code code = client::check_key(key); code != Code::kOk) return fail(code);
  return result_of(changes_.erase(key.text()));
}
Result<> AsyncTransaction::add(Bytes key, int64_t addend) {
  if (is_read_only_) return fail(Code::kInvalidArgument);
  if (const Code code = client::check_key(key); code != Code::kOk) return fail(code);
  return result_of(changes_.add(key.text(), addend));
}

Task<Result<>> AsyncTransaction::validate() {
  return calls_.validate(changes_, kForever_ns);
}

// Versions are never used twice: what has its version still, behind the last read, has stood since it was
// read. What was absent may have come and gone: the owner has to say that it is absent while all else stands.
// So it does where each look would take a message; or each look takes one, where owners of several nodes do
// not speak with each other.
Task<Result<>> AsyncCalls::validate(const Changes& changes, uint64_t deadline_ns) {
  if (changes.is_doomed()) co_return fail(Code::kConflict);
  if (changes.reads() < 2 || changes.are_known()) co_return Result<>();
  Changes::Request request = changes.request();
  request.writes.clear();
  kv::RpcBatch batch{.conditions = request.conditions, .writes = request.writes};
  const bool all_there = std::ranges::all_of(request.conditions, [](const kv::RpcCondition& read) {
    return read.kind == kv::ConditionKind::kVersion;
  });
  if (!client::are_read_directly(peers_, changes)) {
    const Result<> held = co_await ask_owners(batch, deadline_ns);
    if (!all_there || held.code() != Code::kUnsupported) co_return held;
  }
  for (const kv::RpcCondition& read : request.conditions) {
    if (read.kind != kv::ConditionKind::kVersion) continue;
    const Result<Got> now = co_await exists({.key = {Bytes(read.key)}});
    if (!now && now.code() != Code::kNotFound) co_return fail(now.error());
    if (!now || now->version != read.version) co_return fail(Code::kConflict);
  }
  if (all_there) co_return Result<>();
  const Result<> held = co_await ask_owners(batch, deadline_ns);
  co_return held;
}

// Whether all of it holds at one moment.
Task<Result<>> AsyncCalls::ask_owners(kv::RpcBatch& batch, uint64_t deadline_ns) {
  txn::Effort effort{.begun_ns = peers_.shard().refresh_now(), .deadline_ns = deadline_ns};
  const Result<> held = co_await change(batch, effort);
  co_return as_conflict(held);
}

Task<Result<>> AsyncCalls::commit(const Changes& changes, txn::Effort& effort) {
  if (changes.is_doomed()) co_return fail(Code::kConflict);
  if (!changes.writes()) {
    const Result<> valid = co_await validate(changes, effort.deadline_ns);
    co_return valid;
  }
  if (const auto only = changes.only_put(); only && effort.deadline_ns == kForever_ns) {
    PutOptions options;
    options.if_absent = only->if_absent;
    options.if_version = only->if_version;
    options.ttl_ns = only->ttl_ns;
    const Result<uint64_t> version = co_await put(only->key, only->value, options);
    co_return as_conflict(result_of(version.code()));
  }
  Changes::Request request = changes.request();
  kv::RpcBatch batch{.conditions = request.conditions, .writes = request.writes};
  const Result<> changed = co_await change(batch, effort);
  co_return as_conflict(changed);
}

Task<Result<>> AsyncCalls::transaction(AsyncClient::Body body, TransactionOptions options,
                                       bool is_read_only) {
  runtime::Shard& shard = peers_.shard();
  Changes changes;
  txn::Effort effort{.begun_ns = shard.refresh_now()};
  Attempts attempts(effort.begun_ns, options.timeout_ns, peers_.new_request().sequence ^ effort.begun_ns);
  const bool is_brief = options.timeout_ns < peers_.settings().options.timeout_ns;
  for (;;) {
    changes.clear();
    AsyncTransaction transaction(*this, changes, is_read_only);
    const Result<> ran = co_await body(transaction);
    if (is_brief) effort.deadline_ns = attempts.commit_by_ns(shard.refresh_now());
    // An error of the body counts if it had a true picture.
    Result<> ended = fail(Code::kConflict);
    if (ran) {
      ended = co_await commit(changes, effort);
    } else {
      ended = co_await validate(changes, effort.deadline_ns);
    }
    if (ended) co_return ran;
    if (attempts.is_late(ended.code(), effort)) co_return fail(Code::kConflict);
    if (ended.code() != Code::kConflict) co_return ended;
    const std::optional<uint64_t> pause_ns = attempts.pause(shard.refresh_now());
    if (!pause_ns) co_return fail(Code::kConflict);
    co_await shard.sleep_for(*pause_ns);
    const bool holds = attempts.is_overtaken() && !changes.writes();
    if (holds) co_await hold_reads(changes, effort, attempts.deadline_ns());
  }
}

Task<Result<>> AsyncClient::commit(Batch& batch, RequestId request) {
  return calls_->commit(batch, request);
}
Task<Result<>> AsyncClient::transaction(Body body, TransactionOptions options) {
  const Result<> ended = co_await calls_->transaction(std::move(body), options, /*is_read_only=*/false);
  if (ended.code() == Code::kTooLarge) calls_->peers().refuse(client::too_large());
  co_return ended;
}
Task<Result<>> AsyncClient::read_only(Body body, TransactionOptions options) {
  const Result<> ended = co_await calls_->transaction(std::move(body), options, /*is_read_only=*/true);
  if (ended.code() == Code::kTooLarge) calls_->peers().refuse(client::too_large());
  co_return ended;
}

}  // namespace refract
