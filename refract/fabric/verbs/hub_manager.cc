// SPDX-License-Identifier: Apache-2.0
// What librdmacm tells a domain, and how it sleeps while an introduction is under way.
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "refract/base/clock.h"
#include "refract/fabric/verbs/hub.h"

namespace refract::fabric::verbs {
namespace {

using Phase = VerbsChannel::Phase;
using What = ConnectionManager::Outcome::What;

}  // namespace

void Hub::forget_queue_pair(uint32_t number) noexcept {
  by_number_.erase(number);
  if (manager_ != nullptr) manager_->forget(number);
}

Reported<ConnectionManager*> Hub::connection_manager() {
  if (manager_ != nullptr) return manager_.get();
  auto made = ConnectionManager::make(*device_);
  if (!made) return report(made.error());
  if (!watch((*made)->descriptor())) {
    return report(Code::kSystem, "librdmacm's events cannot be waited for", "");
  }
  manager_ = std::move(*made);
  return manager_.get();
}

// True: there was something.
bool Hub::hear_manager() noexcept {
  if (manager_ == nullptr) return false;
  bool has_heard = false;
  while (auto outcome = manager_->next()) {
    has_heard = true;
    if (outcome->what == What::kRequest) {
      take_request(*outcome);
      continue;
    }
    const auto owner = by_number_.find(outcome->queue_pair);
    // The accepting end waits for the greeting, whatever becomes of the connection's confirmation.
    if (accepted() || owner == by_number_.end()) continue;
    const auto link = links_.find(owner->second->introducer());
    if (link == links_.end() || link->second.stage != Stage::kConnecting) continue;
    if (outcome->what == What::kConnected) {
      greet(*link->first, link->second);
    } else {
      came_to_nothing(*link->first, link->second,
                      {.why = std::move(outcome->why), .hope = Hope::kOtherWayOrTime});
    }
  }
  return has_heard;
}

// A token is good for one introduction, and once.
void Hub::take_request(ConnectionManager::Outcome& request) noexcept {
  const auto found = std::ranges::find_if(links_, [&request](const auto& row) {
    const Link& link = row.second;
    return link.stage == Stage::kConnecting && link.token == request.token && link.channel != nullptr &&
           link.channel->phase() == Phase::kUnborn && link.channel->queue_pair() != nullptr;
  });
  if (!accepted() || found == links_.end()) {
    ++counters.unknown_tokens;
    return manager_->reject(std::move(*request.asker));
  }
  Link& link = found->second;
  link.token = 0;
  // Before the peer can know of it, and greet.
  enter(link, Stage::kGreeting);
  VerbsChannel& channel = *link.channel;
  const auto done = manager_->accept(std::move(*request.asker), *channel.queue_pair(), link.peer);
  if (done) return;
  last_refusal_ = done.error();
  (void)tell(*found->first, encode_refusal(done.error()));
  enter(link, Stage::kNone);
  link.channel = nullptr;
  channel.set_introducer(nullptr);
  channel.abandon();
  dead_.push_back(&channel);
}

bool Hub::open_alarm() noexcept {
  alarm_ = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  return alarm_ && watch(alarm_.get());
}

void Hub::set_alarm() noexcept {
  if (introducing_ == 0) return;
  uint64_t moment_ns = kForever_ns;
  for (const auto& [introducer, link] : links_) {
    if (link.due_ns != 0) moment_ns = std::min(moment_ns, link.due_ns);
  }
  if (moment_ns == kForever_ns) return;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(moment_ns / kSecond_ns);
  // All zeros would unset it.
  when.it_value.tv_nsec = static_cast<long>(moment_ns % kSecond_ns) | 1;
  is_alarm_set_ = ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0;
}

void Hub::clear_alarm() noexcept {
  if (!std::exchange(is_alarm_set_, false)) return;
  const itimerspec never{};
  (void)::timerfd_settime(alarm_.get(), 0, &never, nullptr);
}

}  // namespace refract::fabric::verbs
