// SPDX-License-Identifier: Apache-2.0
// Operations that were refused for now, and wait for memory, for the log, for a key that a transaction holds,
// or for the place of a record.
#include <algorithm>
#include <utility>

#include "refract/kv/owner/numbered/numbered_service.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

// False: it does not wait. Of its tag nothing else does, since the bar lets the first alone pass.
bool NumberedService::wait(const rpc::Responder& from, NumberedSession* session, const Asked& asked,
                           const NumberedOutcome& refused) {
  const wire::Operation& operation = asked.operation;
  if (!asked.key.bytes.empty() && parts_.service.far_reads().is_stuck(asked.key.hash)) return false;
  const size_t key_bytes = asked.key.bytes.size();
  const size_t bytes = key_bytes + asked.value.size();
  if (waiting_.size() == kWaitingMax || waiting_bytes_ + bytes > kWaitingBytesMax) return false;
  const auto its_own = std::ranges::count_if(
      waiting_, [&](const Waiting& waiting) { return waiting.from.session == from.session; });
  if (static_cast<size_t>(its_own) == kWaitingPerConnection) return false;
  const bool is_for_memory = refused.wanted_bytes != 0;
  Waiting& waiting = waiting_.emplace_back();
  waiting.from = from;
  waiting.asked.operation = operation;
  waiting.asked.key.hash = asked.key.hash;
  waiting.asked.expires_wall_ns = asked.expires_wall_ns;
  waiting.bytes.resize(bytes);
  waiting.for_record = !is_for_memory && operation.number != 0 && !sessions().has_room(*session);
  waiting.for_log = !is_for_memory && !waiting.for_record && parts_.table.log() != nullptr;
  const std::span<std::byte> copy = waiting.bytes;
  if (key_bytes != 0) std::ranges::copy(asked.key.bytes, copy.begin());
  if (!asked.value.empty()) copy_possibly_torn(&copy[key_bytes], asked.value.data(), asked.value.size());
  waiting.asked.key.bytes = copy.first(key_bytes);
  waiting.asked.value = copy.subspan(key_bytes);
  waiting_bytes_ += bytes;
  return true;
}

void NumberedService::retry_waiting() noexcept {
  std::deque<Waiting> waiting = std::exchange(waiting_, {});
  waiting_bytes_ = 0;
  bool log_is_full = false;
  for (Waiting& one : waiting) {
    Connection* const connection = find(one.from.session);
    if (connection == nullptr) continue;
    if (one.for_log && log_is_full) {
      waiting_bytes_ += one.bytes.size();
      waiting_.push_back(std::move(one));
      continue;
    }
    const size_t before = waiting_.size();
    // Its session may have another connection by now, and then it has ended with its own.
    NumberedSession* const session = sessions().of(one.from.session.bits);
    if (connection->is_over || (needs_session(one.asked.operation) && session == nullptr)) continue;
    const NumberedOutcome outcome = look_at(one.from, *connection, session, one.asked);
    const bool waits_on = outcome.code == Code::kOverloaded && wait(one.from, session, one.asked, outcome);
    if (!waits_on) give_one(one.from, one.asked.operation, outcome);
    log_is_full = log_is_full || (waiting_.size() > before && waiting_.back().for_log);
  }
}

// Withdrawn: what waits is answered like all that is refused for now. Its client knows which it gives up.
void NumberedService::end_wait(rpc::SessionId of, uint64_t number) {
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    if (one->from.session != of || one->asked.operation.number != number) {
      ++one;
      continue;
    }
    give_one(one->from, one->asked.operation, {.code = Code::kOverloaded});
    waiting_bytes_ -= one->bytes.size();
    one = waiting_.erase(one);
  }
}

void NumberedService::drop_waiting(rpc::SessionId connection) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.from.session != connection) return false;
    waiting_bytes_ -= waiting.bytes.size();
    return true;
  });
}

size_t NumberedService::waiting_for_log() const noexcept {
  return static_cast<size_t>(std::ranges::count(waiting_, true, &Waiting::for_log));
}

bool NumberedService::has_room_in_log() const noexcept {
  const ChangeLog* const log = parts_.table.log();
  const auto first = std::ranges::find(waiting_, true, &Waiting::for_log);
  return log != nullptr && first != waiting_.end() &&
         log->room_for(first->asked.key.bytes.size(), first->asked.value.size()) != Code::kOverloaded;
}

// A write that met what was decided has settled that, and others may wait for keys of it.
void NumberedService::look_after_held() noexcept {
  const Table::Parts* const parts = parts_.table.parts();
  if (parts == nullptr) return;
  while (std::exchange(ended_seen_, parts->ended()) != parts->ended()) parts_.service.on_settled();
}

}  // namespace refract::kv
