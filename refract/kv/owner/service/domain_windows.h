// SPDX-License-Identifier: Apache-2.0
// Windows in one domain: each is a region of its own, registered while the window is open, with an id from
// kFirstRegion up, where no region of a space is.
//
// Threads: used only by the domain's shard.
#pragma once

#include <cstdint>
#include <deque>

#include "refract/fabric/channel.h"
#include "refract/kv/owner/ports.h"

namespace refract::kv {

class DomainWindows final : public WindowSource {
 public:
  static constexpr uint16_t kFirstRegion = 0x8000;
  static constexpr size_t kWindowsMax = 0x8000;

  // The domain outlives it.
  explicit DomainWindows(fabric::Domain& domain) noexcept : domain_(domain) {}
  DomainWindows(const DomainWindows&) = delete;
  DomainWindows& operator=(const DomainWindows&) = delete;
  // REQUIRES: all are closed.
  ~DomainWindows() override;

  [[nodiscard]] std::optional<Window> open(std::span<std::byte> bytes, Rights rights) override;
  uint64_t close(const Window& window) noexcept override;
  [[nodiscard]] size_t open_count() const noexcept { return open_count_; }

 private:
  fabric::Domain& domain_;
  // Free ids, the longest closed first: so a late request finds no window in its region for as long as
  // possible, and never its own key.
  std::deque<uint16_t> free_;
  uint32_t ids_used_ = 0;  // From kFirstRegion on.
  size_t open_count_ = 0;
};

}  // namespace refract::kv
