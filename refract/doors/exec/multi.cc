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
  const Row* const row = row_called_by(call.words);
  Queue* const queue = call.session.multi()->queue();
  const bool is_known = row != nullptr && (row->in_body != nullptr || runs_beside_body(*row));
  const std::string wrong = is_known ? wrong_keys(keys_in(*row, call.words), call.store.client)
                                     : "ERR Command not allowed inside a transaction";
  if (!wrong.empty()) {
    queue->refuse();
    call.reply.error(wrong);
  } else if (queue->is_refused() || queue->add(*row, call.words)) {
    // Of a refused one nothing will run, so nothing is kept.
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

uint64_t Multi::watch() {
  if (number_ == 0) {
    number_ = ++last_number_;
    watched_.try_emplace(number_);
  }
  return number_;
}

Watched* Multi::watched(uint64_t number) noexcept {
  const auto found = watched_.find(number);
  return found == watched_.end() ? nullptr : &found->second;
}

void Multi::unwatch() noexcept {
  watched_.erase(std::exchange(number_, 0));
}

void Multi::drop() noexcept {
  unwatch();
  queue_.reset();
}

Taken Multi::take() noexcept {
  return {.watched = std::exchange(number_, 0), .queue = std::move(queue_)};
}

Watched Multi::take_watched(uint64_t number) noexcept {
  auto taken = watched_.extract(number);
  return taken.empty() ? Watched() : std::move(taken.mapped());
}

size_t Multi::held_bytes() const noexcept {
  size_t bytes = sizeof(Multi) + (queue_ != nullptr ? queue_->bytes() : 0);
  for (const auto& [number, watched] : watched_) bytes += watched.bytes + watched.versions.size() * kKeyCost;
  return bytes;
}

const Row* row_to_run(const Session& session, const Row& row) noexcept {
  if (session.multi() == nullptr || session.multi()->queue() == nullptr || is_one_of_these(row)) return &row;
  return row.name == "watch" ? &kWatchInsideRow : &kQueueRow;
}

std::string refused(Session& session, const Row* row, std::string why) {
  if (row != nullptr && row->name == "exec") {
    if (session.multi() != nullptr) session.multi()->drop();
    return "EXECABORT Transaction discarded because of: " + why.substr(std::string_view("ERR ").size());
  }
  Queue* const queue = session.multi() == nullptr ? nullptr : session.multi()->queue();
  if (queue != nullptr) queue->refuse();
  return why;
}

bool waits_for_node(const Row& row) noexcept {
  return row.as_task == exec || row.as_task == watch;
}

void take_along(Session& session, Pending& command) {
  if (!waits_for_node(*command.row)) return;
  Multi& multi = session.make_multi();
  if (command.row->as_task == watch) {
    command.taken = std::make_unique<Taken>(Taken{.watched = multi.watch()});
  } else if (multi.queue() != nullptr) {
    command.words_bytes += multi.queue()->bytes();
    command.taken = std::make_unique<Taken>(multi.take());
  }
}

}  // namespace refract::doors::redis
