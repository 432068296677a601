// SPDX-License-Identifier: Apache-2.0
// The part of a client's peers that knows several nodes: the list that one of them tells, and whether the
// node at an address is the one that the list names.
#include <fmt/format.h>

#include <utility>

#include "refract/base/units.h"
#include "refract/client/paths/peers.h"
#include "refract/cluster/placement.h"

namespace refract::client {

using cluster::ToldMembers;
using runtime::Task;

namespace {

std::unexpected<Report> not_told(const Target& target, Code code) {
  return report(code == Code::kUnsupported ? Code::kUnsupported : Code::kUnavailable,
                fmt::format("the node at {} did not say which nodes belong together: {}", target.text(),
                            info(code).sentence));
}

// Of the node that was reached where the list has another one.
Reported<> check_member(const ToldMembers& told, const cluster::MemberList& list, size_t node,
                        const Target& target) {
  const std::string& wanted = list.members[node].name;
  if (!cluster::have_same_names(told.list, list)) {
    return report(Code::kUnavailable,
                  fmt::format("the node at {} belongs to {}, and this client began with {}", target.text(),
                              cluster::names_text(told.list), cluster::names_text(list)),
                  "give all nodes the same cluster.nodes, then connect again");
  }
  if (told.self != node) {
    return report(Code::kUnavailable,
                  fmt::format("the node at {} is '{}', and '{}' should be there", target.text(),
                              told.list.members[told.self].name, wanted),
                  "give all nodes the same cluster.nodes, with the address of each");
  }
  return {};
}

std::unexpected<Report> not_spread(const std::string& name, const Target& target) {
  return report(
      Code::kUnavailable,
      fmt::format("the node at {} has keys of its own, and '{}', which shares them out, should be there",
                  target.text(), name),
      "start it with --kv-copies 1 and the cluster.nodes of the others");
}

// An address of several nodes asks for keys that are shared out among them.
std::unexpected<Report> alone(const Target& target, std::string_view why) {
  return report(
      Code::kUnsupported,
      fmt::format("the address names several nodes, and the one at {} {}, so that each has keys of its own",
                  target.text(), why),
      "name one of them; or start the nodes with --kv-copies 1 and the same --cluster-nodes, on empty "
      "folders");
}

}  // namespace

Task<Reported<Discovery>> Peers::find_first(uint64_t deadline_ns) {
  const std::vector<Target> targets = settings_.target.each();
  Report trouble;
  for (size_t i = 0; i < targets.size(); ++i) {
    const uint64_t until_ns = share_of(shard_.refresh_now(), deadline_ns, targets.size() - i);
    auto found = co_await find_node(shard_, settings_, targets[i], until_ns);
    if (found) {
      auto learnt = co_await learn(*found, until_ns);
      if (learnt) co_return std::move(found);
      trouble = std::move(learnt).error();
      if (trouble.code == Code::kUnsupported) break;
    } else {
      trouble = std::move(found).error();
    }
  }
  if (targets.size() > 1 && trouble.code != Code::kUnsupported) {
    trouble.what = fmt::format("none of {} nodes answers; the last one: {}", targets.size(), trouble.what);
  }
  co_return report(std::move(trouble));
}

// The answer comes in the middle of a poll of the connection: that ends before any is retired.
Task<Result<ToldMembers>> Peers::told_by(Connection& connection, uint64_t deadline_ns) {
  const KnownNodes::Identity identity = connection.facts().identity;
  if (auto known = settings_.known_nodes->told_by(identity)) co_return *std::move(known);
  for (;;) {
    auto told = co_await connection.members(deadline_ns);
    co_await shard_.sleep_for(0);
    if (told) settings_.known_nodes->note(identity, *told);
    // Its server may come back, as it may for all that a client asks.
    const bool may_come = told.code() == Code::kUnavailable && !connection.has_server_given_up() &&
                          connection.state() != Connection::State::kEnded;
    if (!may_come || shard_.refresh_now() >= deadline_ns) co_return std::move(told);
    co_await shard_.sleep_for(kMillisecond_ns);
  }
}

// Of a store whose keys are shared out by their slots, and among which nodes.
Task<Reported<>> Peers::learn(const Discovery& found, uint64_t deadline_ns) {
  const NodeFacts& facts = found.connection->facts();
  if (!facts.is_spread) {
    if (settings_.target.others.empty()) co_return Reported<>();
    co_return alone(found.target, facts.copies == 0 ? "has kv.copies 0" : "knows no others");
  }
  auto told = co_await told_by(*found.connection, deadline_ns);
  if (!told) co_return not_told(found.target, told.code());
  KnownNodes::First first;
  first.told = std::move(*told);
  first.target = found.target;
  settings_.known_nodes->begin_with(first);
  spread_over(std::move(first));
  // Until the first of its operations has ended.
  nodes_[told_]->is_connecting = true;
  co_return Reported<>();
}

// The node that told is where it was found, whatever the list says.
void Peers::spread_over(KnownNodes::First first) {
  ToldMembers& told = first.told;
  for (const auto& node : nodes_) node->leave();
  nodes_.clear();
  sole_ = nullptr;
  told_ = static_cast<uint32_t>(told.self);
  for (const cluster::Member& member : told.list.members) {
    nodes_.push_back(std::make_unique<NodeConnections>(
        parts(), settings_.target.at({.host = member.host, .port = member.port})));
  }
  nodes_[told_]->look_for_at(std::move(first.target));
  const cluster::Routing& routing = settings_.known_nodes->routing_of(told.list);
  spread_.emplace(std::move(told.list), routing);
  update_short_ways();
}

Task<Reported<Discovery>> Peers::find_member(uint32_t node, uint64_t deadline_ns) {
  // Some time is left to look elsewhere.
  const uint64_t half_ns = share_of(shard_.refresh_now(), deadline_ns, 2);
  const Target before = nodes_[node]->target();
  auto found = co_await find_member_once(node, half_ns);
  if (found) co_return std::move(found);
  const bool is_elsewhere = co_await ask_for_address(node, deadline_ns);
  if (is_elsewhere) {
    auto moved = co_await find_member_once(node, deadline_ns);
    if (moved) co_return std::move(moved);
    nodes_[node]->look_for_at(before);
    Report why = std::move(found).error();
    why.what += fmt::format("\nwhere the list has it: {}", moved.error().what);
    co_return report(std::move(why));
  }
  // It may have been slow, rather than away.
  if (shard_.refresh_now() >= half_ns) found = co_await find_member_once(node, deadline_ns);
  co_return std::move(found);
}

Task<Reported<Discovery>> Peers::find_member_once(uint32_t node, uint64_t deadline_ns) {
  const Target target = nodes_[node]->target();
  auto found = co_await find_node(shard_, settings_, target, deadline_ns);
  if (!found) {
    Report why = std::move(found).error();
    why.what = fmt::format("node '{}': {}", spread_->list.members[node].name, why.what);
    co_return report(std::move(why));
  }
  const NodeFacts& facts = found->connection->facts();
  if (!facts.is_spread) co_return not_spread(spread_->list.members[node].name, target);
  // Its memory says that it is the one.
  if (facts.placement == cluster::placement_of(spread_->list, node)) co_return std::move(found);
  auto told = co_await told_by(*found->connection, deadline_ns);
  if (!told) co_return not_told(target, told.code());
  if (auto checked = check_member(*told, spread_->list, node, target); !checked) {
    co_return report(std::move(checked).error());
  }
  take_addresses(std::move(told->list));
  co_return std::move(found);
}

Task<bool> Peers::ask_for_address(uint32_t node, uint64_t deadline_ns) {
  const std::string before = nodes_[node]->target().text();
  for (uint32_t other = 0; other < nodes_.size(); ++other) {
    Connection* const connection = other == node ? nullptr : nodes_[other]->at(0);
    if (connection == nullptr || connection->state() != Connection::State::kUp) continue;
    const Use use(*connection);
    auto told = co_await connection->members(share_of(shard_.refresh_now(), deadline_ns, 2));
    if (told) settings_.known_nodes->note(connection->facts().identity, *told);
    if (told && cluster::have_same_names(told->list, spread_->list)) take_addresses(std::move(told->list));
    if (nodes_[node]->target().text() != before) co_return true;
  }
  // It was found elsewhere than the list says.
  const Target listed = this->listed(node);
  if (listed.text() == before) co_return false;
  nodes_[node]->look_for_at(listed);
  co_return true;
}

// Of a later version of the same names.
void Peers::take_addresses(cluster::MemberList list) {
  if (list.version <= spread_->list.version) return;
  std::swap(spread_->list, list);
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (spread_->list.members[node] != list.members[node]) nodes_[node]->look_for_at(listed(node));
  }
}

void Peers::fill(Route& route) const {
  told().fill(route);
  if (!spread_) return;
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    Route one;
    nodes_[node]->fill(one);
    route.nodes.push_back({.name = spread_->list.members[node].name,
                           .address = std::move(one.address),
                           .transport = std::move(one.transport),
                           .is_reached = !is_gone(nodes_[node]->at(0)),
                           .shards = one.shards,
                           .direct = one.direct,
                           .reason = std::move(one.reason)});
  }
}

}  // namespace refract::client
