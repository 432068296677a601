// SPDX-License-Identifier: Apache-2.0
// The body of the call by which a client learns in how much time each node could have some objects: a part of
// object_wire.h, which has its rules. docs/design/060-rank.md says how the time comes about.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::object::wire {

// Of one call.
inline constexpr size_t kRankIdsMax = 256;

// kRank: RankRequest, then `count` times an id behind a length of one byte -> RankReply, then a code of 2
// bytes for each id, then `told` times a RankedNode and a name: the quickest first, as many as there is room
// for. Answered within `timeout_ns`. Of an id: kNotFound, kAway as of kWhere; kDeadlineExceeded: it was not
// found out in time. kUnsupported: the node shares nothing. kAway: the list has changed meanwhile, or there
// is none yet.
struct RankRequest {
  uint64_t timeout_ns;
  uint16_t count;  // 1 to kRankIdsMax.
  uint8_t reserved[6];
};
struct RankReply {
  uint16_t ids;
  uint16_t told;
  uint16_t nodes;  // Of the list.
  uint8_t reserved[2];
};
struct RankedNode {
  uint64_t time_ns;        // For all that is missing and can be had.
  uint64_t missing_bytes;  // Bodies and metadata.
  uint32_t missing;        // So many of the objects are not there,
  uint32_t unreachable;    // of which it reaches no holder.
  // kOk: the node has said so. kNoSpace: likewise, and its limit is less than all of them. All else: nothing
  // is known of it, and the numbers are 0. kAway: it is not reached. kDeadlineExceeded: no answer in time.
  // kUnsupported: it does not know the question. kMalformed: its answer made no sense.
  uint16_t code;
  uint8_t is_guessed;  // 1: some path was not measured yet.
  uint8_t name_bytes;
  uint8_t reserved[4];
};
static_assert(sizeof(RankRequest) == 16 && sizeof(RankReply) == 8 && sizeof(RankedNode) == 32);
static_assert(offsetof(RankedNode, code) == 24);

}  // namespace refract::object::wire
