// SPDX-License-Identifier: Apache-2.0
// What becomes due without a call. One timer for all, and none where nothing waits.
#include <algorithm>
#include <utility>

#include "refract/object/owner/object_service_state.h"

namespace refract::object {

using runtime::Task;

namespace {

constexpr uint64_t kDepartedPauseMin_ns = 100 * kMillisecond_ns;
constexpr uint64_t kDepartedPauseMax_ns = 10 * kSecond_ns;

}  // namespace

uint64_t ObjectService::State::next_due_ns() const {
  if (!evicting.empty()) return 0;
  uint64_t due_ns = std::min({retry_ns, awaiting_due_ns, notice_due_ns, departed_ns});
  if (!unclaimed.empty()) due_ns = std::min(due_ns, unclaimed.front().until_ns);
  for (const uint64_t number : crossed) {
    const OpenCreation* open = opens.find(number);
    if (open == nullptr) continue;
    for (const OpenCreation::Seal& seal : open->seals) due_ns = std::min(due_ns, seal.until_ns);
  }
  return due_ns;
}

void ObjectService::State::arrange_timer() {
  if (is_in_timer) return;
  const uint64_t due_ns = next_due_ns();
  const bool is_running = timer.valid() && !timer.done();
  if (due_ns == kForever_ns || (is_running && timer_ns <= due_ns)) return;
  timer_ns = due_ns;
  timer = run_timer();
  timer.start();
}

Task<> ObjectService::State::run_timer() {
  while (timer_ns != kForever_ns) {
    co_await parts.shard.sleep_until(timer_ns);
    is_in_timer = true;
    on_time();
    is_in_timer = false;
    timer_ns = next_due_ns();
  }
}

void ObjectService::State::on_time() {
  const uint64_t now_ns = parts.shard.now_ns();
  end_unclaimed(now_ns);
  end_overdue_seals(now_ns);
  evict_some();
  if (retry_ns <= now_ns) retry_waiting();
  if (awaiting_due_ns <= now_ns) end_awaiting(now_ns);
  if (notice_due_ns <= now_ns) end_notice_waits(now_ns);
  if (departed_ns <= now_ns) {
    departed_seen = parts.store.release_departed();
    departed_pause_ns = std::min(departed_pause_ns * 2, kDepartedPauseMax_ns);
    departed_ns = departed_seen == 0 ? kForever_ns : moment_after(now_ns, departed_pause_ns);
  }
  settle();
}

// A let go of sends no message. The pauses double, and begin short again with what departs and when a session
// ends. What lacks room looks itself.
void ObjectService::State::look_after_departed() {
  const uint64_t departed = parts.store.accounts().departed;
  if (departed == 0) departed_ns = kForever_ns;
  if (departed > departed_seen) {
    departed_pause_ns = kDepartedPauseMin_ns;
    departed_ns = moment_after(parts.shard.now_ns(), departed_pause_ns);
  }
  departed_seen = departed;
}

}  // namespace refract::object
