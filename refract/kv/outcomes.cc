// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/outcomes.h"

#include <algorithm>

namespace refract::kv {

Outcomes::Client& Outcomes::client(uint64_t id) {
  const auto found = by_client_.find(id);
  if (found != by_client_.end()) {
    clients_.splice(clients_.begin(), clients_, found->second);
    return clients_.front();
  }
  if (clients_.size() == kClientsMax) {
    // The list is in the order of used_ns, so this is the least of them all.
    complete_since_ns_ = std::max(complete_since_ns_, clients_.back().used_ns + 1);
    by_client_.erase(clients_.back().id);
    clients_.splice(clients_.begin(), clients_, std::prev(clients_.end()));
    clients_.front() = Client{};
  } else {
    clients_.emplace_front();
  }
  clients_.front().id = id;
  by_client_.emplace(id, clients_.begin());
  return clients_.front();
}

void Outcomes::remember(RequestId request, const Result<uint64_t>& result, uint64_t now_ns) {
  Client& its = client(request.client);
  its.used_ns = now_ns;
  Outcome& outcome = its.outcomes[request.sequence % kPerClient];
  if (outcome.sequence > request.sequence) {
    its.forgotten = std::max(its.forgotten, request.sequence);
    return;
  }
  if (outcome.sequence < request.sequence) its.forgotten = std::max(its.forgotten, outcome.sequence);
  outcome = {.sequence = request.sequence, .version = result ? *result : 0, .code = result.code()};
}

std::optional<Outcomes::Outcome> Outcomes::find(RequestId request) const noexcept {
  const auto found = by_client_.find(request.client);
  if (found == by_client_.end()) return std::nullopt;
  const Outcome& outcome = found->second->outcomes[request.sequence % kPerClient];
  // An empty place has sequence 0, which no request of a client has.
  return outcome.sequence == request.sequence && request.sequence != 0 ? std::optional(outcome)
                                                                       : std::nullopt;
}

bool Outcomes::would_know(RequestId request, uint64_t first_sent_ns) const noexcept {
  if (first_sent_ns < complete_since_ns_) return false;
  const auto found = by_client_.find(request.client);
  return found == by_client_.end() || request.sequence > found->second->forgotten;
}

}  // namespace refract::kv
