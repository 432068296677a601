// SPDX-License-Identifier: Apache-2.0
// Answers that wait for the log, and what continues when it has advanced: docs/design/025-log.md.
#include <algorithm>

#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/service/service.h"

namespace refract::kv {

using wire::Method;

namespace {

// Whether an answer with this code says something of the table that a crash of the host could make untrue.
bool tells_of_table(Code code) noexcept {
  switch (code) {
    case Code::kOk:
    case Code::kNotFound:
    case Code::kExists:
    case Code::kVersionMismatch:
      return true;
    default:
      return false;
  }
}

}  // namespace

void TableService::answer_when_confirmed(const rpc::Responder& to, Code code,
                                         std::span<const std::byte> head) noexcept {
  read_only_ += code == Code::kReadOnly ? 1 : 0;
  const ChangeLog* const log = parts_.table.log();
  if (log == nullptr || !tells_of_table(code)) return answer(to, code, head);
  // A repetition, or a refusal, was appended by another call, perhaps long ago: waiting for everything is
  // never too short.
  const uint64_t position = log->appended();
  if (position <= log->confirmed()) return answer(to, code, head);
  if (const Code failure = log->failure(); failure != Code::kOk) {
    ++failed_by_log_;
    return answer(to, failure);
  }
  held_answers_.keep(to, position, code, {.head = head});
}

bool TableService::keeps_reply(const rpc::Responder& to, std::span<const std::byte> reply) noexcept {
  const ChangeLog* const log = parts_.table.log();
  if (log == nullptr || log->appended() <= log->confirmed()) return false;
  if (const Code failure = log->failure(); failure != Code::kOk) {
    ++failed_by_log_;
    answer(to, failure);
  } else {
    held_answers_.keep(to, log->appended(), Code::kOk, {.tail = reply});
  }
  return true;
}

// Whether the write may succeed when memory has been added, or the log has advanced. One that begins an
// upload is overloaded for other reasons.
bool TableService::may_wait(const Write& write, Code code) const noexcept {
  if (code == Code::kNoSpace) return true;
  const bool begins =
      write.method == Method::kPutBegin || (write.method == Method::kPutPulled && write.upload == 0);
  const bool may_be_held = parts_.table.parts() != nullptr && parts_.table.parts()->count() != 0;
  return code == Code::kOverloaded && !begins && (parts_.table.log() != nullptr || may_be_held);
}

size_t TableService::on_log_progress() noexcept {
  const ChangeLog* const log = parts_.table.log();
  if (log == nullptr) return 0;
  size_t done = 0;
  if (!held_answers_.empty()) {
    // First: what is confirmed when the log fails is.
    const Code failure = log->failure();
    const HeldAnswers::Given given = held_answers_.give(server_, log->confirmed(), failure);
    failed_by_log_ += given.failed;
    done += given.answers;
  }
  const size_t released = parts_.table.release_held_back();
  const auto waits_for_log = std::ranges::find(waiting_, true, &writes::Waiting::for_log);
  const bool has_room = (waits_for_log != waiting_.end() &&
                         log->room_for(waits_for_log->write.key.bytes.size(),
                                       waits_for_log->write.value.size()) != Code::kOverloaded) ||
                        (beside_ != nullptr && beside_->has_room_in_log());
  // Those that wait for memory learn of a failure, too: what is held back would never come.
  const bool goes_on = released > 0 || has_room || log->failure() != Code::kOk;
  if (has_waiting() && goes_on) {
    done += waiting_.size() + (beside_ == nullptr ? 0 : beside_->waiting());
    retry_waiting();
  }
  if (released > 0) look_after_time();
  return done + released;
}

TableService::LogStats TableService::log_stats() const noexcept {
  return {
      .held_answers = held_answers_.count(),
      .waiting_writes = static_cast<uint64_t>(std::ranges::count(waiting_, true, &writes::Waiting::for_log)) +
                        (beside_ == nullptr ? 0 : beside_->waiting_for_log()),
      .held_back_bytes = parts_.table.held_back().bytes(),
      .indeterminate = failed_by_log_,
      .read_only = read_only_};
}

}  // namespace refract::kv
