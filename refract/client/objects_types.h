// SPDX-License-Identifier: Apache-2.0
// What goes into the calls of Objects and comes out of them: objects.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/client/types.h"

namespace refract {

struct MakeOptions {
  // How long to wait for room that others hold; 0: not at all.
  uint64_t room_timeout_ms = 5'000;
  // Of put() alone: so many copies on different nodes, the one that is made counted; 0: this one, which goes
  // when room is needed. Objects::set_copies() says more.
  uint32_t copies = 0;
  // How long to wait for them.
  uint64_t copies_timeout_ms = 5'000;
};

struct PutObject {
  Bytes id;
  Bytes body;
  Bytes metadata = {};
  Result<uint64_t> result = fail(Code::kUnavailable);  // Its birth.
};

// XXH3, 128 bits, of the body with the metadata behind it; the seed is the metadata's length. Without
// metadata it is what `xxhsum -H2` prints of the body.
struct ObjectDigest {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const ObjectDigest&, const ObjectDigest&) = default;
};

enum class Listing : uint8_t {
  kSealed,  // What readers find. On the node's host without the server.
  kAll,     // Those that are being made, too; and how many hold each.
};

struct ListedObject {
  std::string id;
  uint64_t birth = 0;
  uint64_t body_bytes = 0;
  uint32_t metadata_bytes = 0;
  bool is_kept = false;
  bool is_sealed = true;
  std::optional<uint32_t> holders;  // Of Listing::kAll alone.
};
struct ObjectPage {
  std::vector<ListedObject> objects;  // May be empty although more follows.
  uint64_t next = 0;                  // The next page's cursor; 0: this was the last.
};

// Where an object is, of a node that shares its objects with others.
struct ObjectPlaces {
  uint64_t birth = 0;
  uint64_t body_bytes = 0;
  uint32_t metadata_bytes = 0;
  std::vector<std::string> nodes;  // Their names. Those that get it just now are the last.
  uint32_t copies_wanted = 0;      // On different nodes, and never evicted. 0: none.
  uint32_t copies = 0;             // So many of these there are, on nodes that can be reached.
};

struct ObjectCopies {
  uint64_t birth = 0;
  uint32_t wanted = 0;  // Another number than was asked for: another program has changed it since.
  uint32_t copies = 0;  // So many there are, on nodes that can be reached.
};

// How a copy comes from another node: in messages, or by its network's READs. By itself a node chooses what
// it has found quicker for objects of that size.
enum class Transfer : uint8_t { kAuto, kSend, kRead };
struct PrefetchOptions {
  Transfer transfer = Transfer::kAuto;
  bool is_checked = false;  // The copy's bytes are compared with the other node's, by digests.
};

// What a node has learned of its way to another one. 0: not known.
struct ObjectPath {
  std::string node;
  uint64_t round_trip_ns = 0;
  uint64_t bytes_per_s = 0;
  std::optional<uint64_t> switch_bytes;  // From here on READs are quicker. Nothing: at no size that is known.
  struct Point {
    uint64_t bytes = 0;       // Of the object,
    uint64_t message_ns = 0;  // which takes so long in messages,
    uint64_t read_ns = 0;     // and so long by READs.
  };
  std::vector<Point> curve;  // Of the sizes of which something is known.
};

// What one node lacks of some objects, and in how much time it could have them: Objects::rank().
struct RankedNode {
  std::string node;
  // kOk: the node has said so. kNoSpace: likewise, and its objects.limit is less than all of them. Else
  // nothing is known of it, and the numbers are 0. kAway: it is not reached. kDeadlineExceeded: no answer in
  // time. kUnsupported: its version does not know the question. kMalformed: its answer made no sense.
  Code code = Code::kUnavailable;
  uint64_t missing_objects = 0;
  uint64_t missing_bytes = 0;        // Bodies and metadata.
  uint64_t time_ns = 0;              // An estimate, by its paths to those that have them.
  bool is_guessed = false;           // Not all of these paths were measured by pulls.
  uint64_t unreachable_objects = 0;  // Of the missing ones: it reaches no holder. Not in the time.
};
struct ObjectRank {
  std::vector<RankedNode> nodes;  // The quickest first.
  // Of each id, in their order. kNotFound: no node has it. kAway: some that may have it cannot be reached.
  // kDeadlineExceeded: it was not found out in time. Only those with kOk count.
  std::vector<Code> ids;
};

// What has become of one object at one of the nodes to which it was to be brought: Objects::broadcast().
struct BroadcastNode {
  std::string node;
  // kOk: it has a copy. kAway: it is not reached. kNoSpace. kExists: another object of the id is there.
  // kCancelled: the object was removed meanwhile. kNotFound: none of the nodes that were to give it had it
  // any more. kDeadlineExceeded: it has not come in time, and may still. kUnsupported: its version cannot.
  Code code = Code::kUnavailable;
};
struct ObjectBroadcast {
  // In the order in which they were named, else in the list's; where they are more than one message has room
  // for, those that did not get it first.
  std::vector<BroadcastNode> nodes;
  uint64_t missed = 0;  // So many did not get it.
  uint64_t untold = 0;  // Of so many more there was no room to say what has become of it.
};

struct ObjectNotice {
  enum class Kind : uint8_t {
    kThere,    // Was sealed before.
    kSealed,   // Was sealed now.
    kRemoved,  // By a program, or evicted.
    kMissed,   // Notices were lost; names no object. What is there follows.
  };
  Kind kind = Kind::kThere;
  std::string id;
  uint64_t birth = 0;
  uint64_t body_bytes = 0;
  uint32_t metadata_bytes = 0;
};

// Bytes are those of bodies and metadata, which is what the limit counts.
struct ObjectStat {
  uint64_t limit = 0;
  uint64_t used = 0;  // sealed_bytes, creation_bytes and removed_bytes together.
  uint64_t sealed_bytes = 0;
  uint64_t creation_bytes = 0;  // Of objects that are being made.
  uint64_t removed_bytes = 0;   // Of objects without an id, which are held still.
  uint64_t held_bytes = 0;      // Of sealed ones that are held;
  uint64_t kept_bytes = 0;      // of those that are kept. Some are both.
  uint64_t objects = 0;         // Sealed.
  uint64_t creations = 0;
  uint64_t removed = 0;  // And held still.
  uint64_t held = 0;
  uint64_t sealed_ever = 0;  // Since the node's memory was made, and likewise the next.
  uint64_t removed_ever = 0;
  uint64_t evicted_ever = 0;
  uint64_t evicted_bytes_ever = 0;
  uint64_t aborted_ever = 0;
};

}  // namespace refract
