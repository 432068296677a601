// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/pause.h"

#include <algorithm>
#include <string_view>

#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {

void Pause::begin(What what, uint64_t end_ns, uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const bool is_beside = is_on() && this->end_ns() > now_ns;
  end_ns_.store(is_beside ? std::max(end_ns, this->end_ns()) : end_ns);
  what_.store(is_beside ? std::max(what, this->what()) : what);
}

void Pause::end() {
  const std::lock_guard lock(mutex_);
  what_.store(What::kNothing);
}

void Pause::end_if_over(uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (now_ns >= end_ns()) what_.store(What::kNothing);
}

// As Redis has it: of all commands QUIT alone runs, and a write is what its flags say. EXEC is one, whatever
// was queued.
bool Pause::holds_now(const Row& row, uint64_t now_ns) const noexcept {
  if (now_ns >= end_ns()) return false;
  if (what() == What::kAll) return row.name != "quit";
  return row.name == "exec" || row.flags.find("write") != std::string_view::npos ||
         row.flags.find("may_replicate") != std::string_view::npos;
}

}  // namespace refract::doors::redis
