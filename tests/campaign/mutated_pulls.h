// SPDX-License-Identifier: Apache-2.0
// Values that the server READs from its clients, by rules that are broken on purpose: at the client's domain,
// what was lent is never revoked; at the server's, a READ is reported when it is posted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <span>

#include "refract/fabric/wrap/wrapped_domain.h"

namespace refract::campaign {

class KeptLoans final : public fabric::WrappedDomain {
 public:
  explicit KeptLoans(fabric::Domain& inner) noexcept : WrappedDomain(inner) {}

  uint64_t revoke_region(uint16_t /*region*/) noexcept override { return 0; }
};

class EarlyReads final : public fabric::WrappedDomain {
 public:
  explicit EarlyReads(fabric::Domain& inner) noexcept : WrappedDomain(inner) {}

  [[nodiscard]] bool prepare_sleep() noexcept override {
    return WrappedDomain::prepare_sleep() && early_.empty();
  }

 protected:
  [[nodiscard]] size_t do_post(fabric::WrappedChannel& channel,
                               std::span<const fabric::Request> requests) noexcept override {
    const size_t posted = WrappedDomain::do_post(channel, requests);
    for (const fabric::Request& request : requests.first(posted)) {
      if (request.op != fabric::Op::kRead || request.token == 0) continue;
      early_.push_back({.token = request.token, .channel = &channel, .bytes = {}, .op = fabric::Op::kRead});
      reported_.insert(request.token);
    }
    return posted;
  }

  [[nodiscard]] size_t take(std::span<fabric::Completion> completions) noexcept override {
    size_t early = 0;
    for (; early < completions.size() && !early_.empty(); ++early) {
      completions[early] = early_.front();
      early_.pop_front();
    }
    const std::span<fabric::Completion> rest = completions.subspan(early);
    const std::span<fabric::Completion> taken = rest.first(WrappedDomain::take(rest));
    const auto again = std::ranges::remove_if(taken, [this](const fabric::Completion& completion) {
      return completion.op == fabric::Op::kRead && reported_.erase(completion.token) > 0;
    });
    return early + taken.size() - again.size();
  }

 private:
  std::deque<fabric::Completion> early_;
  std::set<uint64_t> reported_;  // By token: what comes by itself is not given again.
};

}  // namespace refract::campaign
