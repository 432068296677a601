// SPDX-License-Identifier: Apache-2.0
// The bodies of the calls by which a client reaches the owner of objects; the frame around them is the rpc
// layer's. docs/formats/objects.md has the table of methods and a worked example: the golden test.
//
// Little endian, no padding, reserved fields are 0. A body is one struct, then bytes: the id first. What
// comes from the other side is hostile: it is copied out once (kv::wire::take), then checked, then used.
//
// A call names an object by its id and, where it is about a creation, by its creator's claim
// (object_birth.h): so a call that is sent again over another session is known to be the same, and no other
// client makes it. A birth of 0 where it may be 0 stands for any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/object/layout/object_broadcast_wire.h"
#include "refract/object/layout/object_lists_wire.h"
#include "refract/object/layout/object_rank_wire.h"

namespace refract::object::wire {

inline constexpr uint16_t kMethodsBegin = 0x400;

// Numbers travel and never change.
enum class Method : uint16_t {
  kCreate = 0x400,
  kFilled = 0x401,
  kSeal = 0x402,
  kAbort = 0x403,
  kPut = 0x404,
  kPutMany = 0x405,
  kAwait = 0x406,
  kFetch = 0x407,
  kFetchDone = 0x408,
  kDelete = 0x409,
  kEvict = 0x40a,
  kKeep = 0x40b,
  kList = 0x40c,
  kNotices = 0x40d,
  kStat = 0x40e,
  kWhere = 0x40f,
  kCopies = 0x410,
  kRank = 0x411,
  kBroadcast = 0x412,
};

// Of times to wait: no end.
inline constexpr uint64_t kForever = UINT64_MAX;

// What one session may have at the owner; beyond it kOverloaded.
inline constexpr size_t kCreationsPerSession = 1024;
inline constexpr size_t kFetchesPerSession = 64;
inline constexpr size_t kAwaitsPerSession = 32;  // kAwait, kFetch and kNotices that wait.
// Of one kPutMany.
inline constexpr size_t kPutsPerCall = 64;

// Where one-sided requests reach bytes. All zeros: they do not.
struct Place {
  uint64_t address;  // RemotePointer::bits
  uint64_t key;      // RemoteKey::bits
};
static_assert(sizeof(Place) == 16);

// kCreate: takes the room for an object. CreateRequest | id -> CreateReply. Waits for room until `timeout_ns`
// is over. kExists: the id is an object's, or another creation's. kTooLarge: more than the limit. kNoSpace |
// NoSpaceReply. A call with the claim of a creation that is open, or of an object that is sealed, is answered
// as the first one was (kInvalidArgument: its lengths were others; kNotFound: it was aborted; kIndeterminate:
// it was sealed, and is gone), and the creation is this session's from then on; a window begins again,
// without any byte. Where a window is wanted for something: kUnsupported over a channel that has none,
// kOverloaded while none is free.
struct CreateRequest {
  uint64_t claim;
  uint64_t body_bytes;
  uint64_t timeout_ns;
  uint32_t metadata_bytes;
  uint16_t id_bytes;
  uint8_t wants_window;  // 1: the reply says where the creator WRITEs body and metadata.
  uint8_t reserved;
};
static_assert(sizeof(CreateRequest) == 32 && offsetof(CreateRequest, metadata_bytes) == 24);
struct CreateReply {
  uint64_t object_at;
  Place window;  // Of the body's first byte; ObjectParts::filled_bytes() follow.
  uint8_t is_sealed;
  uint8_t reserved[7];
};
static_assert(sizeof(CreateReply) == 32);
// What the store has, in bytes of data and metadata.
struct NoSpaceReply {
  uint64_t limit;
  uint64_t held;  // By readers, objects without an id among them.
  uint64_t kept;  // Not held.
  uint64_t in_creation;
};
static_assert(sizeof(NoSpaceReply) == 32);

// kFilled, kSeal: the creator's bytes lie at `source`, for the owner to READ: body, padding and metadata.
// With kFilled so many of the first are final, and may be READ from now on until kSeal or kAbort is answered;
// the answer says only that this was understood. kSeal: READs the rest, then publishes -> SealReply; an empty
// source says that they were written through the window, or are final already. kNotFound: no such creation.
// kInvalidArgument: fewer bytes have come through the window, which is closed now. kExists: sealed by another
// creator. kAccessDenied: the creation is another session's, or a READ was refused, or nothing is known of
// the bytes: create makes it this session's. kIndeterminate: the object may have been sealed, and is gone.
// kUnsupported: over this channel the owner READs nothing, or not this region. kDeadlineExceeded, and what
// else a READ can end in: the creation is open as before.
struct FillRequest {
  uint64_t claim;
  uint64_t filled_bytes;  // kSeal: all.
  Place source;
  uint64_t timeout_ns;  // kSeal: no READ is begun after it.
  uint16_t id_bytes;
  uint8_t reserved[6];
};
static_assert(sizeof(FillRequest) == 48 && offsetof(FillRequest, source) == 16);
struct SealReply {
  uint64_t object_at;
};
static_assert(sizeof(SealReply) == 8);

// kAbort: ends a creation of any session, and a create that waits; what comes later with that claim makes
// nothing. kNotFound, kExists: there is none, or another creator's. kDelete: IdRequest | id -> DeleteReply.
// kVersionMismatch: of another birth. kOverloaded, kNoSpace: a full store cannot say that it is held. Of a
// node that shares its objects, all nodes drop it: behind the reply stand those that have not said so yet,
// each a length of one byte and a name. kAway: the id's home cannot be reached.
struct IdRequest {
  uint64_t birth;  // kAbort: the claim.
  uint16_t id_bytes;
  uint8_t flag;  // kKeep: 1 to keep, 0 not to.
  uint8_t reserved[5];
};
struct DeleteReply {
  uint64_t holders;
};
static_assert(sizeof(IdRequest) == 16 && sizeof(DeleteReply) == 8);

// kPut: a whole object that fits a message. PutRequest | id | body | metadata -> SealReply. Codes as
// kCreate's. kPutMany: CountRequest, then each as a PutRequest that begins at a multiple of 8 bytes -> a
// uint16_t code each. None waits for what others hold or keep; `timeout_ns` is 0.
struct PutRequest {
  uint64_t claim;
  uint64_t timeout_ns;
  uint32_t body_bytes;
  uint32_t metadata_bytes;
  uint16_t id_bytes;
  uint8_t reserved[6];
};
static_assert(sizeof(PutRequest) == 32 && offsetof(PutRequest, body_bytes) == 16);
struct CountRequest {
  uint32_t count;
  uint32_t reserved;
};
static_assert(sizeof(CountRequest) == 8);

// kAwait: AwaitRequest | id -> ObjectReply, once it is sealed; kNotFound when the time is over before. A node
// that shares its objects looks for it on the others first, whatever the time, and pulls it. kAway: some that
// may have it were not reached. kNoSpace: there is no room for a copy. kInvalidated: it is on its way, ask
// again.
struct AwaitRequest {
  static constexpr uint8_t kInAdvance = 1;  // Others' gets take room first.
  static constexpr uint8_t kChecked = 2;    // The holders' digests of what comes are compared.

