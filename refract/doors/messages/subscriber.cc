// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/messages/subscriber.h"

#include "refract/base/check.h"
#include "refract/doors/messages/output_limits.h"

namespace refract::doors::redis {

Subscriber::Subscriber() noexcept = default;

Subscriber::~Subscriber() {
  REFRACT_CHECK(subscriptions_ == nullptr);
}

size_t Subscriber::count(TopicKind kind) const noexcept {
  return subscriptions_ == nullptr ? 0 : subscriptions_->by_kind[static_cast<size_t>(kind)].size();
}

size_t Subscriber::subscription_bytes() const noexcept {
  return subscriptions_ == nullptr ? 0 : sizeof(Subscriptions) + subscriptions_->bytes;
}

bool Subscriber::look_at_backlog(size_t bytes, const OutputLimits& limits, uint64_t now_ns) noexcept {
  if (!is_subscribed()) bytes = 0;
  if (limits.are_passed(bytes, backlog_since_ns_, now_ns)) is_too_slow_ = true;
  return backlog_since_ns_ != 0;
}

}  // namespace refract::doors::redis
