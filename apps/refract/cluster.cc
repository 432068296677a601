// SPDX-License-Identifier: Apache-2.0
// cluster: the nodes that belong together, and which of them a key's slot has.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/cluster/routing.h"
#include "refract/documents/json.h"

namespace refract::cli {
namespace {

using Json = documents::Value;

// What a client is told, as the routing wants it: names alone count there.
cluster::MemberList list_of(const ClusterMembers& told) {
  cluster::MemberList list{.version = told.version, .members = {}};
  for (const ClusterMember& member : told.members) list.members.push_back({.name = member.name, .host = {}});
  return list;
}

std::string nodes_table(const ClusterMembers& told) {
  size_t width = 0;
  for (const ClusterMember& member : told.members) width = std::max(width, member.name.size());
  std::string out = fmt::format("version {}, {} node{}; * is the one that was asked\n", told.version,
                                told.members.size(), told.members.size() == 1 ? "" : "s");
  for (size_t i = 0; i < told.members.size(); ++i) {
    out += fmt::format("{} {:<{}}  {}\n", i == told.self ? '*' : ' ', told.members[i].name, width,
                       told.members[i].address);
  }
  return out;
}

Json nodes_json(const ClusterMembers& told) {
  Json rows = Json::array();
  for (const ClusterMember& member : told.members) {
    rows.push_back({{"name", member.name}, {"address", member.address}});
  }
  return {{"version", told.version}, {"self", told.members[told.self].name}, {"nodes", rows}};
}

// A line for each key: its slot, the slot's first nodes, the key.
int show_keys(const Invocation& invocation, const ClusterMembers& told) {
  const cluster::Routing routing(list_of(told));
  std::vector<uint8_t> nodes(std::min<uint64_t>(invocation.nodes_max, told.members.size()));
  std::string out;
  for (const std::string& key : invocation.keys) {
    const uint16_t slot = cluster::slot_of(key);
    std::vector<std::string> names;
    for (const uint8_t node : std::span(nodes).first(routing.nodes_of(slot, nodes))) {
      names.push_back(told.members[node].name);
    }
    if (invocation.json) {
      Json row;
      records::append_bytes(row, "key", key);
      row.append_member("slot", slot);
      row.append_member("nodes", names);
      out += documents::to_json_row(row);
    } else {
      out += fmt::format("{:>5}  {}  {}\n", slot, fmt::join(names, " "), printable(key));
    }
  }
  return write_text(out);
}

}  // namespace

int run_cluster(const Invocation& invocation) {
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  const Result<ClusterMembers> told = client->members();
  if (told.code() == Code::kUnsupported) {
    return complain(kNotDone, "the node has no list of nodes",
                    "start it with one: refractd --cluster-nodes a=HOST:PORT,b=HOST:PORT --cluster-self a");
  }
  if (!told) return complain(explain(*client, told.code(), "the node does not tell its list of nodes"));
  if (!invocation.keys.empty()) return show_keys(invocation, *told);
  return invocation.json ? write_json(nodes_json(*told)) : write_text(nodes_table(*told));
}

}  // namespace refract::cli
