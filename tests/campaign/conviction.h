// SPDX-License-Identifier: Apache-2.0
// Which seed convicts a store whose rules are broken.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace refract::campaign {

struct Conviction {
  uint64_t seed = 0;     // The last that was tried.
  std::string sentence;  // What was wrong; empty: nothing.
};

// Runs the seeds from 1 on until one finds something wrong, in a process of its own, because a store whose
// rules are broken may fail one of its own checks: that convicts it, too.
[[nodiscard]] Conviction convict(uint64_t seeds, const std::function<std::string(uint64_t seed)>& wrong_of);

}  // namespace refract::campaign
