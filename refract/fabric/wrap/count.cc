// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/wrap/count.h"

namespace refract::fabric {

size_t CountDomain::do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept {
  const size_t taken = WrappedDomain::do_post(channel, requests);
  for (const Request& request : requests.first(taken)) {
    ++counts_.requests[static_cast<size_t>(request.op)];
    if (request.op == Op::kSend) counts_.bytes_sent += request.local.bytes + request.tail.bytes;
    if (request.op == Op::kWrite) counts_.bytes_sent += request.local.bytes;
    if (request.op == Op::kRead) counts_.bytes_received += request.local.bytes;
  }
  channel.posted_since_flush += taken;
  posted_ = posted_ || taken > 0;
  return taken;
}

size_t CountDomain::take(std::span<Completion> completions) noexcept {
  const size_t count = WrappedDomain::take(completions);
  for (const Completion& completion : completions.first(count)) {
    if (completion.op == Op::kReceive) {
      ++counts_.messages_received;
      counts_.bytes_received += completion.bytes.size();
    } else if (completion.op <= Op::kSend && completion.code != Code::kOk) {
      ++counts_.failed_requests;
    }
  }
  return count;
}

void CountDomain::flush() noexcept {
  if (posted_) {
    posted_ = false;
    ++counts_.doorbells;
    for (const std::unique_ptr<WrappedChannel>& channel : channels()) {
      if (channel->posted_since_flush > 0) ++counts_.round_trips;
      channel->posted_since_flush = 0;
    }
  }
  WrappedDomain::flush();
}

bool CountDomain::prepare_sleep() noexcept {
  may_sleep_ = WrappedDomain::prepare_sleep();
  return may_sleep_;
}

void CountDomain::woke() noexcept {
  if (may_sleep_) ++counts_.wake_ups;
  may_sleep_ = false;
  WrappedDomain::woke();
}

}  // namespace refract::fabric
