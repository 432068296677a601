// SPDX-License-Identifier: Apache-2.0
// How a connection takes messages among its replies.
#include "refract/doors/messages/handlers.h"
#include "refract/doors/messages/subscriber.h"
#include "refract/doors/redis/session.h"

namespace refract::doors::redis {

// Between two replies; or among what confirms a change of subscriptions that runs now. None behind the end
// that the client has asked for. One that asks without end and reads nothing is not read either, so its
// replies are bounded; messages are not its own to hold back.
void Session::hear(const Message& message) noexcept {
  if (!takes_requests() || is_too_slow()) return;
  give_replies();
  Pending* const next = pending_.empty() ? nullptr : pending_.front().get();
  const bool is_confirmed =
      next != nullptr && next->has_begun && !next->is_over && changes_subscriptions(*next->row);
  Replies& replies = is_confirmed ? next->answer : output_;
  replies.text() += Reply::push_letter(next == nullptr ? protocol_ : next->protocol);
  replies.text() += message.head;
  if (message.shared != nullptr) {
    replies.append(*message.shared);
  } else {
    replies.text() += message.tail;
  }
  (void)has_backlog();
  listener_.has_replies();
}

bool Session::has_backlog() noexcept {
  return look_at_backlog(output_.bytes() + pending_bytes_, store_.common.output_limits,
                         store_.shard.now_ns());
}

}  // namespace refract::doors::redis
