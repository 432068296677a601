// SPDX-License-Identifier: Apache-2.0
// MULTI, EXEC, DISCARD, WATCH and UNWATCH.
#include <string>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/doors/exec/handlers.h"
#include "refract/doors/exec/run_body.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// Of all attempts of an EXEC.
constexpr uint64_t kExecTimeout_ns = 5 * kSecond_ns;
constexpr std::string_view kIsLoading = "LOADING Redis is loading the dataset in memory";

}  // namespace

bool multi(Call& call) {
  Multi& multi = call.session.make_multi();
  if (multi.queue != nullptr) {
    call.reply.error("ERR MULTI calls can not be nested");
  } else {
    multi.queue = std::make_shared<Queue>();
    call.reply.ok();
  }
  return true;
}

bool discard(Call& call) {
  if (call.session.multi() == nullptr || call.session.multi()->queue == nullptr) {
    call.reply.error("ERR DISCARD without MULTI");
  } else {
    call.session.drop_multi();
    call.reply.ok();
  }
  return true;
}

bool unwatch(Call& call) {
  if (call.session.multi() != nullptr) call.session.make_multi().watched.reset();
  call.reply.ok();
  return true;
}

namespace {

// What is wrong; empty: the key is watched.
Task<std::string> watch_key(Store& store, Watched& watched, std::string_view key) {
  if (key.empty()) co_return error_of(Code::kInvalidArgument, *store.client);
  if (key.size() > UINT16_MAX) co_return error_of(Code::kTooLarge, *store.client);
  // One that is watched already keeps its first version.
  if (watched.versions.contains(std::string(key))) co_return std::string();
  const bool is_full = watched.versions.size() >= kTransactionKeysMax;
  if (is_full || watched.bytes + key.size() > kTransactionBytesMax) co_return too_much_for_transaction();
  Result<Got> got = store.client->exists_at_once(key);
  if (!got && got.code() != Code::kNotFound) got = co_await store.client->exists(key);
  if (!got && got.code() != Code::kNotFound) co_return error_of(got.code(), *store.client);
  watched.versions.emplace(key, got ? got->version : 0);
  watched.bytes += key.size();
  co_return std::string();
}

}  // namespace

// An EXEC behind one that has failed must not run as if it were guarded.
Task<> watch(Store& store, Pending& command) {
  const std::shared_ptr<Watched> watched = command.transaction->watched;
  if (store.client == nullptr) {
    watched->wrong = kIsLoading;
    co_return command.reply().error(kIsLoading);
  }
  for (size_t i = 1; i < command.words.size(); ++i) {
    const std::string wrong = co_await watch_key(store, *watched, command.words[i]);
    if (wrong.empty()) continue;
    watched->wrong = wrong;
    co_return command.reply().error(wrong);
  }
  command.reply().ok();
}

namespace {

bool needs_store(const Taken& taken) {
  if (taken.watched != nullptr) return true;
  for (const Queue::Command& one : taken.queue->commands()) {
    if (one.row->in_body != nullptr) return true;
  }
  return false;
}

// A command without a part in the store, at its place among the replies.
Task<> run_beside(Store& store, Pending& exec, const Queue::Command& one) {
  if (one.row->at_once != nullptr) {
    Call call{.store = store, .session = *exec.session, .words = one.words, .reply = exec.reply()};
    if (one.row->at_once(call)) co_return;
  }
  Pending command;
  command.row = one.row;
  command.session = exec.session;
  command.protocol = exec.protocol;
  command.words = one.words;
  co_await one.row->as_task(store, command);
  exec.answer.append(command.answer);
}

Task<> answer_steps(Store& store, Pending& command, const Queue& queue, const Ended& ended) {
  command.reply().array(queue.commands().size());
  size_t begin = 0;
  for (size_t i = 0; i < queue.commands().size(); ++i) {
    const Queue::Command& one = queue.commands()[i];
    if (one.row->in_body == nullptr) {
      co_await run_beside(store, command, one);
      continue;
    }
    const size_t end = ended.ends.empty() ? begin : ended.ends[i];
    command.answer.text().append(ended.replies, begin, end - begin);
    begin = end;
  }
}

void answer_failure(Store& store, Pending& command, const Ended& ended) {
  constexpr std::string_view kAborted = "EXECABORT Transaction discarded because of: ";
  Reply reply = command.reply();
  if (ended.ending == Ending::kNil) {
    reply.null_array();
  } else if (ended.ending == Ending::kLongReplies) {
    reply.error(std::string(kAborted) + "its replies have more than 64 MiB");
  } else if (ended.code == Code::kConflict) {
    reply.error(std::string(kAborted) + "other writers changed its keys until the timeout");
  } else if (ended.code == Code::kTooLarge) {
    reply.error(std::string(kAborted) + too_much_for_transaction().substr(4));
  } else {
    fail_with(command, ended.code, *store.client);
  }
}

Task<> run_queue(Store& store, Pending& command, const Taken& taken) {
  Ended ended;
  if (needs_store(taken)) {
    std::vector<Step> steps;
    steps.reserve(taken.queue->commands().size());
    for (const Queue::Command& one : taken.queue->commands()) {
      steps.push_back({.row = one.row, .words = one.words});
    }
    std::vector<Watch> watched;
    if (taken.watched != nullptr) {
      watched.reserve(taken.watched->versions.size());
      for (const auto& [key, version] : taken.watched->versions) {
        watched.push_back({.key = key, .version = version});
      }
    }
    ended = co_await run_transaction(store, {.steps = steps,
                                             .watched = watched,
                                             .protocol = command.protocol,
                                             .lent_bytes = taken.queue->bytes(),
                                             .timeout_ns = kExecTimeout_ns});
  }
  if (ended.ending != Ending::kDone) co_return answer_failure(store, command, ended);
  co_await answer_steps(store, command, *taken.queue, ended);
}

}  // namespace

Task<> exec(Store& store, Pending& command) {
  const std::shared_ptr<Taken> taken = command.transaction;
  if (taken == nullptr) co_return command.reply().error("ERR EXEC without MULTI");
  if (taken->queue->is_refused()) {
    co_return command.reply().error("EXECABORT Transaction discarded because of previous errors.");
  }
  if (taken->watched != nullptr && !taken->watched->wrong.empty()) {
    co_return command.reply().error("EXECABORT Transaction discarded because of: WATCH: " +
                                    taken->watched->wrong);
  }
  if (store.client == nullptr && needs_store(*taken)) co_return command.reply().error(kIsLoading);
  co_await run_queue(store, command, *taken);
}

bool runs_beside_body(const Row& row) noexcept {
  // These change how what follows is taken, which was taken already.
  constexpr std::string_view kNot[] = {"hello", "client|reply", "quit", "reset"};
  if (std::ranges::find(kNot, row.name) != std::end(kNot)) return false;
  constexpr std::string_view kOthers[] = {"info", "publish", "spublish"};
  return (row.kind == Kind::kLocal && row.at_once != nullptr) ||
         std::ranges::find(kOthers, row.name) != std::end(kOthers);
}

}  // namespace refract::doors::redis
