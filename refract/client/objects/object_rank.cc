// SPDX-License-Identifier: Apache-2.0
// Which nodes could have some objects soonest.
#include <utility>

#include "refract/client/objects/object_work.h"

namespace refract::client {

using object::ObjectCalls;
using runtime::Task;

namespace {

Task<Code> ask_rank(ObjectLink& link, std::span<const std::span<const std::byte>> ids, uint64_t timeout_ns,
                    ObjectRank& rank) {
  auto told = co_await link.calls().rank(ids, timeout_ns);
  if (!told) co_return told.code();
  rank = {.nodes = {}, .ids = std::move(told->ids)};
  for (ObjectCalls::RankedNode& one : told->nodes) {
    rank.nodes.push_back({.node = std::move(one.name),
                          .code = one.code,
                          .missing_objects = one.node.missing,
                          .missing_bytes = one.node.missing_bytes,
                          .time_ns = one.node.time_ns,
                          .is_guessed = one.node.is_guessed != 0,
                          .unreachable_objects = one.node.unreachable});
  }
  co_return Code::kOk;
}

}  // namespace

Task<Result<ObjectRank>> rank_nodes(ObjectPeer& peer, std::span<const Bytes> ids, uint64_t timeout_ns) {
  const std::vector<std::span<const std::byte>> spans(ids.begin(), ids.end());
  ObjectRank rank;
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_rank(link, spans, timeout_ns, rank); });
  if (outcome.code == Code::kUnsupported) note_shares_nothing(peer);
  if (outcome.code == Code::kAway) {
    peer.set_trouble(
        {Code::kAway, "the list of nodes has changed meanwhile, or the node has none yet", "ask again"});
  }
  if (outcome.code == Code::kTooLarge) {
    peer.set_trouble({Code::kTooLarge, "these ids are too long for one message", "rank fewer at once"});
  }
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  co_return std::move(rank);
}

}  // namespace refract::client
