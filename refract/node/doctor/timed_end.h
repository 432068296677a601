// SPDX-License-Identifier: Apache-2.0
// The near end of one channel while it is timed: what came over it, and the loops that the doctor's self-test
// and `refract-bench fabric` share.
//
// Threads: the domain's. `Ends` is the class that derives from it; after each turn of this end
// Ends::turn_far() does what the far end needs, where that is in the same thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "refract/base/clock.h"
#include "refract/base/report.h"
#include "refract/fabric/channel.h"

namespace refract::node {

// Of TimedEnd::flow().
struct TimedFlow {
  uint64_t requests = 0;
  double seconds = 0;
};

// When TimedEnd::repeat() has enough: after so long by its clock, but within these counts.
struct Repetitions {
  uint64_t duration = 0;
  uint64_t least = 0;
  uint64_t most = 0;
};

// `Answer` is what the first bytes of a message are. A clock is looked at each kTurnsBetweenClocks turns.
template <typename Ends, typename Answer, uint32_t kTurnsBetweenClocks>
class TimedEnd {
  static_assert(std::is_trivially_copyable_v<Answer>);
  friend Ends;

  // `patience_ns`: without a completion or a message.
  TimedEnd(fabric::Domain& domain, uint64_t patience_ns) noexcept
      : domain_(&domain), patience_ns_(patience_ns) {}
  ~TimedEnd() = default;

 protected:
  // Returns when the channel is open. kOk with false: code_ says why it is not.
  [[nodiscard]] Reported<bool> connect(const std::string& address) {
    const Reported<fabric::Channel*> channel = domain_->connect(address);
    if (!channel) return report(channel.error());
    channel_ = *channel;
    return wait([this] { return is_open_; });
  }

  // Polls once, and notes what came below.
  void turn() noexcept {
    const size_t count = domain_->poll(completions_);
    for (const fabric::Completion& completion : std::span(completions_).first(count)) take(completion);
    static_cast<Ends*>(this)->turn_far();
    domain_->flush();
  }

  // Turns until `done`, unless something fails or the peer gives no sign of life.
  template <typename Done>
  [[nodiscard]] bool wait(const Done& done) noexcept {
    uint64_t signs = completed_ + messages_;
    uint64_t since_ns = 0;
    for (uint32_t turns = 1; !done(); ++turns) {
      if (code_ != Code::kOk) return false;
      turn();
      if (turns % kTurnsBetweenClocks != 0) continue;
      if (since_ns == 0 || signs != completed_ + messages_) since_ns = now_ns();
      signs = completed_ + messages_;
      if (now_ns() - since_ns > patience_ns_) code_ = Code::kDeadlineExceeded;
    }
    return code_ == Code::kOk;
  }

  [[nodiscard]] bool post(const fabric::Request& request) noexcept {
    if (channel_->post({&request, 1}) != 1 && !wait([&] { return channel_->post({&request, 1}) == 1; })) {
      return false;
    }
    domain_->flush();
    return true;
  }

  // Posts, and waits for one more of `arrivals`: completed_ or messages_.
  [[nodiscard]] bool exchange(const fabric::Request& request, const uint64_t& arrivals) noexcept {
    const uint64_t wanted = arrivals + 1;
    return post(request) && wait([&] { return arrivals >= wanted; });
  }

  // `once` again and again: each is recorded from the end of the one before it to its own, the loop included.
  // How long all took; nothing: one failed.
  template <typename Once, typename Clock, typename Record>
  [[nodiscard]] static std::optional<uint64_t> repeat(const Repetitions& how, const Once& once,
                                                      const Clock& clock, const Record& record) {
    const uint64_t begin = clock();
    uint64_t now = begin;
    for (uint64_t i = 0; (now - begin < how.duration || i < how.least) && i < how.most; ++i) {
      if (!once()) return std::nullopt;
      const uint64_t then = clock();
      record(then - now);
      now = then;
    }
    return now - begin;
  }

  // As many in flight as `requests` are, which are all the same, for so long; then until all have completed,
  // since a slow path completes few in the time. Nothing: something failed.
  [[nodiscard]] std::optional<TimedFlow> flow(std::span<const fabric::Request> requests,
                                              uint64_t duration_ns) noexcept {
    const uint64_t begin_ns = now_ns();
    const uint64_t before = completed_;
    if (!post(requests.front())) return std::nullopt;
    uint64_t posted = 1;
    for (uint64_t now = begin_ns; now - begin_ns < duration_ns && code_ == Code::kOk; now = now_ns()) {
      const uint64_t in_flight = posted - (completed_ - before);
      if (in_flight < requests.size()) {
        posted += channel_->post(requests.subspan(in_flight));
        domain_->flush();
      }
      turn();
    }
    if (!wait([&] { return completed_ - before == posted; })) return std::nullopt;
    return TimedFlow{.requests = posted, .seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9};
  }

  [[nodiscard]] static uint64_t now_ns() noexcept { return system_clock().now_ns(); }

  fabric::Domain* domain_;
  uint64_t patience_ns_;
  fabric::Channel* channel_ = nullptr;
  std::array<fabric::Completion, 64> completions_;
  bool is_open_ = false;
  Code code_ = Code::kOk;   // The first failure.
  uint64_t completed_ = 0;  // Requests with a token.
  uint64_t messages_ = 0;
  uint64_t value_ = 0;  // Of the last atomic.
  Answer answer_{};     // The last message's first bytes.

 private:
  void take(const fabric::Completion& completion) noexcept {
    using fabric::Op;
    if (completion.code != Code::kOk && code_ == Code::kOk) code_ = completion.code;
    switch (completion.op) {
      case Op::kReceive:
        ++messages_;
        std::memcpy(&answer_, completion.bytes.data(), std::min(sizeof(answer_), completion.bytes.size()));
        return;
      case Op::kOpened:
        is_open_ = completion.code == Code::kOk;
        return;
      case Op::kClosed:
        if (code_ == Code::kOk) code_ = Code::kUnavailable;
        return;
      default:
        ++completed_;
        value_ = completion.value;
    }
  }
};

}  // namespace refract::node
