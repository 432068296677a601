// SPDX-License-Identifier: Apache-2.0
// What the calls of Objects do where they are no mere loads: waiting for objects, fetching them, making them.
// All is driven by the calling thread's shard.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refract/client/client_state.h"
#include "refract/client/objects.h"
#include "refract/client/objects/object_peer.h"
#include "refract/memory/host/shared_buffer.h"
#include "refract/object/calls/object_calls.h"
#include "refract/runtime/task.h"

namespace refract::client {

// An object that is being made: what NewObject has, and put() for its time.
struct Creating {
  Creating(ClientState& the_client, std::string the_id);
  Creating(const Creating&) = delete;
  Creating& operator=(const Creating&) = delete;
  // Does not end the creation at the node.
  ~Creating();

  // Memory for what it is filled with. kNoSpace, kSystem.
  [[nodiscard]] Code take_memory();
  [[nodiscard]] std::span<std::byte> body() const noexcept { return {making.bytes, making.parts.body_bytes}; }
  [[nodiscard]] std::span<std::byte> metadata() const noexcept;

  ClientState* client;  // Referred to.
  std::string id;
  SharedBufferHold buffer;
  object::Making making;
  bool is_open = false;       // At the node.
  bool keeps_memory = false;  // Also when it is not open any more.
};

// "nodes b and c cannot be reached": of what the owner said last.
[[nodiscard]] std::string away_text(ObjectPeer& peer);

// What is to be said of a kAway about an object that is not here, and of a kUnsupported.
void note_away(ObjectPeer& peer);
void note_shares_nothing(ObjectPeer& peer);

// Until when to look again for an object that is not there.
struct Until {
  uint64_t moment_ns = 0;  // kForever_ns: for ever.
};

// kNotFound: it did not come in time.
[[nodiscard]] runtime::Task<Result<Object>> get_object(ObjectPeer& peer, std::span<const std::byte> id,
                                                       Until until);
// Those that are no objects yet, all at once. `objects` as long as `ids`.
[[nodiscard]] runtime::Task<> get_objects(ObjectPeer& peer, std::span<const Bytes> ids,
                                          std::span<Result<Object>> objects, Until until);
// What the direct reader finds at once, or that there is none. False: ask get_object(). REQUIRES: `object` is
// one of nothing.
[[nodiscard]] bool get_at_once(ObjectPeer& peer, std::span<const std::byte> id, Result<Object>& object);

[[nodiscard]] runtime::Task<Code> create_object(ObjectPeer& peer, Creating& creating,
                                                uint64_t room_timeout_ns);
// The first `bytes` of the body are final.
[[nodiscard]] runtime::Task<Code> tell_filled(ObjectPeer& peer, Creating& creating, uint64_t bytes);
[[nodiscard]] runtime::Task<Result<Object>> seal_object(ObjectPeer& peer, Creating& creating);
[[nodiscard]] runtime::Task<Code> end_creation(ObjectPeer& peer, Creating& creating);

// Its birth.
[[nodiscard]] runtime::Task<Result<uint64_t>> put_object(ObjectPeer& peer, ClientState& client,
                                                         object::ObjectCalls::Put put,
                                                         uint64_t room_timeout_ns);
[[nodiscard]] runtime::Task<> put_objects(ObjectPeer& peer, ClientState& client,
                                          std::span<PutObject> objects);

// `copies`: how many there are to be, and then how many there are.
[[nodiscard]] runtime::Task<Code> set_object_copies(ObjectPeer& peer, std::span<const std::byte> id,
                                                    ObjectCopies& copies, uint64_t timeout_ns);
// `missed`: nodes that have not dropped it yet.
[[nodiscard]] runtime::Task<Result<uint64_t>> remove_object(ObjectPeer& peer, std::span<const std::byte> id,
                                                            uint64_t birth, std::vector<std::string>& missed);
// kNotFound, or what there is.
[[nodiscard]] runtime::Task<Result<object::ObjectRecord>> look_for_object(ObjectPeer& peer,
                                                                          std::span<const std::byte> id);
// kUnsupported: the node shares its objects with no other.
[[nodiscard]] runtime::Task<Result<ObjectPlaces>> locate_object(ObjectPeer& peer,
                                                                std::span<const std::byte> id);
// Has copies of them brought to the node. Those with kInvalidArgument are passed over.
[[nodiscard]] runtime::Task<> prefetch_objects(ObjectPeer& peer, std::span<const Bytes> ids,
                                               std::span<Code> codes, Until until,
                                               const PrefetchOptions& options);
[[nodiscard]] runtime::Task<Result<std::vector<ObjectPath>>> object_paths(ObjectPeer& peer);
// In how much time each node could have them, found out within `timeout_ns`.
[[nodiscard]] runtime::Task<Result<ObjectRank>> rank_nodes(ObjectPeer& peer, std::span<const Bytes> ids,
                                                           uint64_t timeout_ns);
// Has copies of it brought to these nodes, or to all.
[[nodiscard]] runtime::Task<Result<ObjectBroadcast>> broadcast_object(ObjectPeer& peer,
                                                                      std::span<const std::byte> id,
                                                                      std::span<const std::string> nodes,
                                                                      uint64_t timeout_ns);
[[nodiscard]] runtime::Task<Result<ObjectPage>> list_objects(ObjectPeer& peer, uint64_t cursor,
                                                             Listing listing);

}  // namespace refract::client
