// SPDX-License-Identifier: Apache-2.0
// block_on of a task that Shard::ask_before_sleeping() may end.
#pragma once

#include <concepts>
#include <utility>

#include "refract/base/result.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::runtime {

// As block_on. Where it was not to wait any longer the task is dropped, and this is `given_up`. T is a Code
// or a Result.
template <typename T>
[[nodiscard]] T block_or(Code given_up, Shard& shard, Task<T> task) {
  if (has_run(shard, task)) [[likely]]
    return task.take();
  if constexpr (std::same_as<T, Code>) {
    return given_up;
  } else {
    return fail(given_up);
  }
}

}  // namespace refract::runtime
