// SPDX-License-Identifier: Apache-2.0
// The bodies of the calls by which a client reaches a table through its owner; the frame around them is the
// rpc layer's. docs/formats/kv-rpc.md has the table of methods and a worked example: the golden test.
//
// Little endian, no padding, reserved fields are 0. A body is one struct, then bytes: key before value. What
// comes from the other side is hostile: it is copied out once (take), then checked, then used.
//
// Nothing but the frame bounds a body, and a frame may be smaller than a key or value, so what is long
// travels in pieces: a key is staged in one of the session's places (kStageKey) before the call that uses it,
// a value is put by kPutBegin, kPutPiece, kPutCommit, and got through a view. Uploads, views and staged keys
// end with their session; a call that names what is not there is answered with kInvalidated: begin again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "refract/kv/layout/contract.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv::wire {

// Numbers travel and never change.
enum class Method : uint16_t {
  kPing = 1,
  kGet = 2,
  kPut = 3,
  kErase = 4,
  kExists = 5,
  kScan = 6,
  kStat = 7,
  kPutBegin = 8,
  kPutPiece = 9,
  kPutCommit = 10,
  kPutAbandon = 11,
  kViewPiece = 12,
  kViewClose = 13,
  kStageKey = 14,
  kPutPulled = 15,  // pull_wire.h; people and counters see a put.
  kGetMany = 16,    // many_wire.h; counters see each get,
  kPutMany = 17,    // likewise each put.
  kBatch = 18,      // batch_wire.h
  kBatchPiece = 19,
};
inline constexpr size_t kMethods = 15;  // Numbers of those that are counted are below; 0 is none.

// "get", "put_begin": for people and counters. Empty for a number that is no method.
[[nodiscard]] std::string_view name(Method method) noexcept;

// What one session may hold open at the owner.
inline constexpr size_t kUploadsPerSession = 16;
inline constexpr size_t kViewsPerSession = 16;
inline constexpr size_t kStagedKeysPerSession = 4;
// Of all its uploads, and of all its views; one alone may be larger. Enough for a path of 10 ms at 5 GB/s.
inline constexpr uint64_t kOpenBytesPerSession = uint64_t{64} << 20;
inline constexpr size_t kBodyBytesMin = 512;  // A channel must carry these.

// Which key a call is about. It stands behind the struct it is part of, unless it was staged.
struct KeyRef {
  uint16_t key_bytes;    // 1 to 65,535.
  uint8_t staged;        // 0: inline. Else 1 + the place, which the call empties.
  uint8_t flags;         // Those of the constants below that the method knows.
  uint32_t value_bytes;  // Of kPut and kPutBegin, else 0.

  static constexpr uint8_t kIfAbsent = 1;  // kPut, kPutBegin.
  // kGet, kPutBegin: the answer says where one-sided requests reach the value. Sent only over channels that
  // say one_sided_bytes_min.
  static constexpr uint8_t kWantsWindow = 2;
  // kPut, kPutBegin, kErase: an Identity stands between the fixed part and the key.
  static constexpr uint8_t kIdentified = 4;
};
static_assert(sizeof(KeyRef) == 8 && offsetof(KeyRef, staged) == 2 && offsetof(KeyRef, value_bytes) == 4);

// Whose write it is, so that a repetition is recognised (RequestId).
struct Identity {
  uint64_t client;    // Not 0.
  uint64_t sequence;  // Not 0.
  // 0: it is sent for the first time. Else 1 + how long before this session was opened it was first sent, in
  // nanoseconds of the caller's clock; 1 if it was sent over this session already.
  uint64_t repeats_ns;
};
static_assert(sizeof(Identity) == 24 && offsetof(Identity, repeats_ns) == 16);

// kGet, kExists: KeyRef | key.
struct GetReply {  // | the value's first bytes: all of them where view is 0.
  uint64_t version;
  uint64_t value_bytes;      // Of the whole value.
  uint64_t expires_wall_ns;  // 0: never.
  uint64_t view;             // Fetch the rest with kViewPiece, then kViewClose.
};
static_assert(sizeof(GetReply) == 32 && offsetof(GetReply, view) == 24);

// Where the value lies for one READ or WRITE, as long as the view or upload is open. Behind GetReply where a
// window was wanted and there is a view, behind kPutBegin's Handle where one was wanted. With a key no bytes
// of the value follow; without one (address and key 0) everything is as if no window had been wanted.
struct WindowReply {
  uint64_t address;  // RemotePointer::bits
  uint64_t key;      // RemoteKey::bits
};
static_assert(sizeof(WindowReply) == 16);

struct ExistsReply {
  uint64_t version;
  uint64_t value_bytes;
  uint64_t expires_wall_ns;
};
static_assert(sizeof(ExistsReply) == 24);

// kPut: PutRequest | key | value. kPutBegin: PutRequest | key.
struct PutRequest {
  KeyRef key;
  uint64_t if_version;  // 0: any.
  uint64_t ttl_ns;      // From the moment the owner sees this request; 0: never expires.
};
static_assert(sizeof(PutRequest) == 24 && offsetof(PutRequest, if_version) == 8);

