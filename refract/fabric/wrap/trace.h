// SPDX-License-Identifier: Apache-2.0
// A domain that records every request and completion in the thread's trace ring (base/trace_ring.h).
#pragma once

#include "refract/fabric/wrap/wrapped_domain.h"

namespace refract::fabric {

class TraceDomain final : public WrappedDomain {
 public:
  explicit TraceDomain(Domain& inner) noexcept : WrappedDomain(inner) {}

 protected:
  [[nodiscard]] size_t do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept override;
  [[nodiscard]] size_t take(std::span<Completion> completions) noexcept override;
};

}  // namespace refract::fabric
