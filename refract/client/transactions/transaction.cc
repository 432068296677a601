// SPDX-License-Identifier: Apache-2.0
#include "refract/client/transactions/transaction.h"

#include <vector>

#include "refract/base/clock.h"
#include "refract/client/answers.h"
#include "refract/client/client.h"
#include "refract/client/client_state.h"
#include "refract/client/transactions/reads.h"
#include "refract/txn/attempts.h"
#include "refract/txn/changes.h"

namespace refract {

using client::result_of;
using txn::Attempts;
using txn::Changes;

namespace {

// In trouble().
void explain_too_large(client::ThreadState* mine) {
  if (mine != nullptr && !mine->is_child()) mine->peers().refuse(client::too_large());
}

runtime::Task<> pause(runtime::Shard& shard, uint64_t ns) {
  co_await shard.sleep_for(ns);
}

}  // namespace

Result<std::string> Transaction::get(Bytes key) {
  if (auto value = changes_.at_once(key.text())) return *std::move(value);
  std::string value;
  const Result<Got> got = client_.get(key, value);
  return changes_.take_read(key.text(), got.code(), got ? got->version : 0, std::move(value));
}

void Transaction::multi_get(std::span<GetItem> items) {
  std::vector<GetItem> asked = client::to_ask(changes_, items);
  client_.multi_get(asked);
  client::take_reads(changes_, asked, items);
}

Result<bool> Transaction::exists(Bytes key) {
  if (const auto is_there = changes_.presence_at_once(key.text())) return *is_there;
  const Result<Got> got = client_.exists(key);
  return changes_.take_look(key.text(), got.code(), got ? got->version : 0);
}

Result<> Transaction::put(Bytes key, Bytes value, uint64_t ttl_ns) {
  if (is_read_only_) return fail(Code::kInvalidArgument);
  if (const Code code = client::check_key(key); code != Code::kOk) return fail(code);
  return result_of(changes_.put(key.text(), value.text(), ttl_ns));
}
Result<> Transaction::erase(Bytes key) {
  if (is_read_only_) return fail(Code::kInvalidArgument);
  if (const Code code = client::check_key(key); code != Code::kOk) return fail(code);
  return result_of(changes_.erase(key.text()));
}
Result<> Transaction::add(Bytes key, int64_t addend) {
  if (is_read_only_) return fail(Code::kInvalidArgument);
  if (const Code code = client::check_key(key); code != Code::kOk) return fail(code);
  return result_of(changes_.add(key.text(), addend));
}

Result<> Transaction::validate() {
  return client_.validate(changes_, kForever_ns);
}

// Where all that was read is there, and read directly, this takes no message: the second looks are the
// blocking reader's. The rest is AsyncCalls::validate().
Result<> Client::validate(const Changes& changes, uint64_t deadline_ns) {
  if (changes.is_doomed()) return fail(Code::kConflict);
  if (changes.reads() < 2 || changes.are_known()) return Result<>();
  client::ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  bool all_there = client::are_read_directly(mine->async().peers(), changes);
  Code code = Code::kOk;
  changes.each_read([&](std::string_view key, uint64_t version) {
    all_there = all_there && version != 0;
    if (!all_there || code != Code::kOk) return;
    const Result<Got> now = exists(key);
    if (now || now.code() == Code::kNotFound) {
      if (!now || now->version != version) code = Code::kConflict;
    } else {
      code = now.code();
    }
  });
  if (code != Code::kOk || all_there) return result_of(code);
  return mine->wait_or(Code::kDeadlineExceeded, mine->async().validate(changes, deadline_ns));
}

Result<> Client::commit(const Changes& changes, txn::Effort& effort) {
  if (changes.is_doomed()) return fail(Code::kConflict);
  if (!changes.writes()) return validate(changes, effort.deadline_ns);
  if (const auto only = changes.only_put(); only && effort.deadline_ns == kForever_ns) {
    const Result<uint64_t> version =
        put(only->key, only->value,
            {.if_absent = only->if_absent, .if_version = only->if_version, .ttl_ns = only->ttl_ns});
    return client::as_conflict(result_of(version.code()));
  }
  client::ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  return mine->wait_or(Code::kIndeterminate, mine->async().commit(changes, effort));
}

Result<> Client::run_transaction(const std::function<Result<>(Transaction&)>& body,
                                 const TransactionOptions& options, bool is_read_only) {
  const Clock& clock = system_clock();
  Changes changes;
  txn::Effort effort{.begun_ns = clock.now_ns()};
  Attempts attempts(effort.begun_ns, options.timeout_ns,
                    effort.begun_ns ^ reinterpret_cast<uintptr_t>(&changes));
  const bool is_brief = options.timeout_ns < state_->timeout_ns();
  for (;;) {
    changes.clear();
    Transaction transaction(*this, changes, is_read_only);
    const Result<> ran = body(transaction);
    if (is_brief) effort.deadline_ns = attempts.commit_by_ns(clock.now_ns());
    // An error of the body counts if it had a true picture.
    const Result<> ended = ran ? commit(changes, effort) : validate(changes, effort.deadline_ns);
    if (ended) return ran;
    if (attempts.is_late(ended.code(), effort)) return fail(Code::kConflict);
    if (ended.code() != Code::kConflict) return ended;
    const std::optional<uint64_t> pause_ns = attempts.pause(clock.now_ns());
    if (!pause_ns) return fail(Code::kConflict);
    client::ThreadState* mine = state_->mine();
    if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
    if (!mine->has_waited_for(pause(mine->shard(), *pause_ns))) return fail(Code::kDeadlineExceeded);
    if (!attempts.is_overtaken() || changes.writes()) continue;
    const bool is_done =
        mine->has_waited_for(mine->async().hold_reads(changes, effort, attempts.deadline_ns()));
    if (!is_done) return fail(Code::kDeadlineExceeded);
  }
}

Result<> Client::transaction(const std::function<Result<>(Transaction&)>& body,
                             const TransactionOptions& options) {
  const Result<> ended = run_transaction(body, options, /*is_read_only=*/false);
  if (ended.code() == Code::kTooLarge) explain_too_large(state_->mine());
  return ended;
}

Result<> Client::read_only(const std::function<Result<>(Transaction&)>& body,
                           const TransactionOptions& options) {
  const Result<> ended = run_transaction(body, options, /*is_read_only=*/true);
  if (ended.code() == Code::kTooLarge) explain_too_large(state_->mine());
  return ended;
}

Result<> Client::commit(Batch& batch, const RequestId& request) {
  client::ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  return mine->wait_or(Code::kIndeterminate, mine->async().commit(batch, request));
}

}  // namespace refract
