// SPDX-License-Identifier: Apache-2.0
// A moment at which an epoll descriptor becomes readable: for deadlines where there is no shard's timer.
// Unset, it costs nothing, so an idle process stays idle.
#pragma once

#include <cstdint>

#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {

class Alarm {
 public:
  // Control path. False: the kernel has no descriptor for us.
  [[nodiscard]] bool open() noexcept;
  [[nodiscard]] int fd() const noexcept { return timer_.get(); }
  // At system_clock().now_ns() == moment_ns; kForever_ns: never.
  void set(uint64_t moment_ns) noexcept;
  [[nodiscard]] uint64_t moment_ns() const noexcept { return moment_ns_; }
  // After it rang: not readable any more, and unset.
  void clear() noexcept;

 private:
  Descriptor timer_;
  uint64_t moment_ns_ = kForever_ns;
};

}  // namespace refract::fabric::tcp
