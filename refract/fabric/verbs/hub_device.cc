// SPDX-License-Identifier: Apache-2.0
// The device under a hub: its queues, what it says by itself, and what becomes of the hub when it is lost.
//
// A device is lost by an event that says so, by a queue of ours that has failed, or because the kernel wants
// it back. Then all channels end, and once the last of them has been given out the device is closed: its
// removal may wait for just that. The next request for a channel opens it again, if it is back.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/fabric/verbs/hub.h"
#include "refract/fabric/verbs/library.h"
#include "refract/fabric/verbs/trouble.h"

namespace refract::fabric::verbs {
namespace {

using Phase = VerbsChannel::Phase;

// Receives beyond those of the channels, which make good what broken queue pairs have lost.
constexpr uint32_t kSpareReceives = 256;
// An asynchronous event is rare and costs a system call to look for.
constexpr uint32_t kPollsBetweenEvents = 4096;
// Listing the devices takes milliseconds, which must not be spent each time that a peer asks.
constexpr uint64_t kBetweenAttempts_ns = kSecond_ns;

uint32_t completions_for(uint32_t channels) noexcept {
  return channels * (kSendQueue + kReceivesEach) + kSpareReceives;
}

uint32_t receives_for(uint32_t channels) noexcept {
  return channels * kReceivesEach + kSpareReceives;
}

// So many that neither queue can overrun, whatever all of them do at once.
uint32_t channels_that_fit(const DeviceLimits& limits, uint32_t wanted) noexcept {
  while (wanted > 0 && (completions_for(wanted) > limits.completions_max ||
                        receives_for(wanted) > limits.receives_max || wanted > limits.queue_pairs_max)) {
    --wanted;
  }
  return wanted;
}

// What is wrong with all of the device, by an event that says so; null: something else.
const char* trouble_with_all(ibv_event_type event) noexcept {
  if (event == IBV_EVENT_DEVICE_FATAL) return "it has failed or was taken away";
  if (event == IBV_EVENT_CQ_ERR) return "its completion queue has failed";
  if (event == IBV_EVENT_SRQ_ERR) return "its receive queue has failed";
  return nullptr;
}

bool is_about_pair(ibv_event_type event) noexcept {
  return event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR || event == IBV_EVENT_QP_ACCESS_ERR;
}

}  // namespace

Reported<> Hub::open_queues() {
  const DeviceFacts& facts = device_->facts();
  const VerbsLibrary& library = device_->calls();
  options_.channels_max = channels_that_fit(facts.limits, options_.channels_max);
  if (options_.channels_max == 0 || facts.limits.reads_in_max == 0) {
    return report(Code::kUnsupported,
                  fmt::format("{} lacks shared receive queues, READs, or queues of {} entries", facts.name,
                              completions_for(1)),
                  "name another device; refract doctor says more");
  }
  if (!wake_) wake_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  events_ = wake_ ? library.create_comp_channel(device_->context()) : nullptr;
  if (events_ != nullptr && ::fcntl(events_->fd, F_SETFL, O_NONBLOCK) == 0 && watch(events_->fd) &&
      watch(device_->async_fd())) {
    uint32_t entries = completions_for(options_.channels_max);
    if (options_.completions_max != 0) entries = options_.completions_max;
    completion_queue_ = library.create_cq(device_->context(), static_cast<int>(entries),
                                          /*context=*/nullptr, events_, /*vector=*/0);
  }
  if (completion_queue_ == nullptr) {
    return report(explain({.step = events_ == nullptr ? Step::kEventChannel : Step::kCompletionQueue,
                           .error = errno,
                           .what = fmt::format("{} cannot make a completion queue", facts.name)}));
  }
  auto receives = ReceivePool::make(*device_, receives_for(options_.channels_max));
  if (!receives) return report(receives.error());
  receives_ = std::move(*receives);
  return {};
}

void Hub::close_queues() noexcept {
  manager_.reset();
  spare_memory_.clear();
  receives_.reset();
  const VerbsLibrary& library = device_->calls();
  ibv_cq* const queue = std::exchange(completion_queue_, nullptr);
  if (queue != nullptr) (void)library.destroy_cq(queue);
  ibv_comp_channel* const events = std::exchange(events_, nullptr);
  if (events != nullptr) (void)library.destroy_comp_channel(events);
}

// One descriptor stands for those of the device, so that it stays the same when the device is opened again.
bool Hub::watch(int descriptor) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

std::span<const int> Hub::wake_descriptors() noexcept {
  const std::span<const int> theirs = introducer_.wake_descriptors();
  wake_descriptors_.assign({wake_.get()});
  wake_descriptors_.insert(wake_descriptors_.end(), theirs.begin(), theirs.end());
  return wake_descriptors_;
}

void Hub::look_at_device() noexcept {
  polls_until_events_ = kPollsBetweenEvents;
  if (!device_->is_open() || device_lost_) return;
  hear_device();
  if (device_->is_withdrawn()) lose_all("it is being taken away");
}

void Hub::hear_device() noexcept {
  ibv_async_event event;
  const VerbsLibrary& library = device_->calls();
  bool ports_changed = false;
  while (library.get_async_event(device_->context(), &event) == 0) {
    const bool is_of_pair = is_about_pair(event.event_type);
    const uint32_t number = is_of_pair ? event.element.qp->qp_num : 0;
    const char* const trouble = trouble_with_all(event.event_type);
    ports_changed = ports_changed || (!is_of_pair && trouble == nullptr);
    // Before anything is destroyed, for that waits until its events are acknowledged.
    library.ack_async_event(&event);
    ++counters.device_events;
    const auto owner = by_number_.find(number);
    if (is_of_pair && owner != by_number_.end()) lose(*owner->second, counters.other_errors);
    if (trouble != nullptr) lose_all(trouble);
  }
  // A port that goes down and comes back within the transport's patience has lost nothing; one that stays
  // down ends in IBV_WC_RETRY_EXC_ERR. Its addresses may have changed.
  if (ports_changed && !device_lost_) device_->look_at_ports();
}

void Hub::lose_all(std::string_view why) noexcept {
  if (device_lost_) return;
  device_lost_ = true;
  why_lost_ = {Code::kUnavailable, fmt::format("{} cannot be used any more: {}", device_->facts().name, why),
               "connect again once the device is back; refract doctor says more"};
  log_warn("{}", why_lost_.what);
  for (const auto& channel : slots_) {
    if (channel == nullptr || channel->phase() == Phase::kDead) continue;
    if (accepted()) {
      if (channel->queue_pair() != nullptr) lose(*channel, counters.other_errors);
      continue;
    }
    const auto link = links_.find(channel->introducer());
    if (link != links_.end()) refused(link->second, why_lost_);
  }
}

void Hub::leave_device() noexcept {
  const bool is_in_use = std::ranges::any_of(slots_, [](const auto& slot) { return slot != nullptr; });
  if (is_in_use || !device_->is_open()) return;
  by_number_.clear();
  close_queues();
  served_.suspend();
  device_->close();
}

Reported<> Hub::come_back() {
  const uint64_t now_ns = system_clock().now_ns();
  if (device_->is_open() || now_ns < next_attempt_ns_) return report(why_lost_);
  next_attempt_ns_ = now_ns + kBetweenAttempts_ns;
  auto back = device_->reopen();
  if (back) back = open_queues();
  if (back) back = served_.resume();
  if (!back) {
    close_queues();
    served_.suspend();
    device_->close();
    why_lost_ = back.error();
    return back;
  }
  counters.registrations += served_.count();
  device_lost_ = false;
  log_info("{} can be used again", device_->facts().name);
  return {};
}

}  // namespace refract::fabric::verbs
