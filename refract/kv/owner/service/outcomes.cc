// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/outcomes.h"

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

void Outcomes::remember(RequestId request, const Result<uint64_t>& result, uint64_t now_ns,
                        uint64_t opened_ns) {
  const Outcome known{.sequence = request.sequence, .version = result ? *result : 0, .code = result.code()};
  if (!watched_.empty()) {
    const auto watched = watched_.find(request);
    if (watched != watched_.end()) watched->second.outcome = known;
  }
  Client& its = client(request.client);
  its.used_ns = now_ns;
  its.opened_ns = std::max(its.opened_ns, opened_ns);
  Outcome& outcome = its.outcomes[request.sequence % kPerClient];
  if (outcome.sequence > request.sequence) {
    its.forgotten = std::max(its.forgotten, request.sequence);
    return;
  }
  if (outcome.sequence < request.sequence) its.forgotten = std::max(its.forgotten, outcome.sequence);
  outcome = known;
}

void Outcomes::remember_answer(RequestId request, std::span<const std::byte> answer) {
  // Of a short one the account is what counts.
  constexpr size_t kEach = 128;
  const size_t bytes = answer.size() + kEach;
  if (bytes > kAnswersBytesMax) return;
  const auto [place, is_new] = answers_.try_emplace(request, answer.begin(), answer.end());
  if (!is_new) return;
  answered_.push_back(request);
  answers_bytes_ += bytes;
  while (answers_bytes_ > kAnswersBytesMax) {
    const auto oldest = answers_.find(answered_.front());
    answered_.pop_front();
    answers_bytes_ -= oldest->second.size() + kEach;
    answers_.erase(oldest);
  }
}

std::span<const std::byte> Outcomes::answer_to(RequestId request) const noexcept {
  const auto found = answers_.find(request);
  return found == answers_.end() ? std::span<const std::byte>() : std::span(found->second);
}

void Outcomes::watch(RequestId request) {
  if (request) ++watched_[request].times;
}

void Outcomes::unwatch(RequestId request) {
  const auto watched = watched_.find(request);
  if (request && --watched->second.times == 0) watched_.erase(watched);
}

bool Outcomes::is_open(RequestId request) const noexcept {
  if (watched_.empty()) return false;
  const auto watched = watched_.find(request);
  return watched != watched_.end() && !watched->second.outcome;
}

std::optional<Outcomes::Outcome> Outcomes::find(RequestId request) const noexcept {
  if (!watched_.empty()) {
    const auto watched = watched_.find(request);
    if (watched != watched_.end() && watched->second.outcome) return watched->second.outcome;
  }
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

bool Outcomes::may_be_late(RequestId request, uint64_t opened_ns) const noexcept {
  const auto found = by_client_.find(request.client);
  return found != by_client_.end() && request.sequence <= found->second->forgotten &&
         opened_ns < found->second->opened_ns;
}

}  // namespace refract::kv
