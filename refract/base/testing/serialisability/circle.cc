// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>

#include "refract/base/testing/serialisability/graph.h"

namespace refract::serialisability {
namespace {

// Links looked at before the smallest circle so far is taken.
constexpr uint64_t kStepsMax = 20'000'000;

bool is_allowed(const Link& link, const CircleOptions& options) {
  if (link.kind == EdgeKind::kWriteRead) return options.has_reads;
  return link.kind != EdgeKind::kReadWrite || options.read_writes_max > 1;
}

// Strongly connected components: of each node the number of its component, by Tarjan's algorithm.
class Components {
 public:
  Components(const Graph& graph, const CircleOptions& options)
      : graph_(graph),
        options_(options),
        index_(graph.nodes(), 0),
        low_(graph.nodes(), 0),
        component_(graph.nodes(), kUnset) {
    for (uint32_t node = 0; node < graph.nodes(); ++node) {
      if (index_[node] == 0) visit(node);
    }
  }

  [[nodiscard]] bool are_together(uint32_t one, uint32_t other) const {
    return component_[one] == component_[other];
  }

 private:
  struct Visit {
    uint32_t node = 0;
    size_t next = 0;
  };

  void enter(uint32_t node) {
    index_[node] = low_[node] = ++count_;
    open_.push_back(node);
    visits_.push_back({.node = node});
  }

  void visit(uint32_t first) {
    enter(first);
    while (!visits_.empty()) {
      Visit& visit = visits_.back();
      const uint32_t node = visit.node;
      const std::vector<uint32_t>& out = graph_.out(node);
      if (visit.next < out.size()) {
        const Link& link = graph_.links()[out[visit.next++]];
        if (!is_allowed(link, options_)) continue;
        if (index_[link.to] == 0) {
          enter(link.to);
        } else if (component_[link.to] == kUnset) {
          low_[node] = std::min(low_[node], index_[link.to]);
        }
        continue;
      }
      visits_.pop_back();
      if (!visits_.empty()) low_[visits_.back().node] = std::min(low_[visits_.back().node], low_[node]);
      if (low_[node] == index_[node]) close(node);
    }
  }

  void close(uint32_t first) {
    while (true) {
      const uint32_t node = open_.back();
      open_.pop_back();
      component_[node] = first;
      if (node == first) return;
    }
  }

  const Graph& graph_;
  const CircleOptions& options_;
  std::vector<uint32_t> index_;
  std::vector<uint32_t> low_;
  std::vector<uint32_t> component_;
  std::vector<uint32_t> open_;
  std::vector<Visit> visits_;
  uint32_t count_ = 0;
};

// Ways by breadth; from one moment to another costs nothing.
class Ways {
 public:
  explicit Ways(const Graph& graph)
      : graph_(graph), cost_(graph.nodes(), kUnset), came_by_(graph.nodes(), kUnset) {}

  // Links of a way of at most `cost_max`, from `from` to `to`, which may be the same node. Empty: none.
  template <typename Allowed>
  [[nodiscard]] std::vector<uint32_t> find(uint32_t from, uint32_t to, uint32_t cost_max,
                                           const Allowed& allowed, uint64_t& steps) {
    for (const uint32_t node : touched_) cost_[node] = kUnset;
    touched_.clear();
    std::deque<uint32_t> queue = {from};
    cost_[from] = 0;
    touched_.push_back(from);
    uint32_t closing = kUnset;  // The last link of a circle.
    uint32_t closing_cost = kUnset;
    while (!queue.empty()) {
      const uint32_t node = queue.front();
      queue.pop_front();
      if (cost_[node] >= closing_cost) break;
      if (node == to && from != to) return way_to(from, to);
      for (const uint32_t index : graph_.out(node)) {
        const Link& link = graph_.links()[index];
        ++steps;
        if (!allowed(link)) continue;
        const bool is_free = graph_.is_moment(node);
        const uint32_t cost = cost_[node] + (is_free ? 0 : 1);
        if (cost > cost_max) continue;
        if (link.to == to && from == to) {
          if (cost < closing_cost) closing = index;
          closing_cost = std::min(closing_cost, cost);
          continue;
        }
        if (cost_[link.to] <= cost) continue;
        if (cost_[link.to] == kUnset) touched_.push_back(link.to);
        cost_[link.to] = cost;
        came_by_[link.to] = index;
        is_free ? queue.push_front(link.to) : queue.push_back(link.to);
      }
    }
    if (closing == kUnset) return {};
    std::vector<uint32_t> way = way_to(from, graph_.links()[closing].from);
    way.push_back(closing);
    return way;
  }

  // Of the way that was found last.
  [[nodiscard]] static uint32_t cost_of(const Graph& graph, const std::vector<uint32_t>& way) {
    return static_cast<uint32_t>(std::ranges::count_if(
        way, [&](uint32_t index) { return !graph.is_moment(graph.links()[index].from); }));
  }

 private:
  [[nodiscard]] std::vector<uint32_t> way_to(uint32_t from, uint32_t to) const {
    std::vector<uint32_t> way;
    for (uint32_t node = to; node != from; node = graph_.links()[way.back()].from)
      way.push_back(came_by_[node]);
    std::ranges::reverse(way);
    return way;
  }

  const Graph& graph_;
  std::vector<uint32_t> cost_;
  std::vector<uint32_t> came_by_;
  std::vector<uint32_t> touched_;
};

}  // namespace

std::vector<uint32_t> find_circle(const Graph& graph, const CircleOptions& options, uint64_t& steps) {
  CircleOptions any = options;
  if (options.read_writes_max == 1) any.read_writes_max = 2;
  const Components components(graph, any);
  Ways ways(graph);
  std::vector<uint32_t> best;
  uint32_t best_cost = 1'000'000;
  const uint64_t steps_max = steps + kStepsMax;
  std::vector<bool> is_tried(graph.nodes(), false);
  const auto take = [&](std::vector<uint32_t> circle) {
    if (circle.empty()) return;
    const uint32_t cost = Ways::cost_of(graph, circle);
    if (!best.empty() && cost >= best_cost) return;
    best = std::move(circle);
    best_cost = cost;
  };
  for (uint32_t index = 0; index < graph.links().size() && steps < steps_max && best_cost > 2; ++index) {
    const Link& first = graph.links()[index];
    if (graph.is_moment(first.from) || !is_allowed(first, any)) continue;
    if (!components.are_together(first.from, first.to)) continue;
    if (options.read_writes_max == 1) {
      if (first.kind != EdgeKind::kReadWrite) continue;
      std::vector<uint32_t> rest = ways.find(
          first.to, first.from, best_cost - 2,
          [&](const Link& link) {
            return link.kind != EdgeKind::kReadWrite && components.are_together(link.to, first.from);
          },
          steps);
      if (rest.empty()) continue;
      rest.insert(rest.begin(), index);
      take(std::move(rest));
    } else if (!is_tried[first.from]) {
      is_tried[first.from] = true;
      take(ways.find(
          first.from, first.from, best_cost - 1,
          [&](const Link& link) {
            return is_allowed(link, options) && components.are_together(link.to, first.from);
          },
          steps));
    }
  }
  return best;
}

std::vector<uint32_t> find_way(const Graph& graph, uint32_t from, uint32_t to, uint64_t& steps) {
  return Ways(graph).find(from, to, kUnset - 1, [](const Link&) { return true; }, steps);
}

}  // namespace refract::serialisability
