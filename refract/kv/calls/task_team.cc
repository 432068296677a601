// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/task_team.h"

#include <utility>

#include "refract/base/units.h"

namespace refract::kv {

void TaskTeam::leave() noexcept {
  if (--running_ > 0) return;
  const runtime::Token waiter = std::exchange(waiter_, 0);
  if (waiter != 0) (void)shard_.ops().complete(waiter, {.code = Code::kOk});
}

runtime::Task<> TaskTeam::run() {
  running_ = members_.size();
  for (runtime::Task<>& member : members_) member.start();
  while (running_ > 0) {
    // Awaiting changes it, which the check does not see.
    runtime::Pending all = shard_.ops().begin(kForever_ns);  // NOLINT(misc-const-correctness)
    waiter_ = all.token();
    if (waiter_ != 0) {
      (void)co_await all;
      waiter_ = 0;
    } else {
      co_await shard_.sleep_for(kMillisecond_ns);
    }
  }
  // The task that left last has resumed this task and stands below it on the stack: it must end before it is
  // destroyed.
  co_await shard_.sleep_for(0);
}

}  // namespace refract::kv
