// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "refract/base/testing/serialisability/evidence.h"
#include "refract/base/testing/serialisability/graph.h"
#include "refract/base/testing/serialisability/settle.h"

namespace refract::serialisability {
namespace {

// More often it is not looked what follows from what was inferred.
constexpr int kLooksMax = 8;
constexpr int kLooksMaxOfLarge = 2;
// Transactions.
constexpr size_t kEasyToSee = 4;

std::string_view plain_name(Phenomenon phenomenon) {
  switch (phenomenon) {
    case Phenomenon::kInternal:
      return "internal";
    case Phenomenon::kGarbage:
      return "garbage";
    case Phenomenon::kG1a:
      return "G1a";
    case Phenomenon::kG1b:
      return "G1b";
    case Phenomenon::kG0:
      return "G0";
    case Phenomenon::kG1c:
      return "G1c";
    case Phenomenon::kLostUpdate:
      return "lost update";
    case Phenomenon::kGSingle:
      return "G-single";
    case Phenomenon::kLongFork:
      return "long fork";
    case Phenomenon::kG2:
      return "G2";
  }
  return "";
}

// Two edges of real time, or of one client, are one.
void shorten(std::vector<Edge>& edges) {
  for (size_t i = 0; edges.size() > 2 && i + 1 < edges.size();) {
    const bool is_order = edges[i].kind == EdgeKind::kRealTime || edges[i].kind == EdgeKind::kProcess;
    if (is_order && edges[i].kind == edges[i + 1].kind) {
      edges[i].to = edges[i + 1].to;
      edges.erase(edges.begin() + static_cast<ptrdiff_t>(i) + 1);
    } else {
      ++i;
    }
  }
}

// Links between moments become one edge.
std::vector<Edge> edges_of(const Graph& graph, const Evidence& evidence, std::vector<uint32_t> circle) {
  const std::vector<Link>& links = graph.links();
  const auto first =
      std::ranges::find_if(circle, [&](uint32_t i) { return !graph.is_moment(links[i].from); });
  std::ranges::rotate(circle, first);
  const auto named = [&](uint32_t node) {
    return node < evidence.history->transactions.size() ? size_t{node} : kUnnamed;
  };
  std::vector<Edge> edges;
  for (const uint32_t index : circle) {
    const Link& link = links[index];
    if (!graph.is_moment(link.from)) {
      edges.push_back({.from = named(link.from),
                       .kind = link.kind,
                       .key = link.key,
                       .version = link.version,
                       .is_inferred = link.is_inferred});
    }
    if (!graph.is_moment(link.to)) edges.back().to = named(link.to);
  }
  shorten(edges);
  // The sentence begins where time does.
  const auto began = [&](const Edge& edge) {
    return edge.from == kUnnamed ? kNever : evidence.history->transactions[edge.from].began_ns;
  };
  std::ranges::rotate(edges, std::ranges::min_element(edges, {}, began));
  return edges;
}

bool writes(const History& history, size_t transaction, std::optional<uint32_t> key = {}) {
  if (transaction == kUnnamed) return !key;
  const Transaction& one = history.transactions[transaction];
  return one.outcome != Outcome::kRefused &&
         std::ranges::any_of(one.operations, [&](const Operation& operation) {
           return (!key || operation.key == *key) && operation.kind != Kind::kGet &&
                  operation.condition != Condition::kUnmet;
         });
}

// What replaces the key of a stale read loses what came between.
bool is_lost_update(const History& history, const std::vector<Edge>& circle, const Edge& read_write) {
  const auto is_of_key = [&](const Edge& edge) {
    const bool is_order = edge.kind == EdgeKind::kProcess || edge.kind == EdgeKind::kRealTime;
    return is_order || (edge.kind != EdgeKind::kWriteRead && edge.key == read_write.key);
  };
  return std::ranges::all_of(circle, is_of_key) && writes(history, read_write.from, read_write.key);
}

Phenomenon phenomenon_of(const History& history, const std::vector<Edge>& circle) {
  std::vector<size_t> read_writes;  // Places in the circle.
  bool has_reads = false;
  for (size_t i = 0; i < circle.size(); ++i) {
    if (circle[i].kind == EdgeKind::kReadWrite) read_writes.push_back(i);
    if (circle[i].kind == EdgeKind::kWriteRead) has_reads = true;
  }
  if (read_writes.empty()) return has_reads ? Phenomenon::kG1c : Phenomenon::kG0;
  if (read_writes.size() == 1) {
    const bool is_lost = is_lost_update(history, circle, circle[read_writes[0]]);
    return is_lost ? Phenomenon::kLostUpdate : Phenomenon::kGSingle;
  }
  const size_t apart = read_writes[1] - read_writes[0];
  const bool is_fork = read_writes.size() == 2 && apart != 1 && apart + 1 != circle.size() &&
                       !writes(history, circle[read_writes[0]].from) &&
                       !writes(history, circle[read_writes[1]].from);
  return is_fork ? Phenomenon::kLongFork : Phenomenon::kG2;
}

std::string sentence_of(const History& history, const std::vector<Edge>& circle) {
  const auto name = [&](size_t transaction) {
    return transaction == kUnnamed
               ? std::string("an unnamed transaction")
               : fmt::format("#{} of {}", transaction,
                             name_of(history.clients, history.transactions[transaction].client));
  };
  std::string text;
  for (const Edge& edge : circle) {
    const std::string key = name_of(history.keys, edge.key);
    const std::string version = edge.version == 0 ? key : fmt::format("version {} of {}", edge.version, key);
    text += (text.empty() ? "" : " ") + name(edge.from);
    switch (edge.kind) {
      case EdgeKind::kWriteWrite:
        text += fmt::format(" comes before {}, which writes {} behind {}", name(edge.to), key, version);
        break;
      case EdgeKind::kWriteRead:
        text += fmt::format(" comes before {}, which sees {}{}", name(edge.to), version,
                            edge.is_inferred ? " or what came later" : "");
        break;
      case EdgeKind::kReadWrite:
        text += fmt::format(" sees {}{}, so it comes before {}, which replaces it", version,
                            edge.is_inferred ? " or what stood there then" : "", name(edge.to));
        break;
      case EdgeKind::kProcess:
        text += fmt::format(" comes before {} of the same client", name(edge.to));
        break;
      case EdgeKind::kRealTime:
        text += fmt::format(" ended before {} began", name(edge.to));
        break;
    }
    text += ";";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

Anomaly anomaly_of(const History& history, Order order, std::vector<Edge> circle) {
  Anomaly anomaly{.phenomenon = phenomenon_of(history, circle), .order = order, .circle = {}, .involved = {}};
  anomaly.sentence = sentence_of(history, circle);
  for (const Edge& edge : circle) {
    if (edge.from != kUnnamed) anomaly.involved.push_back(edge.from);
  }
  std::ranges::sort(anomaly.involved);
  anomaly.circle = std::move(circle);
  return anomaly;
}

// The smallest circle, and of these the least by its kinds.
Anomaly circle_of(const Graph& graph, const Evidence& evidence, Order order, uint64_t& steps) {
  constexpr CircleOptions kClasses[] = {{.has_reads = false, .read_writes_max = 0},
                                        {.has_reads = true, .read_writes_max = 0},
                                        {.has_reads = true, .read_writes_max = 1},
                                        {.has_reads = true, .read_writes_max = 2}};
  std::vector<Edge> smallest;
  for (const CircleOptions& options : kClasses) {
    std::vector<uint32_t> circle = find_circle(graph, options, steps);
    if (circle.empty()) continue;
    std::vector<Edge> edges = edges_of(graph, evidence, std::move(circle));
    if (smallest.empty() || edges.size() < smallest.size()) smallest = std::move(edges);
  }
  return anomaly_of(*evidence.history, order, std::move(smallest));
}

bool puts(const Transaction& one, uint32_t key, int64_t value) {
  return std::ranges::any_of(one.operations, [&](const Operation& operation) {
    return operation.kind == Kind::kPut && operation.key == key && operation.value == value;
  });
}

// It puts the value, and writes the key again behind that.
bool replaces_itself(const Transaction& one, uint32_t key, int64_t value) {
  bool has_put = false;
  bool has_replaced = false;
  for (const Operation& operation : one.operations) {
    if (operation.key != key || operation.kind == Kind::kGet) continue;
    has_replaced = has_replaced || has_put;
    if (operation.kind == Kind::kPut && operation.value == value) has_put = true;
  }
  return has_replaced;
}

// A value or a presence that no write explains.
Anomaly unexplained(const Evidence& evidence, uint32_t access, Order order) {
  const History& history = *evidence.history;
  const Access& one = evidence.accesses[access];
  Anomaly anomaly{
      .phenomenon = Phenomenon::kGarbage, .order = order, .circle = {}, .involved = {one.transaction}};
  const std::string found = fmt::format(
      "what {} of {} finds of {}", to_text(history, history.transactions[one.transaction]),
      name_of(history.clients, history.transactions[one.transaction].client), name_of(history.keys, one.key));
  anomaly.sentence = found + " was left by no transaction that can come before it";
  if (!one.claim.value) return anomaly;
  for (size_t t = 0; t < history.transactions.size(); ++t) {
    const Transaction& other = history.transactions[t];
    const bool is_refused = other.outcome == Outcome::kRefused;
    if (t == one.transaction || (!is_refused && !replaces_itself(other, one.key, *one.claim.value))) continue;
    if (is_refused && !puts(other, one.key, *one.claim.value)) continue;
    anomaly.phenomenon = is_refused ? Phenomenon::kG1a : Phenomenon::kG1b;
    anomaly.sentence = fmt::format("{} was written by {}, which {}", found, to_text(history, other),
                                   is_refused ? "had no effect" : "replaced it itself");
    anomaly.involved = {std::min<size_t>(t, one.transaction), std::max<size_t>(t, one.transaction)};
    break;
  }
  return anomaly;
}

std::optional<Anomaly> check_by(const History& history, const CheckOptions& options, Order order,
                                uint64_t& steps) {
  Inferred inferred;
  const bool is_large = history.transactions.size() > options.all_pairs_max;
  for (int looks = 0; looks < (is_large ? kLooksMaxOfLarge : kLooksMax); ++looks) {
    Evidence evidence;
    if (auto wrong = collect(history, options, order == Order::kRealTime, inferred, evidence)) return wrong;
    settle_sums(evidence, options, order == Order::kRealTime);
    Graph graph(evidence, options, order);
    Settled settled = settle(evidence, graph, options, steps);
    switch (settled.kind) {
      case Settled::Kind::kGood:
        return std::nullopt;
      case Settled::Kind::kCircle:
        return circle_of(graph, evidence, order, steps);
      case Settled::Kind::kUnexplained:
        return unexplained(evidence, settled.access, order);
      case Settled::Kind::kInferred:
        std::ranges::copy(settled.inferred.seen, std::back_inserter(inferred.seen));
        std::ranges::copy(settled.inferred.found, std::back_inserter(inferred.found));
        break;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string name_of(Phenomenon phenomenon, Order order) {
  const std::string_view suffix = order == Order::kNone      ? ""
                                  : order == Order::kProcess ? "-process"
                                                             : "-realtime";
  return fmt::format("{}{}", plain_name(phenomenon), suffix);
}

Judgement check(const History& history, const CheckOptions& options) {
  Judgement judgement;
  std::optional<Anomaly> shown = check_by(history, options, Order::kRealTime, judgement.steps);
  if (!shown) return judgement;
  // What is wrong already if less is promised is told instead, unless it is much harder to see.
  judgement.broken = Order::kRealTime;
  for (const Order order : {Order::kProcess, Order::kNone}) {
    std::optional<Anomaly> weaker = check_by(history, options, order, judgement.steps);
    if (!weaker) continue;
    judgement.broken = order;
    const size_t size = weaker->involved.size();
    if (size <= kEasyToSee || size <= shown->involved.size()) shown = std::move(weaker);
  }
  shown->name = name_of(shown->phenomenon, shown->order);
  judgement.anomaly = std::move(shown);
  return judgement;
}

}  // namespace refract::serialisability
