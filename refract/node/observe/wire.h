// SPDX-License-Identifier: Apache-2.0
// The calls by which people look at a shard from outside: what it has done, who is connected, what happens to
// each call; and by which they ask for a snapshot. docs/formats/observe.md has the table of methods and a
// worked example, which is also the golden test.
//
// Little endian, no padding, reserved fields are 0. What is told can be longer than a message: a telling is
// begun, and its rest fetched piece by piece. A telling ends with its session, with the next one that the
// session begins, or when too many are open; then the answer is kInvalidated: begin again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace refract::observe::wire {

// Numbers travel and never change. They stand apart from the store's, which are below kMethodsBegin.
inline constexpr uint16_t kMethodsBegin = 0x100;
enum class Method : uint16_t {
  kBegin = 0x100,
  kMore = 0x101,
  kTrace = 0x102,
  kSnapshot = 0x103,
};

enum class Topic : uint32_t {
  kShard = 1,        // A JSON object: state.h, ShardState.
  kConnections = 2,  // A JSON object: a page of ConnectionState.
  kCalls = 3,        // TraceHeader, then TraceRecords: what was recorded since kTrace. Ends the recording.
  kEvents = 4,       // Text: the newest events of the threads' trace rings, a line each.
};

struct BeginRequest {
  uint32_t topic;
  uint32_t reserved;
  uint64_t from;  // kConnections: the place to begin at, 0 and then each page's `next`. Else 0.
};
static_assert(sizeof(BeginRequest) == 16 && offsetof(BeginRequest, from) == 8);

struct BeginReply {  // | the first bytes: all of them where id is 0.
  uint64_t id;
  uint64_t bytes;  // Of the whole telling.
};
static_assert(sizeof(BeginReply) == 16);

struct MoreRequest {  // The reply is bytes, at least one.
  uint64_t id;
  uint64_t offset;
};
static_assert(sizeof(MoreRequest) == 16);

// Begins to record each call, for so long, from the start where a recording of this session runs. kInUse:
// another session's runs.
struct TraceRequest {
  uint64_t duration_ns;
  uint64_t records_max;  // Beyond the shard's own limit: the limit. The newest ones are kept.
};
static_assert(sizeof(TraceRequest) == 16);

struct TraceReply {
  uint64_t now_ns;  // The shard's clock.
  uint64_t records_max;
};
static_assert(sizeof(TraceReply) == 16);

// A snapshot of the shard's store, as soon as may be. The reply names the attempt that begins after the call;
// how that goes is in the shard's state (data_state.h). Who asks while one is being written gets the next,
// and so does everybody else who asks until that begins. kUnsupported: nothing is kept on disk.
struct SnapshotRequest {
  uint64_t reserved;
};
static_assert(sizeof(SnapshotRequest) == 8);

struct SnapshotReply {
  uint64_t attempt;
};
static_assert(sizeof(SnapshotReply) == 8);

struct TraceHeader {
  uint64_t started_ns;  // All times are the shard's clock: on one host the same as every process's.
  uint64_t ended_ns;
  uint64_t records;
  uint64_t lost;  // Older ones that had to give way.
};
static_assert(sizeof(TraceHeader) == 32);

enum class TraceKind : uint8_t {
  kBatch = 1,   // Calls were taken from the channels together; `call` says how many.
  kCall = 2,    // One of the batch's calls; `bytes` is its payload's length.
  kReply = 3,   // Was handed to the channel; `bytes` is the message's length. May come long after its batch.
  kWorked = 4,  // The batch is worked off; `call` says how many calls it had.
};

struct TraceRecord {
  uint64_t ns;
  uint64_t session;
  uint64_t call;  // The id that the caller chose.
  uint32_t bytes;
  uint16_t method;
  uint8_t kind;
  uint8_t code;  // kReply: the outcome.
};
static_assert(sizeof(TraceRecord) == 32 && offsetof(TraceRecord, bytes) == 24);
static_assert(std::is_trivially_copyable_v<TraceRecord>);
static_assert(std::has_unique_object_representations_v<TraceRecord>, "no padding may travel");

// "observe", ...: for people. Empty for a number that is none.
[[nodiscard]] constexpr const char* name(uint16_t method) noexcept {
  switch (static_cast<Method>(method)) {
    case Method::kBegin:
      return "observe";
    case Method::kMore:
      return "observe_more";
    case Method::kTrace:
      return "observe_trace";
    case Method::kSnapshot:
      return "observe_snapshot";
  }
  return "";
}

}  // namespace refract::observe::wire
