// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/wrap/trace.h"

#include "refract/base/trace_ring.h"

namespace refract::fabric {

size_t TraceDomain::do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept {
  const size_t taken = WrappedDomain::do_post(channel, requests);
  for (const Request& request : requests.first(taken)) {
    const size_t tail_bytes = request.op == Op::kSend ? request.tail.bytes : 0;
    REFRACT_TRACE("fabric post op {} token {} bytes {}", static_cast<uint64_t>(request.op), request.token,
                  request.local.bytes + tail_bytes);
  }
  if (taken < requests.size()) {
    REFRACT_TRACE("fabric short count {} of {}", taken, requests.size());
  }
  return taken;
}

size_t TraceDomain::take(std::span<Completion> completions) noexcept {
  const size_t count = WrappedDomain::take(completions);
  for (const Completion& completion : completions.first(count)) {
    if (completion.op == Op::kReceive) {
      REFRACT_TRACE("fabric receive bytes {}", completion.bytes.size());
    } else {
      REFRACT_TRACE("fabric complete op {} token {} code {}", static_cast<uint64_t>(completion.op),
                    completion.token, static_cast<uint64_t>(completion.code));
    }
  }
  return count;
}

}  // namespace refract::fabric
