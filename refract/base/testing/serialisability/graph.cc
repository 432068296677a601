// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/graph.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace refract::serialisability {
namespace {

// 256 MiB.
constexpr size_t kReachedMax = size_t{1} << 26;

}  // namespace

Graph::Graph(const Evidence& evidence, const CheckOptions& options, Order order)
    : evidence_(&evidence), options_(&options), order_(order), out_(evidence.nodes) {
  chain_.assign(evidence.nodes, kUnset);
  position_.assign(evidence.nodes, 0);
  if (order != Order::kNone) add_clients();
  if (evidence.nodes <= options.all_pairs_max) {
    chains_ = evidence.nodes;
    for (uint32_t node = 0; node < chains_; ++node) chain_[node] = node;
    std::ranges::fill(position_, 0);
  }
  if (order == Order::kRealTime) add_real_time(options);
}

// What a refused transaction found counts only if the store says so.
bool Graph::is_left_out(uint32_t transaction) const {
  return evidence_->history->transactions[transaction].outcome == Outcome::kRefused &&
         !evidence_->has_happened[transaction];
}

// A client that does several things at once is taken for several.
void Graph::add_clients() {
  struct Lane {
    uint32_t chain = 0;
    uint32_t last = 0;
    uint64_t end_ns = 0;
    uint32_t length = 0;
  };
  const std::vector<Transaction>& all = evidence_->history->transactions;
  std::vector<uint32_t> sorted;
  for (uint32_t t = 0; t < all.size(); ++t) {
    if (!is_left_out(t)) sorted.push_back(t);
  }
  std::ranges::sort(sorted, {}, [&](uint32_t t) { return std::tuple(all[t].client, all[t].began_ns, t); });
  std::vector<Lane> lanes;
  uint32_t client = 0;
  for (const uint32_t t : sorted) {
    const Transaction& one = all[t];
    if (one.client != client) lanes.clear();
    client = one.client;
    const auto lane =
        std::ranges::find_if(lanes, [&](const Lane& other) { return other.end_ns <= one.began_ns; });
    if (lane != lanes.end()) add({.from = lane->last, .to = t, .kind = EdgeKind::kProcess});
    const uint64_t end_ns = end_of(one);
    if (end_ns == kNever) continue;
    const bool is_new = lane == lanes.end();
    if (is_new) lanes.push_back({.chain = chains_++});
    Lane& mine = is_new ? lanes.back() : *lane;
    mine.last = t;
    mine.end_ns = end_ns;
    chain_[t] = mine.chain;
    position_[t] = mine.length++;
  }
}

void Graph::add_real_time(const CheckOptions& options) {
  const std::vector<Transaction>& all = evidence_->history->transactions;
  std::vector<uint32_t> by_end;
  std::vector<uint32_t> by_begin;
  for (uint32_t t = 0; t < all.size(); ++t) {
    if (is_left_out(t)) continue;
    by_begin.push_back(t);
    if (end_of(all[t]) != kNever) by_end.push_back(t);
  }
  std::ranges::sort(by_end, {}, [&](uint32_t t) { return std::pair(all[t].ended_ns, t); });
  std::ranges::sort(by_begin, {}, [&](uint32_t t) { return std::pair(all[t].began_ns, t); });
  size_t ended = 0;
  for (const uint32_t t : by_begin) {
    for (; ended < by_end.size() && precedes(all[by_end[ended]], all[t], options); ++ended) {
      const auto moment = static_cast<uint32_t>(out_.size());
      out_.emplace_back();
      if (ended > 0) add({.from = moment - 1, .to = moment});
      add({.from = by_end[ended], .to = moment});
    }
    if (ended > 0) add({.from = static_cast<uint32_t>(out_.size() - 1), .to = t});
  }
}

void Graph::add(const Link& link) {
  if (link.from == link.to) return;
  out_[link.from].push_back(static_cast<uint32_t>(links_.size()));
  links_.push_back(link);
}

void Graph::remove_last() {
  out_[links_.back().from].pop_back();
  links_.pop_back();
}

bool Graph::sort() {
  const size_t count = out_.size();
  std::vector<uint32_t> before(count, 0);
  for (const Link& link : links_) ++before[link.to];
  std::vector<uint32_t> sorted;
  sorted.reserve(count);
  for (uint32_t node = 0; node < count; ++node) {
    if (before[node] == 0) sorted.push_back(node);
  }
  const bool fits = chains_ > 0 && count <= kReachedMax / chains_;
  reached_by_.assign(fits ? count * chains_ : 0, 0);
  for (size_t i = 0; i < sorted.size(); ++i) {
    const uint32_t node = sorted[i];
    uint32_t* const mine = reached_by_.data() + node * size_t{fits ? chains_ : 0};
    if (fits && node < chain_.size() && chain_[node] != kUnset) {
      mine[chain_[node]] = std::max(mine[chain_[node]], position_[node] + 1);
    }
    for (const uint32_t index : out_[node]) {
      const uint32_t to = links_[index].to;
      if (fits) {
        uint32_t* const theirs = reached_by_.data() + to * size_t{chains_};
        for (uint32_t chain = 0; chain < chains_; ++chain)
          theirs[chain] = std::max(theirs[chain], mine[chain]);
      }
      if (--before[to] == 0) sorted.push_back(to);
    }
  }
  return sorted.size() == count;
}

bool Graph::reaches_by_chain(uint32_t one, uint32_t other) const {
  const uint32_t chain = chain_[one];
  return chain != kUnset && reached_by_[other * size_t{chains_} + chain] > position_[one];
}

bool Graph::reaches(uint32_t one, uint32_t other) const {
  if (one == other) return false;
  const std::vector<Transaction>& all = evidence_->history->transactions;
  if (reached_by_.empty()) {
    return order_ == Order::kRealTime && one < all.size() && other < all.size() &&
           precedes(all[one], all[other], *options_);
  }
  if (chain_[one] != kUnset) return reaches_by_chain(one, other);
  // In no chain: by the nodes directly behind it.
  return std::ranges::any_of(out_[one], [&](uint32_t index) {
    const uint32_t next = links_[index].to;
    return next == other || (!is_moment(next) && reaches_by_chain(next, other));
  });
}

}  // namespace refract::serialisability
