// SPDX-License-Identifier: Apache-2.0
// An owner's network by a rule that is broken on purpose: where a creator aborts what it makes, the READs of
// its memory that are under way are reported as failed at once, though they land later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>

#include "refract/fabric/wrap/wrapped_domain.h"
#include "refract/object/layout/object_wire.h"
#include "refract/rpc/message.h"

namespace refract::campaign {

class EarlyAborts final : public fabric::WrappedDomain {
 public:
  explicit EarlyAborts(fabric::Domain& inner) noexcept : WrappedDomain(inner) {}

  [[nodiscard]] bool prepare_sleep() noexcept override {
    return WrappedDomain::prepare_sleep() && early_.empty();
  }

 protected:
  [[nodiscard]] size_t do_post(fabric::WrappedChannel& channel,
                               std::span<const fabric::Request> requests) noexcept override {
    const size_t posted = WrappedDomain::do_post(channel, requests);
    for (const fabric::Request& request : requests.first(posted)) {
      if (request.op == fabric::Op::kRead && request.token != 0) reads_.emplace(request.token, &channel);
    }
    return posted;
  }

  // The owner has the abort first, and then the failures, in its next turn.
  [[nodiscard]] size_t take(std::span<fabric::Completion> completions) noexcept override {
    size_t early = 0;
    for (; early < completions.size() && !early_.empty(); ++early) {
      completions[early] = early_.front();
      early_.pop_front();
    }
    const std::span<fabric::Completion> rest = completions.subspan(early);
    const std::span<fabric::Completion> taken = rest.first(WrappedDomain::take(rest));
    for (const fabric::Completion& completion : taken) {
      if (is_abort(completion)) fail_reads(completion.channel);
    }
    const auto again = std::ranges::remove_if(taken, [this](const fabric::Completion& completion) {
      if (completion.op != fabric::Op::kRead) return false;
      reads_.erase(completion.token);
      return failed_.erase(completion.token) > 0;
    });
    return early + taken.size() - again.size();
  }

 private:
  [[nodiscard]] static bool is_abort(const fabric::Completion& completion) noexcept {
    if (completion.op != fabric::Op::kReceive) return false;
    const auto message = rpc::decode(completion.bytes);
    return message && message->header.method == static_cast<uint16_t>(object::wire::Method::kAbort);
  }

  void fail_reads(const fabric::Channel* channel) {
    std::erase_if(reads_, [&](const auto& read) {
      if (read.second != channel) return false;
      early_.push_back({.token = read.first,
                        .channel = read.second,
                        .bytes = {},
                        .op = fabric::Op::kRead,
                        .code = Code::kUnavailable});
      failed_.insert(read.first);
      return true;
    });
  }

  std::map<uint64_t, fabric::Channel*> reads_;  // That are under way, by token.
  std::deque<fabric::Completion> early_;
  std::set<uint64_t> failed_;
};

}  // namespace refract::campaign
