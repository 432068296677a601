// SPDX-License-Identifier: Apache-2.0
// txn settle: what waits on the nodes of a list for homes that do not answer, and, where a person says that a
// home is gone for good, how that ends (docs/design/070).
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/refract/commands.h"
#include "apps/refract/node_link.h"
#include "apps/refract/terminal.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/documents/json.h"
#include "refract/kv/layout/decision_words.h"

namespace refract::cli {
namespace {

using cluster::Member;

struct Waiting {
  std::string node;
  size_t home = 0;  // Its place in the list.
  kv::wire::OpenFarPart part;
};

struct Node {
  std::string name;
  std::unique_ptr<NodeLink> link;  // Null: it does not answer.
  Report trouble{Code::kOk, "", ""};
};

struct Nodes {
  std::vector<Member> list;
  std::vector<Node> nodes;
};

// A name for people, the same at all nodes.
std::string shown(const kv::wire::NameRequest& name) {
  return fmt::format("{:016x}", mix(name.place ^ mix(name.number)));
}

NodeLink::Options options_at(const Invocation& invocation, std::string address) {
  NodeLink::Options options = link_options(invocation);
  options.address = std::move(address);
  return options;
}

Reported<Nodes> find_nodes(const Invocation& invocation) {
  auto first = NodeLink::open(link_options(invocation));
  if (!first) return report(with_what_to_start(first.error()));
  const Result<cluster::ToldMembers> told = (*first)->members(invocation.timeout_ns);
  if (!told) {
    return report({told.code(), "the node has no list of nodes, so its transactions wait for no other",
                   "start nodes of one store with --cluster-nodes and --kv-copies 1"});
  }
  Nodes found{.list = told->list.members, .nodes = {}};
  for (size_t i = 0; i < found.list.size(); ++i) {
    Node node{.name = found.list[i].name, .link = nullptr};
    if (i == told->self) {
      node.link = std::move(*first);
    } else {
      auto link = NodeLink::open(options_at(invocation, "tcp:" + found.list[i].address()));
      if (link) {
        node.link = std::move(*link);
      } else {
        node.trouble = link.error();
      }
    }
    found.nodes.push_back(std::move(node));
  }
  return found;
}

Result<std::vector<Waiting>> waiting_on(const Invocation& invocation, const Node& node) {
  std::vector<Waiting> waiting;
  runtime::Shard& shard = node.link->shard();
  for (size_t i = 0; i < node.link->shard_count(); ++i) {
    const uint64_t deadline_ns = shard.refresh_now() + invocation.timeout_ns;
    const auto parts = block_on(shard, node.link->transactions(i).open_far(deadline_ns));
    if (!parts) return fail(parts.error());
    for (const kv::wire::OpenFarPart& part : *parts) {
      const uint32_t home = kv::DecisionPlace{part.name.place}.member();
      waiting.push_back({.node = node.name, .home = home, .part = part});
    }
  }
  return waiting;
}

std::string seconds(uint64_t ns) {
  return fmt::format("{:.1f} s", static_cast<double>(ns) / kSecond_ns);
}

int show(const Invocation& invocation, const Nodes& all, const std::vector<Waiting>& waiting) {
  const auto name_of = [&](size_t home) { return home < all.list.size() ? all.list[home].name : "?"; };
  if (invocation.json) {
    documents::Value rows = documents::Value::array();
    for (const Waiting& one : waiting) {
      rows.push_back({{"transaction", shown(one.part.name)},
                      {"home", name_of(one.home)},
                      {"home_silent_seconds", static_cast<double>(one.part.silent_ns) / kSecond_ns},
                      {"node", one.node},
                      {"age_seconds", static_cast<double>(one.part.age_ns) / kSecond_ns},
                      {"keys", one.part.keys},
                      {"writes", one.part.writes}});
    }
    return write_json({{"waiting", std::move(rows)}});
  }
  if (waiting.empty()) return write_out("no transaction waits for a node\n");
  std::string out = fmt::format("{:<16}  {:<12} {:>12}  {:<12} {:>10}  {:>5}  {:>6}\n", "transaction", "home",
                                "silent for", "waits on", "for", "keys", "writes");
  for (const Waiting& one : waiting) {
    const std::string silent = one.part.silent_ns == 0 ? "-" : seconds(one.part.silent_ns);
    out += fmt::format("{:<16}  {:<12} {:>12}  {:<12} {:>10}  {:>5}  {:>6}\n", shown(one.part.name),
                       name_of(one.home), silent, one.node, seconds(one.part.age_ns), one.part.keys,
                       one.part.writes);
  }
  return write_out(out);
}

int end_all(const Invocation& invocation, const Nodes& all) {
  const auto home = std::ranges::find(all.list, invocation.home, &Member::name);
  if (home == all.list.end()) {
    return complain(kUsage, fmt::format("the list has no node {}", in_quotes(invocation.home)),
                    "\"refract cluster\" shows its nodes");
  }
  const auto member = static_cast<uint32_t>(home - all.list.begin());
  if (all.nodes[member].link) {
    return complain(kNotDone,
                    fmt::format("node {} answers, and says itself how its transactions end", home->name),
                    "\"refract txn settle\" shows what still waits for it");
  }
  const auto fate = invocation.as == "happened" ? kv::wire::Fate::kHappened : kv::wire::Fate::kNever;
  uint64_t ended = 0;
  for (const Node& node : all.nodes) {
    for (size_t i = 0; node.link && i < node.link->shard_count(); ++i) {
      runtime::Shard& shard = node.link->shard();
      const uint64_t deadline_ns = shard.refresh_now() + invocation.timeout_ns;
      const Result<uint64_t> given =
          block_on(shard, node.link->transactions(i).give_up(member, fate, deadline_ns));
      if (given.code() == Code::kConflict) {
        return complain(
            kNotDone,
            fmt::format("node {} had an answer of {} in the last 10 s; {} parts were ended before", node.name,
                        home->name, ended),
            "try it again when the home has been away for longer");
      }
      if (!given) {
        return complain(
            {given.code(),
             fmt::format("node {} did not end them; {} parts were ended before", node.name, ended),
             "the same command again ends the rest"});
      }
      ended += *given;
    }
  }
  if (invocation.json) return write_json({{"ended", ended}, {"as", invocation.as}});
  return write_out(fmt::format("{} part{} ended as {}\n", ended, ended == 1 ? "" : "s", invocation.as));
}

}  // namespace

int run_settle(const Invocation& invocation) {
  const Reported<Nodes> all = find_nodes(invocation);
  if (!all && all.error().code == Code::kUnsupported) {
    return complain(kNotDone, all.error().what, all.error().next);
  }
  if (!all) return complain(all.error());
  std::vector<Waiting> waiting;
  for (const Node& node : all->nodes) {
    if (!node.link) {
      fmt::print(stderr, "refract: node {} does not answer: {}\n", node.name, node.trouble.what);
      continue;
    }
    const Result<std::vector<Waiting>> found = waiting_on(invocation, node);
    if (!found) {
      const bool is_apart = found.code() == Code::kUnsupported;
      return complain({found.code(), fmt::format("node {} does not say what waits there", node.name),
                       is_apart ? "it takes part in no transactions over nodes: start all nodes with one "
                                  "--cluster-secret-file"
                                : ""});
    }
    waiting.insert(waiting.end(), found->begin(), found->end());
  }
  return invocation.as.empty() ? show(invocation, *all, waiting) : end_all(invocation, *all);
}

}  // namespace refract::cli
