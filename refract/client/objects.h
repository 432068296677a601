// SPDX-License-Identifier: Apache-2.0
// Objects of a node: bytes that are made once, never change afterwards, and are read by any number of
// programs, on the node's host without a copy.
//
//   auto objects = client->objects();                        // Client::connect() made the client.
//   if (!objects) return complain(objects.error().to_string());
//   auto made = objects->create("weights", 1 << 30);
//   fill(made->body());
//   auto sealed = made->seal();                              // From now on every reader finds it.
//
//   auto weights = objects->get("weights", Objects::kForever);   // In another program; waits for it.
//   use(weights->body());                                    // As long as the handle lives.
//
// An object has an id of 1 to 255 bytes, a body of 0 bytes up to the node's limit, which begins at a multiple
// of 64, and metadata of up to 64 KiB, which mean nothing to the node. An id names one object at a time;
// `birth` tells two objects of one id apart.
//
// On the node's host a get is loads of memory that is mapped here, read-only: no message, also while the
// server is stopped or dead. A handle holds its object there, whatever becomes of its id: a removed object
// gives its memory back with its last handle. Elsewhere a get fills memory of this process. Creating, sealing
// and all else are calls to the server.
//
// Every call blocks until it is done, at most for the Client's timeout beyond the time that it was given to
// wait; where it takes room for a body or moves one, 0.1 s longer for each MiB. What may come back, beside
// each call's own codes: kUnavailable, kDeadlineExceeded, kIndeterminate, kOverloaded and kForked as client.h
// has them; kInvalidArgument (an id of another length, metadata longer than 64 KiB); kUnsupported (the node
// has no objects). trouble() says more of a thread's last failure.
//
// A call whose answer was lost is sent again by itself, and is known to be the same: so it is done once.
//
// Threads: any number may use one Objects, and the Client, at once. Each has a connection of its own to the
// objects, made by its first call and ended with the thread: what it was creating ends with it, while handles
// stay good. Handles may be moved to and destroyed by any thread, and outlive Objects and Client. After a
// fork the child makes its own Client, and what it inherited holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/api.h"
#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/client/objects_handles.h"
#include "refract/client/objects_types.h"
#include "refract/client/types.h"

namespace refract {

class Client;

namespace client {
class ClientState;
}

class REFRACT_API Objects {
 public:
  // Of times to wait: no end.
  static constexpr uint64_t kForever = UINT64_MAX;
  static constexpr size_t kIdBytesMax = 255;
  static constexpr uint32_t kMetadataBytesMax = 64 * 1024;
  static constexpr size_t kNewIdBytes = 20;

  // --- Making ---

  // Takes the room, waiting for it if `options` say so. kExists: the id has an object, or one is being made.
  // kTooLarge: more than the node's limit. kNoSpace: what could go is not enough; trouble() names what is
  // held, kept and being made. kAway: nodes share their objects, and the one that decides about this id
  // cannot be reached; ids of new_id() need no such node.
  [[nodiscard]] Result<NewObject> create(Bytes id, uint64_t body_bytes, uint32_t metadata_bytes = 0,
                                         const MakeOptions& options = {});
  // Creates, fills and seals. Returns its birth. Of `options.copies` it says only with copies_made() how many
  // came in time; kUnsupported: the node shares its objects with no other, and nothing was made.
  [[nodiscard]] Result<uint64_t> put(Bytes id, Bytes body, Bytes metadata = {},
                                     const MakeOptions& options = {});
  // Many, each with its own outcome, in no particular order. None waits for room.
  void put_many(std::span<PutObject> objects);
  // An id that no other program will draw, of kNewIdBytes. Any bytes, not text. kForked.
  [[nodiscard]] Result<std::string> new_id();

  // --- Reading ---

