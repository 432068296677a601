// SPDX-License-Identifier: Apache-2.0
// The network of clients that read their server's memory by a rule that is broken on purpose: what they post
// comes back as what they saw before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "tests/campaign/mutation.h"

#include "refract/fabric/wrap/wrapped_domain.h"

namespace refract::campaign {

class MutatedReads final : public fabric::WrappedDomain {
 public:
  MutatedReads(fabric::Domain& inner, Mutation mutation) noexcept
      : WrappedDomain(inner), mutation_(mutation) {}

 protected:
  [[nodiscard]] size_t do_post(fabric::WrappedChannel& channel,
                               std::span<const fabric::Request> requests) noexcept override;
  [[nodiscard]] size_t take(std::span<fabric::Completion> completions) noexcept override;

 private:
  using Place = std::pair<const fabric::Channel*, uint64_t>;
  struct Posted {
    RemotePointer remote;
    fabric::LocalSpan local{};
  };

  void look_at(const fabric::Completion& completion) noexcept;

  Mutation mutation_;
  std::map<uint64_t, Posted> posted_;  // READs, by token.
  std::map<Place, uint64_t> words_;    // Of slots, as their lines had them.
};

}  // namespace refract::campaign
