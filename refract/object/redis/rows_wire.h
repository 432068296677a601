// SPDX-License-Identifier: Apache-2.0
// What a directory keeps in Redis, byte for byte: docs/formats/directory-in-redis.md, whose examples are the
// golden test.
//
// Little endian, no padding, reserved fields are 0. What is read was written by another node, or by anything
// that may write there: it is copied out once, then checked, then used.
#pragma once

#include <cstdint>
#include <string_view>

namespace refract::object::wire {

inline constexpr uint16_t kRowsVersion = 2;
inline constexpr size_t kRunBytes = 40;

// The field "g": the streams of all members. Behind it a StreamState for each member of the list.
struct StateHead {
  char run[kRunBytes]{};  // Redis's run_id; 0 behind a shorter one.
  uint64_t change = 0;    // Another one at each change, the first by chance.
  uint64_t list_version = 0;
  uint64_t list_digest = 0;  // As members say it in their hello.
  uint16_t version = kRowsVersion;
  uint8_t members = 0;
  uint8_t is_complete = 0;
  uint8_t reserved[4]{};
};
static_assert(sizeof(StateHead) == 72);
// By which a change of the state is noticed: run and change.
inline constexpr size_t kStateStampBytes = kRunBytes + sizeof(uint64_t);

struct StreamState {
  uint64_t identity[2]{};     // Of the member's memory.
  uint32_t stream = 0;        // Its last one; 0: there was none.
  uint32_t first_stream = 0;  // Of that memory: what was said in an earlier one is void.
  uint8_t is_current = 0;     // It stands, and its report has ended.
  uint8_t reserved[7]{};
};
static_assert(sizeof(StreamState) == 32);

// The field "r" and an id: births, each with its words, then tombstones, each with its own.
struct RowHead {
  uint16_t version = kRowsVersion;
  uint16_t births = 0;
  uint16_t tombstones = 0;
  uint16_t reserved = 0;
};
static_assert(sizeof(RowHead) == 8);

inline constexpr uint8_t kWasHeld = 1;
inline constexpr uint8_t kIsClaimed = 2;

struct RowBirth {
  uint64_t birth = 0;
  uint64_t body_bytes = 0;
  uint32_t metadata_bytes = 0;
  uint16_t id_bytes = 0;
  uint8_t words = 0;
  uint8_t flags = 0;
  uint32_t claim_stream = 0;
  uint8_t claim_member = 0;
  uint8_t reserved[3]{};
  uint32_t wish = 0;  // CopiesWord: so many copies are to be bound.
  uint32_t reserved_too = 0;
};
static_assert(sizeof(RowBirth) == 40);

struct RowTombstone {
  uint64_t birth = 0;
  uint8_t words = 0;  // Of members that have acknowledged it.
  uint8_t reserved[7]{};
};
static_assert(sizeof(RowTombstone) == 16);

struct RowWord {
  uint32_t stream = 0;
  uint8_t member = 0;
  uint8_t is_coming = 0;
  uint16_t reserved = 0;
  uint32_t copies = 0;  // CopiesWord of the member's copy.
};
static_assert(sizeof(RowWord) == 12);

// A message of the channel; the id is behind it.
enum class NewsKind : uint8_t {
  kDrop = 1,
  kForget = 2,
  kAppeared = 3,
  kDropped = 4,  // By `member`; so many processes held its memory.
};
struct News {
  uint64_t birth = 0;
  uint64_t holders = 0;
  NewsKind kind{};
  uint8_t member = 0;
  uint8_t reserved[6]{};
};
static_assert(sizeof(News) == 24);

// Of fields of the hash.
inline constexpr std::string_view kStateField = "g";
inline constexpr std::string_view kLingeringField = "l";
inline constexpr char kRowPrefix = 'r';

}  // namespace refract::object::wire
