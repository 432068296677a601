// SPDX-License-Identifier: Apache-2.0
// A domain that counts what passes through it: the round trips, messages and bytes that are promised for each
// operation of a store are asserted with it, and no store counts for itself.
#pragma once

#include <array>
#include <cstdint>

#include "refract/fabric/wrap/wrapped_domain.h"

namespace refract::fabric {

struct FabricCounts {
  std::array<uint64_t, 5> requests = {};  // Posted, by Op from kRead to kSend.
  uint64_t failed_requests = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_sent = 0;      // Of messages and WRITEs.
  uint64_t bytes_received = 0;  // Of messages, and asked for by READs.
  // One for each channel and flush with requests: what leaves together makes the way together.
  uint64_t round_trips = 0;
  uint64_t doorbells = 0;  // Flushes that had work.
  uint64_t wake_ups = 0;   // Ends of announced sleeps.

  [[nodiscard]] uint64_t requests_of(Op op) const noexcept { return requests[static_cast<size_t>(op)]; }
};

class CountDomain final : public WrappedDomain {
 public:
  explicit CountDomain(Domain& inner) noexcept : WrappedDomain(inner) {}

  [[nodiscard]] const FabricCounts& counts() const noexcept { return counts_; }
  void reset_counts() noexcept { counts_ = {}; }

  void flush() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override;

 protected:
  [[nodiscard]] size_t do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept override;
  [[nodiscard]] size_t take(std::span<Completion> completions) noexcept override;

 private:
  FabricCounts counts_;
  bool posted_ = false;
  bool may_sleep_ = false;
};

}  // namespace refract::fabric
