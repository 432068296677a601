// SPDX-License-Identifier: Apache-2.0
// Commands of several keys outside of a transaction, at one moment all the same: each is one of its own.
#include <span>
#include <string_view>

#include "refract/doors/exec/handlers.h"
#include "refract/doors/exec/run_body.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// Whether these are more words than those of a transaction, of which nothing is to be kept then.
bool is_too_much(Words words) {
  size_t bytes = 0;
  for (const std::string_view word : words) bytes += word.size();
  return words.size() > 1 + 2 * kTransactionKeysMax || bytes > kTransactionBytesMax + words[0].size();
}

// Its reply is there, but of a failure.
Task<Ended> run_alone(Store& store, Pending& command) {
  if (is_too_much(command.words)) co_return Ended{.ending = Ending::kFailed, .code = Code::kTooLarge};
  const Step step{.row = command.row, .words = command.words};
  const Transaction transaction{.steps = std::span(&step, 1),
                                .watched = {},
                                .protocol = command.protocol,
                                .lent_bytes = command.words_bytes,
                                .timeout_ns = kDoorTimeout_ns};
  Ended ended = co_await run_transaction(store, transaction);
  if (ended.ending == Ending::kDone) command.answer.text() += ended.replies;
  co_return ended;
}

// More than a transaction may have is not one moment.
Task<> run_or_fan_out(Store& store, Pending& command, Task<> (*fan_out)(Store& store, Pending& command)) {
  const Ended ended = co_await run_alone(store, command);
  if (ended.ending == Ending::kDone) co_return;
  if (ended.code != Code::kTooLarge) co_return fail_with(command, ended.code, *store.client);
  co_await fan_out(store, command);
}

}  // namespace

Task<> run_together(Store& store, Pending& command) {
  const Ended ended = co_await run_alone(store, command);
  if (ended.ending != Ending::kDone) fail_batch(command, ended.code, *store.client);
}

Task<> mset_together(Store& store, Pending& command) {
  return run_or_fan_out(store, command, mset);
}

Task<> del_together(Store& store, Pending& command) {
  if (command.words.size() == 2) return del(store, command);
  return run_or_fan_out(store, command, del);
}

}  // namespace refract::doors::redis
