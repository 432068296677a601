// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/exec/multi.h"

#include <fmt/format.h>

#include <utility>

#include "refract/base/units.h"
#include "refract/doors/admin/command_docs.h"
#include "refract/doors/exec/handlers.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {
namespace {

// What a key costs beside its bytes, or a word.
constexpr size_t kKeyCost = 64;

bool is_one_of_these(const Row& row) noexcept {
  constexpr std::string_view kNames[] = {"multi", "exec", "discard", "quit", "reset"};
  return std::ranges::find(kNames, row.name) != std::end(kNames);
}

// What is wrong with the keys of a command; empty: nothing.
std::string wrong_keys(const std::vector<std::string_view>& keys, const AsyncClient* client) {
  if (client == nullptr) return {};
  for (const std::string_view key : keys) {
    if (key.empty()) return error_of(Code::kInvalidArgument, *client);
    if (key.size() > UINT16_MAX) return error_of(Code::kTooLarge, *client);
  }
  return {};
}

std::vector<std::string_view> keys_in(const Row& row, Words words) {
  if (row.first_key == 0) return {};
  return keys_of(row, words);
}

// Puts a command of an open MULTI into its queue.
bool queue_up(Call& call) {
  Session& session = call.session;
  const Row* const row = row_called_by(call.words);
  const std::shared_ptr<Queue> queue = session.multi()->queue;
  const bool is_known = row != nullptr && (row->in_body != nullptr || runs_beside_body(*row));
  const std::string wrong = is_known ? wrong_keys(keys_in(*row, call.words), call.store.client)
                                     : "ERR Command not allowed inside a transaction";
  if (!wrong.empty()) {
    queue->refuse();
    call.reply.error(wrong);
  } else if (queue->is_refused()) {
    // Nothing of it will run, so nothing is kept.
    call.reply.simple("QUEUED");
  } else if (queue->add(*row, call.words)) {
    call.reply.simple("QUEUED");
  } else {
    call.reply.error(too_much_for_transaction());
  }
  return true;
}

bool watch_inside(Call& call) {
  call.reply.error("ERR WATCH inside MULTI is not allowed");
  return true;
}

constexpr Row kQueueRow = {"", -1, Kind::kLocal, queue_up, nullptr, "loading stale", 0, 0, 0};
constexpr Row kWatchInsideRow = {"", -1, Kind::kLocal, watch_inside, nullptr, "loading stale", 0, 0, 0};

}  // namespace

std::string too_much_for_transaction() {
  return fmt::format(
      "ERR a transaction has at most {} keys, of which one that is read and written counts twice, and {} MiB "
      "of "
      "keys and values; at a node with a log its writes to one shard have some 4 MiB",
      kTransactionKeysMax, kTransactionBytesMax / kMiB);
}

bool Queue::add(const Row& row, Words words) {
  size_t bytes = 0;
  for (const std::string_view word : words) bytes += word.size();
  size_t cost = sizeof(Command) + bytes + words.size() * sizeof(std::string_view);
  if (bytes_ + cost > kTransactionBytesMax) {
    refuse();
    return false;
  }
  Command& command = commands_.emplace_back(Command{.row = &row, .bytes = {}, .words = {}});
  command.bytes.reserve(bytes);
  command.words.reserve(words.size());
  for (const std::string_view word : words) {
    const size_t begin = command.bytes.size();
    command.bytes += word;
    command.words.emplace_back(command.bytes.data() + begin, word.size());
  }
  for (const std::string_view key : keys_in(row, command.words)) {
    if (keys_.insert(key).second) cost += kKeyCost;
  }
  bytes_ += cost;
  if (keys_.size() <= kTransactionKeysMax) return true;
  refuse();
  return false;
}

void Queue::refuse() noexcept {
  is_refused_ = true;
  keys_ = {};
  commands_ = {};
  bytes_ = 0;
}

size_t Multi::held_bytes() const noexcept {
  size_t bytes = sizeof(Multi);
  if (watched != nullptr) bytes += watched->bytes + watched->versions.size() * kKeyCost;
  if (queue != nullptr) bytes += queue->bytes();
  return bytes;
}

const Row& row_to_run(const Session& session, const Row& row) noexcept {
  if (session.multi() == nullptr || session.multi()->queue == nullptr || is_one_of_these(row)) return row;
  return row.name == "watch" ? kWatchInsideRow : kQueueRow;
}

std::string refused(Session& session, const Row* row, std::string why) {
  if (row != nullptr && row->name == "exec") {
    session.drop_multi();
    return "EXECABORT Transaction discarded because of: " + why.substr(std::string_view("ERR ").size());
  }
  if (session.multi() != nullptr && session.multi()->queue != nullptr) session.multi()->queue->refuse();
  return why;
}

bool waits_for_node(const Row& row) noexcept {
  return row.as_task == exec || row.as_task == watch;
}

void take_along(Session& session, Pending& command) {
  if (!waits_for_node(*command.row)) return;
  const bool is_exec = command.row->as_task == exec;
  Multi& multi = session.make_multi();
  if (multi.watched == nullptr && !is_exec) multi.watched = std::make_shared<Watched>();
  // EXEC without MULTI is an error that leaves what is watched.
  if (is_exec && multi.queue == nullptr) return;
  command.transaction = std::make_shared<Taken>(Taken{.watched = multi.watched, .queue = multi.queue});
  if (!is_exec) return;
  command.words_bytes += multi.held_bytes();
  session.drop_multi();
}

}  // namespace refract::doors::redis
