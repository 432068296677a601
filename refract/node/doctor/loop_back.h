// SPDX-License-Identifier: Apache-2.0
// Both ends of a provider in one process: one that serves a region, and one that reaches it, for the doctor
// to try whether a path works and what it carries.
//
// Threads: one, which polls both domains; let_in() moves what polling does not. Nothing is left behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/verbs/device.h"

namespace refract::node {

class LoopBack {
 public:
  static constexpr uint16_t kRegion = 1;
  // One area that is read, and behind it one that is written.
  static constexpr size_t kAreaBytes = kMiB;
  static constexpr size_t kBytes = 2 * kAreaBytes;

  [[nodiscard]] static Reported<std::unique_ptr<LoopBack>> over_shm();
  // Over the loop-back interface, at a port that is free.
  [[nodiscard]] static Reported<std::unique_ptr<LoopBack>> over_tcp();
  // From one port to another, or to itself, introduced as above.
  [[nodiscard]] static Reported<std::unique_ptr<LoopBack>> over_verbs(const fabric::verbs::DeviceWish& from,
                                                                      const fabric::verbs::DeviceWish& to);
  LoopBack() = default;
  LoopBack(const LoopBack&) = delete;
  LoopBack& operator=(const LoopBack&) = delete;
  virtual ~LoopBack() = default;

  [[nodiscard]] virtual fabric::Domain& near_end() noexcept = 0;
  [[nodiscard]] virtual fabric::Domain& far_end() noexcept = 0;
  // For near_end() to connect to.
  [[nodiscard]] virtual const std::string& address() const noexcept = 0;
  // Of kRegion at the far end, kBytes long, with all rights.
  [[nodiscard]] virtual RemoteKey key() const noexcept = 0;
  // kAreaBytes, registered at the near end where that pays.
  [[nodiscard]] virtual std::byte* local() noexcept = 0;
  // A system call or two; until the channel has opened.
  virtual void let_in() noexcept = 0;
  // Why the near end's channel failed; `what` is empty where that is unknown.
  [[nodiscard]] virtual const Report& last_refusal() const noexcept = 0;
};

}  // namespace refract::node
