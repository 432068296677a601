// SPDX-License-Identifier: Apache-2.0
// The bodies of the calls by which members tell each other where objects are; docs/formats/directory.md has
// the table of methods and a worked example: the golden test. docs/design/052-directory.md says what they
// are for.
//
// Only sessions in the node role call them: of others kAccessDenied. But for kHello the caller has said hello
// in this session, and both ends have the same list of nodes, or the answer is kVersionMismatch: so a member
// is named by its index in that list.
//
// Little endian, no padding, reserved fields are 0. A body is one struct, then bytes. What comes from the
// other side is copied out once (kv::wire::take), then checked, then used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::object::wire {

inline constexpr uint16_t kDirectoryMethodsBegin = 0x600;

// Numbers travel and never change.
enum class DirectoryMethod : uint16_t {
  kHello = 0x600,
  kChanges = 0x601,
  kLookUp = 0x602,
  kRemove = 0x603,
  kDrop = 0x604,
  kForget = 0x605,
  kAsk = 0x606,
  kAppeared = 0x607,
  kCopies = 0x608,
  kBind = 0x609,
  kEstimate = 0x60a,
  kBring = 0x60b,
};

// kHello: who the caller is. HelloRequest | name -> HelloReply | name of the one that answers. It changes
// nothing yet: the stream begins with its first page. kNotFound: no member has this name. kVersionMismatch |
// HelloReply | name: the lists differ.
struct HelloRequest {
  uint64_t list_version;
  uint64_t list_digest;  // XXH3 of the list's text (cluster::to_text).
  uint64_t identity[2];  // Of the caller's memory.
  uint16_t name_bytes;
  uint8_t reserved[6];
};
struct HelloReply {
  uint64_t list_version;
  uint64_t stream;  // Names the stream that the caller may begin. Never 0.
  uint16_t name_bytes;
  uint8_t reserved[6];
};
static_assert(sizeof(HelloRequest) == 40 && sizeof(HelloReply) == 24);

// kChanges: a page of the caller's stream to the home of the ids. ChangesRequest, then `count` times a Change
// | id -> a uint16_t code each. A stream begins with the report: all that the caller has for this home,
// tombstones first, then claims, then the rest. Its first page ends the caller's stream before it, over
// whatever session. kVersionMismatch: of a stream that has ended.
struct ChangesRequest {
  uint64_t list_version;
  uint64_t stream;
  uint32_t count;
  uint8_t is_report;
  uint8_t is_last;  // Of the report's pages.
  uint8_t reserved[2];
};
enum class ChangeKind : uint8_t {
  kHolds = 1,      // Sealed, or pulled. kCancelled: it was deleted.
  kGone = 2,       // Evicted, or dropped, or not pulled after all (birth 0: nothing was).
  kClaims = 3,     // Is being made. kExists: another birth. kUnavailable: the home does not know enough.
  kUnclaims = 4,   // Is not made any more.
  kTombstone = 5,  // The caller refuses this birth. body_bytes 1: and still has it.
  kComing = 6,     // Is being pulled.
  kDropped = 7,    // What kDrop asked for is done. body_bytes: how many processes hold its memory.
  kReleases = 8,   // Is to be bound no more. kUnavailable: too few others are, and it stays so.
};
struct Change {
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint32_t copies;  // kHolds: CopiesWord.
  uint16_t id_bytes;
  ChangeKind kind;
  uint8_t reserved[5];
};
static_assert(sizeof(ChangesRequest) == 24 && sizeof(Change) == 32);
static_assert(offsetof(Change, copies) == 20 && offsetof(Change, kind) == 26);

// kLookUp: LookUpRequest | id -> LookUpReply, then the holders and the doubtful members, a byte each. Those
// are doubtful of which the home cannot say that they do not have it.
struct LookUpRequest {
  uint64_t list_version;
  uint16_t id_bytes;
  uint8_t tells_later;  // 1: the home calls kAppeared when the id is published, within some seconds.
  uint8_t pulls;        // 1: where the reply names a member, the caller counts as one to which a copy comes,
                        // of the reply's birth (0: of any), until its stream says more.
  uint8_t reserved[4];
};
struct LookUpReply {
  uint64_t birth;  // 0: no member has it.
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint8_t holders;
  uint8_t doubtful;
  uint8_t wanted;   // Copies that are to be bound,
  uint8_t counted;  // and that are.
};
static_assert(sizeof(LookUpRequest) == 16 && sizeof(LookUpReply) == 24);