  uint64_t timeout_ns;
  uint16_t id_bytes;
  uint8_t transfer = 0;  // How a copy comes: 0 the node's choice, 1 in messages, 2 by READs.
  uint8_t flags = 0;
  uint8_t reserved[4];
};
struct ObjectReply {
  uint64_t object_at;
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint32_t flags;
};
static_assert(sizeof(AwaitRequest) == 16 && sizeof(ObjectReply) == 32);

// kFetch: as kAwait, for a reader that cannot map the memory -> FetchReply. Where all fits the message, body,
// padding and metadata follow, and `fetch` is 0; else they lie at `window` for READs, and are held until
// kFetchDone (FetchDoneRequest) or the session's end. kUnsupported, kOverloaded: as kCreate where a window is
// wanted. kFetchDone: kInvalidated, where there is no such fetch.
struct FetchReply {
  ObjectReply object;
  uint64_t fetch;
  Place window;
};
struct FetchDoneRequest {
  uint64_t fetch;
};
static_assert(sizeof(FetchReply) == 56 && sizeof(FetchDoneRequest) == 8);

// kEvict: gives back so many bytes, or what can go -> EvictReply. kKeep: IdRequest | id.
struct EvictRequest {
  uint64_t bytes;
};
struct EvictReply {
  uint64_t bytes;
};
static_assert(sizeof(EvictRequest) == 8 && sizeof(EvictReply) == 8);

}  // namespace refract::object::wire
