// SPDX-License-Identifier: Apache-2.0
// One object that is to be brought to several nodes.
#include <string>
#include <utility>

#include "refract/client/objects/object_work.h"

namespace refract::client {

using object::ObjectCalls;
using runtime::Task;

namespace {

Report no_such_nodes(const ObjectCalls::Broadcasted& told) {
  std::string names;
  for (const ObjectCalls::BroadcastNode& one : told.nodes) {
    names += names.empty() ? "'" : ", '";
    names += one.name + "'";
  }
  if (told.nodes.size() < told.reply.nodes) names += " and others";
  return {Code::kInvalidArgument, "no node of the list is called " + names,
          "the names are those of --cluster-nodes: refract cluster"};
}

}  // namespace

Task<Result<ObjectBroadcast>> broadcast_object(ObjectPeer& peer, std::span<const std::byte> id,
                                               std::span<const std::string> nodes, uint64_t timeout_ns) {
  ObjectCalls::Broadcasted told;
  const ObjectPeer::Outcome outcome = co_await peer.drive(
      [&](ObjectLink& link) { return link.calls().broadcast(id, nodes, timeout_ns, told); });
  if (outcome.code == Code::kAway) note_away(peer);
  if (outcome.code == Code::kUnsupported) note_shares_nothing(peer);
  if (outcome.code == Code::kInvalidArgument && !told.nodes.empty()) peer.set_trouble(no_such_nodes(told));
  if (outcome.code == Code::kTooLarge) {
    peer.set_trouble({Code::kTooLarge, "these names are too long for one message",
                      "name fewer nodes at once, or none: all nodes"});
  }
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  ObjectBroadcast done{
      .nodes = {}, .missed = told.reply.missed, .untold = told.reply.nodes - told.nodes.size()};
  for (ObjectCalls::BroadcastNode& one : told.nodes) {
    done.nodes.push_back({.node = std::move(one.name), .code = one.code});
  }
  co_return std::move(done);
}

}  // namespace refract::client
