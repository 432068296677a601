// SPDX-License-Identifier: Apache-2.0
// Which transactions come before which: a graph whose nodes are the transactions of a history, unnamed ones,
// and the moments of real time.
//
// Real time needs three edges for each transaction, and not one for each pair: the ends, in their order, are
// nodes of a line; a transaction leads to its own end, and the last end before its beginning leads to it.
#pragma once

#include <cstdint>
#include <vector>

#include "refract/base/testing/serialisability/checker.h"
#include "refract/base/testing/serialisability/evidence.h"

namespace refract::serialisability {

struct Link {
  uint32_t from = 0;
  uint32_t to = 0;
  EdgeKind kind = EdgeKind::kRealTime;
  bool is_inferred = false;
  uint32_t key = 0;
  uint64_t version = 0;
};

class Graph {
 public:
  // Nodes and the edges of `order`, and of those that are weaker. `evidence` outlives the graph.
  Graph(const Evidence& evidence, const CheckOptions& options, Order order);

  // Nothing is done if both are the same node.
  void add(const Link& link);
  void remove_last();

  // Sorts the nodes, and finds out what reaches what. False: there is a circle.
  [[nodiscard]] bool sort();
  // Whether `one` is known to come before `other`, by the edges at the last sort(). Neither is a moment.
  [[nodiscard]] bool reaches(uint32_t one, uint32_t other) const;

  [[nodiscard]] Order order() const noexcept { return order_; }
  [[nodiscard]] bool is_moment(uint32_t node) const noexcept { return node >= evidence_->nodes; }
  [[nodiscard]] size_t nodes() const noexcept { return out_.size(); }
  [[nodiscard]] const std::vector<Link>& links() const noexcept { return links_; }
  // Indices of links.
  [[nodiscard]] const std::vector<uint32_t>& out(uint32_t node) const { return out_[node]; }

 private:
  void add_clients();
  void add_real_time(const CheckOptions& options);
  [[nodiscard]] bool is_left_out(uint32_t transaction) const;
  [[nodiscard]] bool reaches_by_chain(uint32_t one, uint32_t other) const;

  const Evidence* evidence_;
  const CheckOptions* options_;
  Order order_;
  std::vector<Link> links_;
  std::vector<std::vector<uint32_t>> out_;
  // Chains of nodes, each before the next one: a node knows of each chain the last one that reaches it.
  std::vector<uint32_t> chain_;  // kUnset: in none.
  std::vector<uint32_t> position_;
  uint32_t chains_ = 0;
  std::vector<uint32_t>
      reached_by_;  // By node, then by chain: position and one more; 0: none. Empty: too many.
};

// A circle of few links whose kinds are allowed, the smallest of them where the graph is not large.
struct CircleOptions {
  bool has_reads = true;         // kWriteRead
  uint32_t read_writes_max = 2;  // kReadWrite: 0; 1, exactly one; 2, any number.
};
// Indices of links, in their order; empty: there is none. `steps`: is added to.
[[nodiscard]] std::vector<uint32_t> find_circle(const Graph& graph, const CircleOptions& options,
                                                uint64_t& steps);
// The shortest way along links of any kind; empty: none.
[[nodiscard]] std::vector<uint32_t> find_way(const Graph& graph, uint32_t from, uint32_t to, uint64_t& steps);

}  // namespace refract::serialisability
