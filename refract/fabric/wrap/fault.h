// SPDX-License-Identifier: Apache-2.0
// A domain that makes the contract's unpleasant corners happen often, from a seed: short counts, late
// completions, channels that are cut. All of it is allowed by the contract: nothing is dropped silently, a
// cut channel ends as one whose peer died, and a message is never delivered that could not be answered.
#pragma once

#include <cstdint>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/wrap/wrapped_domain.h"

namespace refract::fabric {

struct FaultOptions {
  uint64_t seed = 1;
  double short_count_chance =
      0;                    // For each channel and poll: post takes only a few requests until the next poll.
  double delay_chance = 0;  // For each completion of a request: it comes some polls later.
  uint32_t delay_polls_max = 16;
  double cut_chance = 0;  // For each channel and poll: it is closed.
};

class FaultDomain final : public WrappedDomain {
 public:
  FaultDomain(Domain& inner, const FaultOptions& options);

  struct Counts {
    uint64_t short_polls = 0;
    uint64_t delayed = 0;
    uint64_t cut = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  [[nodiscard]] bool prepare_sleep() noexcept override;

 protected:
  [[nodiscard]] size_t do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept override;
  [[nodiscard]] size_t do_room(const WrappedChannel& channel) const noexcept override;
  [[nodiscard]] size_t take(std::span<Completion> completions) noexcept override;

 private:
  // Beyond so many, completions are not held back any more, so that nothing grows.
  static constexpr size_t kHeldMax = 4096;

  struct Held {
    Completion completion;
    uint64_t due_poll;
  };

  [[nodiscard]] size_t release_due(std::span<Completion> completions) noexcept;
  [[nodiscard]] bool hold(const Completion& completion) noexcept;
  void draw_faults() noexcept;

  FaultOptions options_;
  Prng prng_;
  uint64_t poll_ = 0;
  std::vector<Held> held_;
  Counts counts_;
};

}  // namespace refract::fabric
