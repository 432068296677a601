// SPDX-License-Identifier: Apache-2.0
// Store time: what times to live are counted in. It begins as the wall clock's time when a store is made and
// then only runs: no step of the wall clock, forward or back, makes an entry die early or live again, and
// neither does a restart or a machine that was suspended (docs/design/028-store-time.md).
//
// Every process of the host that maps the space computes it from the space's header and CLOCK_BOOTTIME.
#pragma once

#include <cstdint>
#include <optional>

#include "refract/base/boot_id.h"
#include "refract/base/clock.h"
#include "refract/memory/space.h"

namespace refract {

// A store that is made now. Without a boot's id, every start counts as one of another boot.
[[nodiscard]] SpaceTime begin_time(const Clock& host, const std::optional<BootId>& boot) noexcept;

// A store that is taken up. In the boot in which it was left, its time has advanced by itself. In another
// boot, it advances from where it was left by as much as the wall clock says has passed, never back. For a
// store that was not stopped, it is the wall clock's time.
[[nodiscard]] SpaceTime resume_time(const SpaceTime& stored, const Clock& host,
                                    const std::optional<BootId>& boot) noexcept;

// Of two that were taken up one behind the other, as shards of a node are, the one that is ahead: by it no
// entry of either lives again.
[[nodiscard]] const SpaceTime& later_time(const SpaceTime& one, const SpaceTime& other) noexcept;

// Whether the store was last taken up in this boot.
[[nodiscard]] bool is_of_boot(const SpaceTime& stored, const std::optional<BootId>& boot) noexcept;

// The node ends: what resume_time() will want to know.
[[nodiscard]] SpaceTime leave_time(const SpaceTime& time, const Clock& host) noexcept;

// What a reader that has mapped a space computes its time from. REQUIRES: Heap::check_header passed.
[[nodiscard]] uint64_t time_offset_ns(const std::byte* space) noexcept;

// The host's clock, with the store's time as its wall_ns().
class StoreClock final : public Clock {
 public:
  // `host` outlives the clock. With offset 0, in older spaces, the host's wall clock is what there is.
  explicit StoreClock(const Clock& host, uint64_t offset_ns = 0) noexcept
      : host_(host), offset_ns_(offset_ns) {}

  [[nodiscard]] uint64_t now_ns() const noexcept override { return host_.now_ns(); }
  [[nodiscard]] uint64_t boot_ns() const noexcept override { return host_.boot_ns(); }
  [[nodiscard]] bool runs_by_itself() const noexcept override { return host_.runs_by_itself(); }
  [[nodiscard]] uint64_t wall_ns() const noexcept override {
    return offset_ns_ == 0 ? host_.wall_ns() : host_.boot_ns() + offset_ns_;
  }

 private:
  const Clock& host_;
  const uint64_t offset_ns_;
};

}  // namespace refract
