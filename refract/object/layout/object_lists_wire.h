// SPDX-License-Identifier: Apache-2.0
// Bodies of the calls that tell what objects there are, what happens to them, and where they are: a part of
// object_wire.h, which has their rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::object::wire {

// kList: what is there from `cursor` on, 0 at first -> ListReply, then the objects, each a ListedObject | id.
// One that is there throughout comes at least once, and may come twice.
struct ListRequest {
  uint64_t cursor;
};
struct ListReply {
  uint64_t next;  // 0: this was the last page. A cursor of a session that is over may be kInvalidated.
  uint32_t count;
  uint32_t reserved;
};
struct ListedObject {
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint32_t flags;
  uint32_t holders;
  uint16_t id_bytes;
  uint8_t is_sealed;
  uint8_t reserved;
};
static_assert(sizeof(ListRequest) == 8 && sizeof(ListReply) == 16 && sizeof(ListedObject) == 32);

// kNotices: what happened from `cursor` on, waiting for the first until `timeout_ns` is over -> NoticesReply,
// then each a Notice | id. A cursor of 0, or one that the owner does not know (any more), begins a replay:
// all sealed objects, as notices with kReplayed, then what happened since. A subscriber that is told
// `is_lost` has missed notices, and a replay begins.
struct NoticesRequest {
  uint64_t cursor;
  uint64_t timeout_ns;
};
struct NoticesReply {
  uint64_t next;  // Never 0.
  uint32_t count;
  uint8_t is_lost;
  uint8_t reserved[3];
};
enum class NoticeKind : uint8_t { kSealed = 1, kDeleted = 2, kReplayed = 3 };
struct Notice {
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint16_t id_bytes;
  NoticeKind kind;
  uint8_t reserved;
};
static_assert(sizeof(NoticesRequest) == 16 && sizeof(NoticesReply) == 16 && sizeof(Notice) == 24);

// kStat -> StatReply. Later versions append words; a reader takes what it knows.
struct StatReply {
  uint64_t limit;
  uint64_t used;  // All of the following.
  uint64_t sealed_bytes;
  uint64_t creation_bytes;
  uint64_t departed_bytes;  // Without an id, and held.
  uint64_t held_bytes;      // Of the sealed ones.
  uint64_t kept_bytes;      // Likewise; some may be held, too.
  uint64_t objects;         // Sealed.
  uint64_t creations;
  uint64_t departed;
  uint64_t held;
  uint64_t sealed_ever;
  uint64_t deleted_ever;
  uint64_t evicted_ever;
  uint64_t evicted_bytes_ever;
  uint64_t aborted_ever;
  uint64_t shares;  // 1: with other nodes; what is not here may be there.
};
static_assert(sizeof(StatReply) == 17 * 8);

// kWhere: IdRequest | id (birth and flag 0) -> WhereReply, then `holders` times a length of one byte and a
// name: the nodes that have it. kNotFound; kAway; kUnsupported: the node shares nothing.
struct WhereReply {
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint16_t holders;
  uint8_t wanted;   // Copies that are to be kept,
  uint8_t counted;  // and that are.
};
static_assert(sizeof(WhereReply) == 24 && offsetof(WhereReply, holders) == 20);

// kCopies: CopiesCall | id -> CopiesAnswer, when there are so many copies that count, or `timeout_ns` is
// over. kNotFound; kVersionMismatch: of another birth (0: any). kAway: the id's home cannot be reached, and
// nothing was changed, or the answer was lost. kUnsupported: the node shares nothing.
struct CopiesCall {
  uint64_t birth;
  uint64_t timeout_ns;
  uint16_t id_bytes;
  uint8_t wanted;  // At most kCopiesMax; 0: those that gets leave.
  uint8_t reserved[5];
};
struct CopiesAnswer {
  uint64_t birth;
  uint8_t wanted;  // Another number: another client has changed it meanwhile.
  uint8_t counted;
  uint8_t reserved[6];
};
static_assert(sizeof(CopiesCall) == 24 && sizeof(CopiesAnswer) == 16);

}  // namespace refract::object::wire
