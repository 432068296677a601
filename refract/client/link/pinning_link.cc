// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/pinning_link.h"

namespace refract::client {

void PinningLink::retire() noexcept {
  if (is_child()) return;
  leave_shard();
  leave();
  const auto held = static_cast<int64_t>(retire_pins());
  // Those who have let go since then counted below zero.
  if (holders_left_.fetch_add(held, std::memory_order_acq_rel) == -held) delete this;
}

void PinningLink::end_of_a_holder() noexcept {
  if (holders_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace refract::client
