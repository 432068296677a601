// SPDX-License-Identifier: Apache-2.0
// Some tasks that run side by side on one shard, and the task that waits for all of them.
//
//   TaskTeam team(shard);
//   for (size_t i = 0; i < count; ++i) team.add(work(job, team));   // Each ends with team.leave().
//   co_await team.run();
//
// The team owns its tasks: dropping it drops them. Threads: used only by its shard.
#pragma once

#include <cstddef>
#include <vector>

#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class TaskTeam {
 public:
  explicit TaskTeam(runtime::Shard& shard) noexcept : shard_(shard) {}
  TaskTeam(const TaskTeam&) = delete;
  TaskTeam& operator=(const TaskTeam&) = delete;
  ~TaskTeam() = default;

  void add(runtime::Task<> member) { members_.push_back(std::move(member)); }
  // The last thing a member does.
  void leave() noexcept;
  // Starts all and ends when all have left. Once.
  [[nodiscard]] runtime::Task<> run();

 private:
  runtime::Shard& shard_;
  std::vector<runtime::Task<>> members_;
  size_t running_ = 0;
  runtime::Token waiter_ = 0;
};

}  // namespace refract::kv
