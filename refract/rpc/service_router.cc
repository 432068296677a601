// SPDX-License-Identifier: Apache-2.0
#include "refract/rpc/service_router.h"

namespace refract::rpc {

void ServiceRouter::handle(std::span<const IncomingCall> calls) noexcept {
  while (!calls.empty()) {
    const bool first = is_first(calls.front());
    size_t count = 1;
    while (count < calls.size() && is_first(calls[count]) == first) ++count;
    (first ? first_ : second_).handle(calls.first(count));
    calls = calls.subspan(count);
  }
}

void ServiceRouter::session_opened(SessionId session) noexcept {
  first_.session_opened(session);
  second_.session_opened(session);
}

void ServiceRouter::session_closed(SessionId session) noexcept {
  first_.session_closed(session);
  second_.session_closed(session);
}

}  // namespace refract::rpc
