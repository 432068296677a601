// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/alarm.h"

#include <sys/timerfd.h>

#include <algorithm>

namespace refract::fabric::tcp {

bool Alarm::open() noexcept {
  timer_ = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  return static_cast<bool>(timer_);
}

void Alarm::set(uint64_t moment_ns) noexcept {
  if (moment_ns == moment_ns_) return;
  moment_ns_ = moment_ns;
  itimerspec when{};
  if (moment_ns != kForever_ns) {
    // All zeros would unset it.
    const uint64_t moment = std::max<uint64_t>(moment_ns, 1);
    when.it_value.tv_sec = static_cast<time_t>(moment / kSecond_ns);
    when.it_value.tv_nsec = static_cast<long>(moment % kSecond_ns);
  }
  (void)::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Alarm::clear() noexcept {
  uint64_t rings = 0;
  (void)!::read(timer_.get(), &rings, sizeof(rings));
  set(kForever_ns);
}

}  // namespace refract::fabric::tcp