// kPut, kPutCommit and kErase: the version that was made, or that was erased.
struct VersionReply {
  uint64_t version;
};
static_assert(sizeof(VersionReply) == 8);

struct EraseRequest {  // | key
  KeyRef key;
  uint64_t if_version;
};
static_assert(sizeof(EraseRequest) == 16);

struct AlreadyPutReply {  // To kPutBegin, of a write that has been executed already: nothing is open.
  uint64_t no_upload;     // 0
  uint64_t version;
};
static_assert(sizeof(AlreadyPutReply) == 16);

// kPutBegin's reply, and the request of kPutCommit, kPutAbandon and kViewClose. A commit follows its WRITEs
// at once: the channel's order lets them take effect first.
struct Handle {
  uint64_t id;  // Never 0, never used again, across restarts too.
};
static_assert(sizeof(Handle) == 8);

struct PutPieceRequest {  // | bytes
  uint64_t upload;
  uint64_t offset;  // In the value. Pieces follow on each other.
};
static_assert(sizeof(PutPieceRequest) == 16);

struct ViewPieceRequest {
  uint64_t view;
  uint64_t offset;
  uint64_t bytes;  // All of them come, or kInvalidArgument.
};
static_assert(sizeof(ViewPieceRequest) == 24);

// Offset 0 begins a key in the place; a piece elsewhere must follow on what is there.
struct StageKeyRequest {  // | bytes
  uint8_t place;
  uint8_t reserved;
  uint16_t offset;
  uint32_t reserved_end;
};
static_assert(sizeof(StageKeyRequest) == 8 && offsetof(StageKeyRequest, offset) == 2);

struct ScanRequest {
  uint64_t cursor;    // 0: from the beginning. See scan_cursor.h.
  uint64_t keys_min;  // The page ends once it has so many keys, or the owner has worked long enough.
};
static_assert(sizeof(ScanRequest) == 16);

// A page can be longer than a frame: then it is read through a view like a value.
struct ScanReply {  // | the page's first bytes: all of them where view is 0.
  uint64_t next;    // Where the next page begins; 0: this was the last.
  uint64_t page_bytes;
  uint64_t view;
  uint32_t keys;  // May be 0 although more pages follow.
  uint32_t reserved;
};
static_assert(sizeof(ScanReply) == 32 && offsetof(ScanReply, keys) == 24);

struct ScanEntry {  // | key; the next follows at once, at any alignment.
  uint64_t version;
  uint32_t value_bytes;
  uint16_t key_bytes;
  uint16_t reserved;
};
static_assert(sizeof(ScanEntry) == 16 && offsetof(ScanEntry, key_bytes) == 12);

struct PingRequest {
  uint64_t nonce;
};
struct PingReply {
  uint64_t nonce;
  uint64_t wall_ns;  // Of the owner: remote readers compare expiry times with it.
};
static_assert(sizeof(PingRequest) == 8 && sizeof(PingReply) == 16);

// Later versions append words; a reader takes what it knows.
struct StatReply {
  uint64_t uptime_ns;
  uint64_t connections;
  uint64_t entries;
  uint64_t expiring_entries;
  uint64_t expired;
  uint64_t buckets;
  uint64_t overflow_lines;
  uint64_t splits;
  uint64_t bytes_total;
  uint64_t bytes_free;
  uint64_t bytes_live;
  uint64_t bytes_retired;
  uint64_t buffers_live;
  uint64_t stamps_given;
  uint64_t uploads;
  uint64_t views;
  uint64_t waiting_for_memory;
  uint64_t ops[kMethods];  // Served since the start, by method number.
  uint64_t upload_bytes;   // Held now: of values on their way in,
  uint64_t view_bytes;     // pinned for those on their way out,
  uint64_t waiting_bytes;  // of writes that wait for memory.
  uint64_t waiting_scans;
  uint64_t overloaded;        // Calls refused for too much at a time.
  uint64_t repeated;          // Identified writes answered without executing them,
  uint64_t indeterminate;     // those among them whose outcome was not known.
  uint64_t deferred_replies;  // They found their channel full.
  uint64_t closed_malformed;  // Sessions: for bytes that make no sense, for more calls than granted; refused.
  uint64_t closed_overrun;
  uint64_t refused_sessions;
  uint64_t batches;  // Executed; below, those of which a condition did not hold.
  uint64_t batches_refused;
  uint64_t evicted;  // Entries removed so that others had room.
};
inline constexpr size_t kStatBytesMin = 32 * 8;  // The first version ended with `ops`.
static_assert(sizeof(StatReply) == 46 * 8 && offsetof(StatReply, upload_bytes) == kStatBytesMin);

// A struct from the front of `body`, which then holds the rest; nothing: it is too short. Copied once.
template <typename T>
  requires(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>)
[[nodiscard]] std::optional<T> take(std::span<const std::byte>& body) noexcept {
  if (body.size() < sizeof(T)) return std::nullopt;
  T value;
  copy_possibly_torn(&value, body.data(), sizeof(T));
  body = body.subspan(sizeof(T));
  return value;
}

}  // namespace refract::kv::wire
