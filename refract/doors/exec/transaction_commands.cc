// SPDX-License-Identifier: Apache-2.0
// MULTI, EXEC, DISCARD, WATCH and UNWATCH.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
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
  if (multi.queue() != nullptr) {
    call.reply.error("ERR MULTI calls can not be nested");
  } else {
    multi.open();
    call.reply.ok();
  }
  return true;
}

bool discard(Call& call) {
  Multi* const multi = call.session.multi();
  if (multi == nullptr || multi->queue() == nullptr) {
    call.reply.error("ERR DISCARD without MULTI");
  } else {
    multi->drop();
    call.reply.ok();
  }
  return true;
}

bool unwatch(Call& call) {
  if (call.session.multi() != nullptr) call.session.multi()->unwatch();
  call.reply.ok();
  return true;
}

namespace {

// Of a key that is absent 0.
Task<Result<uint64_t>> version_of(Store& store, std::string_view key) {
  Result<Got> got = store.client->exists_at_once(key);
  if (!got && got.code() != Code::kNotFound) got = co_await store.client->exists(key);
  if (got) co_return got->version;
  if (got.code() == Code::kNotFound) co_return uint64_t{0};
  co_return fail(got.error());
}

// What is wrong; empty: the keys are watched, or were forgotten meanwhile.
Task<std::string> watch_keys(Store& store, Pending& command) {
  for (const std::string_view key : Words(command.words).subspan(1)) {
    const Result<uint64_t> version = co_await version_of(store, key);
    Watched* const watched = command.session->multi()->watched(command.taken->watched);
    if (watched == nullptr) co_return std::string();
    if (!version) co_return watched->wrong = error_of(version.code(), *store.client);
    const bool is_full = watched->versions.size() >= kTransactionKeysMax;
    // One that is watched already keeps its first version.
    const auto [place, is_new] = watched->versions.try_emplace(std::string(key), *version);
    watched->bytes += is_new ? key.size() : 0;
    if (is_new && (is_full || watched->bytes > kTransactionBytesMax)) {
      co_return watched->wrong = too_much_for_transaction();
    }
  }
  co_return std::string();
}

}  // namespace

// An EXEC behind one that has failed must not run as if it were guarded.
Task<> watch(Store& store, Pending& command) {
  if (store.client == nullptr) {
    Watched* const watched = command.session->multi()->watched(command.taken->watched);
    if (watched != nullptr) watched->wrong = kIsLoading;
    co_return command.reply().error(kIsLoading);
  }
  const std::string wrong = co_await watch_keys(store, command);
  if (wrong.empty()) {
    command.reply().ok();
  } else {
    command.reply().error(wrong);
  }
}

namespace {

bool needs_store(const Queue& queue, const Watched& watched) {
  const auto is_of_store = [](const Queue::Command& one) { return one.row->in_body != nullptr; };
  return !watched.versions.empty() || std::ranges::any_of(queue.commands(), is_of_store);
}

// A command without a part in the store, at its place among the replies.
Task<> run_beside(Store& store, Pending& whole, const Queue::Command& one) {
  if (one.row->at_once != nullptr) {
    Call call{.store = store, .session = *whole.session, .words = one.words, .reply = whole.reply()};
    if (one.row->at_once(call)) co_return;
  }
  Pending command;
  command.row = one.row;
  command.session = whole.session;
  command.protocol = whole.protocol;
  command.words = one.words;
  co_await one.row->as_task(store, command);
  whole.answer.append(command.answer);
}

Task<> answer_steps(Store& store, Pending& command, const Queue& queue, const Ended& ended) {
  command.reply().array(queue.commands().size());
  size_t begin = 0;
  for (size_t i = 0; i < queue.commands().size(); ++i) {
    const Queue::Command& one = queue.commands()[i];
    CommandTallies& tallies = store.common.command_counts.of(store.place, *one.row);
    tallies.calls.fetch_add(1);
    if (one.row->in_body == nullptr) {
      co_await run_beside(store, command, one);
      continue;
    }
    const size_t end = ended.ends.empty() ? begin : ended.ends[i];
    if (begin < end && ended.replies[begin] == '-') tallies.failed.fetch_add(1);
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

Task<Ended> run_in_store(Store& store, const Pending& command, const Queue& queue, const Watched& watched) {
  std::vector<Step> steps;
  steps.reserve(queue.commands().size());
  for (const Queue::Command& one : queue.commands()) steps.push_back({.row = one.row, .words = one.words});
  std::vector<Watch> watches;
  watches.reserve(watched.versions.size());
  for (const auto& [key, version] : watched.versions) watches.push_back({.key = key, .version = version});
  const Transaction transaction{.steps = steps,
                                .watched = watches,
                                .protocol = command.protocol,
                                .lent_bytes = queue.bytes(),
                                .timeout_ns = kExecTimeout_ns};
  Ended ended = co_await run_transaction(store, transaction);
  co_return ended;
}

Task<> run_queue(Store& store, Pending& command, const Queue& queue, const Watched& watched) {
  Ended ended;
  if (needs_store(queue, watched)) {
    if (store.client == nullptr) co_return command.reply().error(kIsLoading);
    ended = co_await run_in_store(store, command, queue, watched);
  }
  if (ended.ending != Ending::kDone) co_return answer_failure(store, command, ended);
  co_await answer_steps(store, command, queue, ended);
}

}  // namespace

Task<> exec(Store& store, Pending& command) {
  const std::unique_ptr<Taken> taken = std::move(command.taken);
  if (taken == nullptr) co_return command.reply().error("ERR EXEC without MULTI");
  const Watched watched = command.session->multi()->take_watched(taken->watched);
  if (taken->queue->is_refused()) {
    command.reply().error("EXECABORT Transaction discarded because of previous errors.");
  } else if (!watched.wrong.empty()) {
    command.reply().error("EXECABORT Transaction discarded because of: WATCH: " + watched.wrong);
  } else {
    co_await run_queue(store, command, *taken->queue, watched);
  }
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