// kRemove: deletes an object on all members, by way of its home. NamedRequest | id (birth 0: whichever there
// is) -> RemoveReply, then the members that have not acknowledged, a byte each. kNotFound; kVersionMismatch
// with a RemoveReply: of another birth. kUnavailable: the home does not know. kNoSpace: nothing was changed.
// kDrop, from the home: NamedRequest | id. The member refuses the birth, drops it, and says kDropped in its
// stream. kForget, from the home: all have. kAppeared, from the home: the id was published.
struct NamedRequest {
  uint64_t list_version;
  uint64_t birth;
  uint16_t id_bytes;
  uint8_t reserved[6];
};
struct RemoveReply {
  uint64_t birth;
  uint64_t holders;  // Processes that hold the object's memory, on all members together.
  uint8_t missed;
  uint8_t reserved[7];
};
static_assert(sizeof(NamedRequest) == 24 && sizeof(RemoveReply) == 24);

// kCopies, to the id's home: CopiesRequest | id (birth 0: whichever there is) -> CopiesReply. So many copies
// are to be bound; kAsItIs changes nothing. kNotFound; kVersionMismatch with a CopiesReply: of another birth.
// kUnavailable: the home does not know.
struct CopiesRequest {
  uint64_t list_version;
  uint64_t birth;
  uint16_t id_bytes;
  uint8_t wanted;  // At most kCopiesMax, or kAsItIs.
  uint8_t reserved[5];

  static constexpr uint8_t kAsItIs = 255;
};
struct CopiesReply {
  uint64_t birth;
  uint8_t wanted;
  uint8_t counted;
  uint8_t reserved[6];
};
static_assert(sizeof(CopiesRequest) == 24 && sizeof(CopiesReply) == 16);

// kBind, from the home: BindRequest | id. The member's copy is bound from now on, by this word, if that is
// greater than the one it has; a copy that it does not have it pulls, if it may. The answer says only that
// this was understood, or why it is not done: kCancelled, the birth was deleted; kExists, another birth is
// here; kNotFound, it has none and may not pull. What has come of it the member says in its stream.
struct BindRequest {
  uint64_t list_version;
  uint64_t birth;
  uint32_t word;  // CopiesWord.
  uint16_t id_bytes;
  uint8_t may_pull;
  uint8_t reserved;
};
static_assert(sizeof(BindRequest) == 24);

// kBring: BringRequest | id | members, a byte each -> nothing, when it is here. The caller's client wants a
// copy there. It comes from the first of these members, to which it is coming itself, else from the next one;
// the last one has it. Of none: the one that is asked should have it. kExists: another birth is here.
// kCancelled: this one was deleted. kNotFound: none of them brought it. kNoSpace. kUnavailable: the home of
// the id was not reached, or one that may have it. kOverloaded.
struct BringRequest {
  uint64_t list_version;
  uint64_t birth;
  uint64_t plan;         // Not 0. All orders of one broadcast have the same, and no other one has.
  uint32_t timeout_ms;   // No other attempt begins behind it.
  uint32_t piece_bytes;  // kBroadcastPieceMin to kBroadcastPieceMax.
  uint16_t id_bytes;
  uint8_t forebears;  // At most kForebearsMax.
  uint8_t reserved[5];

  static constexpr size_t kForebearsMax = 8;
};
static_assert(sizeof(BringRequest) == 40 && offsetof(BringRequest, forebears) == 34);

// kAsk: whether the one that is asked has the object. AskRequest | id -> AskReply | name of the member to
// which it has passed a copy last, where it remembers one | births of the id that it knows to be deleted, 8
// bytes each, which the caller refuses before it pulls.
struct AskRequest {
  uint64_t list_version;
  uint16_t id_bytes;
  uint8_t reserved[6];
};
struct AskReply {
  uint64_t birth;  // 0: it does not have it.
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint16_t name_bytes;
  uint8_t is_open;  // 1: it may have it soon, or has not said all to the home: no answer to rely on.
  uint8_t tombstones;
};
static_assert(sizeof(AskRequest) == 16 && sizeof(AskReply) == 24);

// kEstimate: in how much time the one that is asked could have some objects. EstimateRequest, then `count`
// times a WantedObject | id | holders, a byte each -> EstimateReply. It changes nothing.
struct EstimateRequest {
  uint64_t list_version;
  uint16_t count;  // At most kRankIdsMax; 0: only whether there is an answer.
  uint8_t reserved[6];
};
struct WantedObject {
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint16_t id_bytes;
  uint8_t holders;  // At most kHoldersMax of them.
  uint8_t reserved;

  static constexpr size_t kHoldersMax = 16;
};
struct EstimateReply {
  uint64_t time_ns;        // By its own paths, for what is missing and can be had.
  uint64_t missing_bytes;  // Bodies and metadata of what is not there.
  uint64_t room_bytes;     // It may have so many bytes of objects, all together.
  uint32_t missing;        // Objects,
  uint32_t unreachable;    // and those of them of which it has no session to a holder.
  uint8_t is_guessed;      // 1: a path of these was not measured yet.
  uint8_t reserved[7];
};
static_assert(sizeof(EstimateRequest) == 16 && sizeof(WantedObject) == 24 && sizeof(EstimateReply) == 40);

}  // namespace refract::object::wire