  // Waits for an object that is not there: not at all (0), for ever, or so long. Where nodes share their
  // objects, one that another node has is brought here first, however long that takes. kNotFound: it did not
  // come. kAway: it is not known that there is none, since some node cannot be reached. kNoSpace: no room for
  // a copy. kOverloaded: this thread holds as many objects as it can.
  [[nodiscard]] Result<Object> get(Bytes id, uint64_t timeout_ms = 0);
  // The same by loads alone, without a message or a wait. kInvalidated: get() has to be asked.
  [[nodiscard]] Result<Object> get_at_once(Bytes id);
  // The same of many, all waited for together: one result each, in their order.
  [[nodiscard]] std::vector<Result<Object>> get(std::span<const Bytes> ids, uint64_t timeout_ms = 0);
  // Whether it is there, sealed: on this node or, where nodes share their objects, on any.
  [[nodiscard]] Result<bool> contains(Bytes id);
  // Which nodes have it. kNotFound: none. kAway: some that may have it cannot be reached. kUnsupported: the
  // node shares its objects with no other.
  [[nodiscard]] Result<ObjectPlaces> where(Bytes id);
  // Brings copies to this node, so that a get of them is a load; waits as get() does, and holds nothing. One
  // code each.
  [[nodiscard]] std::vector<Code> prefetch(std::span<const Bytes> ids, uint64_t timeout_ms = 0,
                                           const PrefetchOptions& options = {});
  // Brings copies to these nodes, all at once, or to all nodes of the list: each passes on what has come to
  // it, so that many have it in about the time of one. Copies are as those of prefetch(): they go when room
  // is needed. One that a node has already is no trouble. Waits so long, an hour at most; what is under way
  // then continues. Each node has a code. kNotFound; kAway: it is not known where it is, since some node
  // cannot be reached. kInvalidArgument: more than kBroadcastNodesMax names, or one that no node has, which
  // trouble() names. kTooLarge: the names do not fit one message. kUnsupported: the node shares its objects
  // with no other.
  static constexpr size_t kBroadcastNodesMax = 255;
  [[nodiscard]] Result<ObjectBroadcast> broadcast(Bytes id, std::span<const std::string> nodes = {},
                                                  uint64_t timeout_ms = 60'000);
  // So many copies are kept on different nodes: none of them is evicted, and the nodes replace one whose node
  // has been away for a minute. Waits for them, a minute at most. Fewer in the answer: nodes are away, have
  // no room, or there are not so many; more copies come when that changes. 0: copies go when room is needed,
  // all of them. At most kCopiesMax. kNotFound; kAway: the node that decides about this id cannot be reached,
  // or its answer was lost. kUnsupported: the node shares its objects with no other.
  static constexpr uint32_t kCopiesMax = 16;
  [[nodiscard]] Result<ObjectCopies> set_copies(Bytes id, uint32_t copies, uint64_t timeout_ms = 5'000);
  // How many there were when this thread's last put() with `copies` returned.
  [[nodiscard]] uint32_t copies_made() const;
  // The objects from `cursor` on, some of them. Begin with 0, continue with `next`. One that is there
  // throughout comes at least once, and may come twice. `Listing::kAll` asks the server.
  [[nodiscard]] Result<ObjectPage> list(uint64_t cursor = 0, Listing listing = Listing::kSealed);
  // Reads all of the object.
  [[nodiscard]] Result<ObjectDigest> digest(Bytes id);

  // --- Ending ---

  // Frees the id now, and the memory with the last holder; on all nodes that share their objects. Returns how
  // many hold it. kAway: the node that decides about this id cannot be reached. `birth` 0: whatever
  // object has the id. kNotFound, kVersionMismatch: the id is another's. kIndeterminate: it is gone, and
  // whether by this call is unknown.
  [[nodiscard]] Result<uint64_t> remove(Bytes id, uint64_t birth = 0);
  // Nodes that had not dropped it when this thread's last remove() returned. They do when they are back.
  [[nodiscard]] std::vector<std::string> missed() const;
  // Removes sealed objects that are not held and not kept, the least recently used first, until so many bytes
  // were given back, or nothing more can go. Returns how many were.
  [[nodiscard]] Result<uint64_t> evict(uint64_t bytes);
  // Kept: never evicted. kNotFound.
  [[nodiscard]] Code keep(Bytes id, bool is_kept = true);

  // --- Knowing ---

  [[nodiscard]] Result<Subscription> subscribe();
  [[nodiscard]] Result<ObjectStat> stat();
  // In how much time each node could have these objects, the quickest first: where a program that reads them
  // should run. Each node says what it lacks, and estimates by the paths that its pulls have measured; what
  // was never measured is guessed, and marked so. One that does not say so in time stands behind the others,
  // with a code. An id without an object is told in `ids`, and does not count. Nothing is brought anywhere.
  // kInvalidArgument: no ids, or more than kRankIdsMax. kTooLarge: they are too long for one message. kAway:
  // the list of nodes has changed meanwhile. kUnsupported: the node shares its objects with no other.
  static constexpr size_t kRankIdsMax = 256;
  [[nodiscard]] Result<ObjectRank> rank(std::span<const Bytes> ids, uint64_t timeout_ms = 1'000);
  // The node's ways to the others. kUnsupported: it shares its objects with none.
  [[nodiscard]] Result<std::vector<ObjectPath>> paths();
  // What was wrong when a call of this thread last failed, for a person.
  [[nodiscard]] Report trouble() const;

 private:
  friend class Client;
  explicit Objects(client::ClientState* client) noexcept : client_(client) {}
  client::ClientState* client_;  // The Client's, which outlives this.
};

}  // namespace refract
