// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/store_time.h"

#include <algorithm>
#include <bit>

#include "refract/memory/remote_visible.h"

namespace refract {
namespace {

using BootWords = std::array<uint64_t, 2>;

SpaceTime starting_at(uint64_t now_ns, const Clock& host, const std::optional<BootId>& boot) noexcept {
  SpaceTime time{};
  time.offset_ns = now_ns - host.boot_ns();
  // The one offset that would mean an old space.
  if (time.offset_ns == 0) time.offset_ns = 1;
  if (boot) std::ranges::copy(std::bit_cast<BootWords>(*boot), time.boot);
  return time;
}

}  // namespace

bool is_of_boot(const SpaceTime& stored, const std::optional<BootId>& boot) noexcept {
  return boot && std::ranges::equal(std::bit_cast<BootWords>(*boot), stored.boot);
}

SpaceTime begin_time(const Clock& host, const std::optional<BootId>& boot) noexcept {
  return starting_at(host.wall_ns(), host, boot);
}

SpaceTime resume_time(const SpaceTime& stored, const Clock& host,
                      const std::optional<BootId>& boot) noexcept {
  if (stored.offset_ns != 0 && is_of_boot(stored, boot)) {
    SpaceTime running = stored;
    running.left_ns = running.left_wall_ns = 0;
    return running;
  }
  if (stored.offset_ns == 0 || stored.left_ns == 0) return begin_time(host, boot);
  const uint64_t wall_ns = host.wall_ns();
  const uint64_t passed_ns = wall_ns > stored.left_wall_ns ? wall_ns - stored.left_wall_ns : 0;
  return starting_at(stored.left_ns + passed_ns, host, boot);
}

const SpaceTime& later_time(const SpaceTime& one, const SpaceTime& other) noexcept {
  return static_cast<int64_t>(one.offset_ns - other.offset_ns) > 0 ? one : other;
}

SpaceTime leave_time(const SpaceTime& time, const Clock& host) noexcept {
  SpaceTime left = time;
  left.left_ns = StoreClock(host, time.offset_ns).wall_ns();
  left.left_wall_ns = host.wall_ns();
  return left;
}

uint64_t time_offset_ns(const std::byte* space) noexcept {
  return observe_u64(space + offsetof(SpaceHeader, time) + offsetof(SpaceTime, offset_ns));
}

}  // namespace refract
