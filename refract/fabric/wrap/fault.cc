// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/wrap/fault.h"

#include <algorithm>

namespace refract::fabric {

FaultDomain::FaultDomain(Domain& inner, const FaultOptions& options)
    : WrappedDomain(inner), options_(options), prng_(options.seed) {
  held_.reserve(kHeldMax);
}

size_t FaultDomain::do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept {
  const size_t taken =
      WrappedDomain::do_post(channel, requests.first(std::min(requests.size(), channel.allowance)));
  if (channel.allowance != SIZE_MAX) channel.allowance -= taken;
  return taken;
}

size_t FaultDomain::do_room(const WrappedChannel& channel) const noexcept {
  return std::min(WrappedDomain::do_room(channel), channel.allowance);
}

size_t FaultDomain::release_due(std::span<Completion> completions) noexcept {
  size_t count = 0;
  std::erase_if(held_, [&](const Held& held) {
    if (held.due_poll > poll_ || count == completions.size()) return false;
    completions[count++] = held.completion;
    return true;
  });
  return count;
}

bool FaultDomain::hold(const Completion& completion) noexcept {
  if (completion.op == Op::kClosed) {
    // The last sign of a channel must not overtake those that are held back: all of them come with the next
    // poll.
    bool some = false;
    for (Held& held : held_) {
      if (held.completion.channel != completion.channel) continue;
      held.due_poll = 0;
      some = true;
    }
    if (some) held_.push_back({completion, 0});
    return some;
  }
  // Room is kept for the kClosed of every channel; messages cannot wait, since their bytes do not stay.
  if (completion.op > Op::kSend || held_.size() + channels().size() >= kHeldMax) return false;
  if (!prng_.chance(options_.delay_chance)) return false;
  held_.push_back({completion, poll_ + 1 + prng_.below(options_.delay_polls_max)});
  ++counts_.delayed;
  return true;
}

size_t FaultDomain::take(std::span<Completion> completions) noexcept {
  ++poll_;
  const size_t released = release_due(completions);
  const std::span<Completion> rest = completions.subspan(released);
  for (const std::unique_ptr<WrappedChannel>& channel : channels()) channel->delivered = 0;
  const size_t polled = poll_inner(rest);
  size_t kept = 0;
  for (const Completion& completion : rest.first(polled)) {
    if (completion.op == Op::kReceive) ++static_cast<WrappedChannel*>(completion.channel)->delivered;
    if (!hold(completion)) rest[kept++] = completion;
  }
  draw_faults();
  return released + kept;
}

void FaultDomain::draw_faults() noexcept {
  for (const std::unique_ptr<WrappedChannel>& channel : channels()) {
    channel->allowance = SIZE_MAX;
    if (channel->inner() == nullptr) continue;
    if (options_.short_count_chance > 0 && prng_.chance(options_.short_count_chance)) {
      // What has just been delivered can be answered all the same.
      channel->allowance = channel->delivered + prng_.below(3);
      ++counts_.short_polls;
    }
    if (options_.cut_chance > 0 && prng_.chance(options_.cut_chance)) {
      channel->inner()->close();
      ++counts_.cut;
    }
  }
}

bool FaultDomain::prepare_sleep() noexcept {
  // Both must be told, since woke() follows in either case; a short allowance ends only with a poll.
  const bool inner_may_sleep = WrappedDomain::prepare_sleep();
  const bool starved = std::any_of(channels().begin(), channels().end(),
                                   [](const auto& channel) { return channel->allowance != SIZE_MAX; });
  return inner_may_sleep && held_.empty() && !starved;
}

}  // namespace refract::fabric
