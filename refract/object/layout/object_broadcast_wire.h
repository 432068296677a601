// SPDX-License-Identifier: Apache-2.0
// The body of the call by which a client has one object brought to several nodes: a part of object_wire.h,
// which has its rules. docs/design/061-broadcast.md says how it comes there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::object::wire {

// Of one call.
inline constexpr size_t kBroadcastNodesMax = 255;

// kBroadcast: BroadcastRequest | id, then `count` times a node's name behind a length of one byte ->
// BroadcastReply, then `told` times a BroadcastNode and a name, in the order in which they were named; where
// not all fit the message, those that did not get it first. A name that is given twice counts once. Answered
// within `timeout_ns`. kNotFound, kAway as of kWhere. kInvalidArgument with a body: its names are of no node
// of the list. kUnsupported: the node shares nothing.
struct BroadcastRequest {
  uint64_t timeout_ns;
  uint16_t id_bytes;
  uint8_t count;  // 0: all nodes of the list.
  uint8_t reserved[5];
};
struct BroadcastReply {
  uint16_t told;
  uint16_t nodes;
  uint16_t missed;  // Of these nodes so many did not get it.
  uint8_t reserved[2];
};
struct BroadcastNode {
  // kOk: it has a copy. kAway: it is not reached. kNoSpace. kExists: another object of the id is there.
  // kCancelled: it was deleted meanwhile. kNotFound: none of those that were to give it had it any more.
  // kDeadlineExceeded: it has not come in time. kUnsupported: its version cannot.
  uint16_t code;
  uint8_t name_bytes;
  uint8_t reserved;
};
static_assert(sizeof(BroadcastRequest) == 16 && offsetof(BroadcastRequest, count) == 10);
static_assert(sizeof(BroadcastReply) == 8 && sizeof(BroadcastNode) == 4);

}  // namespace refract::object::wire
