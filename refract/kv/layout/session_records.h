// SPDX-License-Identifier: Apache-2.0
// What a space keeps of clients that number their writes (docs/design/077-numbered-writes.md): a list of
// sessions from kSessionsAt on, each with blocks of records.
//
//   root (TableRoot + 96) --next--> session's block --next_session--> session's block --> ...
//                                        |next_block
//                                        v
//                                   further block --> ...
//
// The owner alone reads and writes them; a restart finds them as a kill has left them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "refract/base/result.h"
#include "refract/kv/layout/layout.h"

namespace refract::kv {

// Offset of the first session's block; 0: there is none. One of TableRoot's reserved words.
inline constexpr Offset kSessionsAt{kRootAt.value + offsetof(TableRoot, reserved)};
static_assert(kSessionsAt.value == 224);

// First half of the SHA-256 of a session's secret: all clients of the host map the space.
using SecretDigest = std::array<uint64_t, 2>;

struct SessionHead {
  uint64_t stamp;         // 0, as of a buffer that is being written: for a reader that was led here long ago.
  uint64_t kind;          // kSession, kFurther: no entry's lengths have these bits.
  uint64_t next_block;    // Offset of the session's next block; 0: none.
  uint64_t next_session;  // Of kSession; likewise.
  uint64_t id;            // Of kSession, likewise the next. Never 0.
  SecretDigest secret;
  uint64_t reserved;

  static constexpr uint64_t kSession = 0xf000'0000'0000'0001;
  static constexpr uint64_t kFurther = 0xf000'0000'0000'0002;
};
static_assert(sizeof(SessionHead) == kLineBytes && offsetof(SessionHead, kind) == 8 &&
              offsetof(SessionHead, id) == 32 && offsetof(SessionHead, secret) == 40);
static_assert(!Lengths::from_word(SessionHead::kSession).is_sound() &&
              !Lengths::from_word(SessionHead::kFurther).is_sound());

// Numbers are below 2^48, and 0 is none.
inline constexpr uint64_t kNumberMax = (uint64_t{1} << 48) - 1;

// A record's first word: the number, and the code that was answered. All 0: the place is free.
struct RecordName {
  uint64_t bits = 0;

  [[nodiscard]] static constexpr RecordName of(uint64_t number, Code code) noexcept {
    return {number | static_cast<uint64_t>(code) << 48};
  }
  [[nodiscard]] constexpr uint64_t number() const noexcept { return bits & kNumberMax; }
  [[nodiscard]] constexpr uint64_t code() const noexcept { return bits >> 48; }
};

// Its second one.
struct RecordState {
  uint64_t bits = 0;

  enum class Word : uint8_t { kSlot = 0, kDecision = 1 };
  static constexpr uint64_t kMarked = uint64_t{1} << 56;

  [[nodiscard]] static constexpr RecordState open(Offset word_at, Word word, uint8_t answer_bytes) noexcept {
    return {word_at.value | uint64_t{static_cast<uint8_t>(word)} << 40 | uint64_t{answer_bytes} << 48};
  }
  [[nodiscard]] constexpr RecordState marked() const noexcept { return {bits | kMarked}; }
  [[nodiscard]] constexpr bool is_marked() const noexcept { return bits >> 56 == 1; }
  [[nodiscard]] constexpr Offset word_at() const noexcept { return {bits & ((uint64_t{1} << 40) - 1)}; }
  [[nodiscard]] constexpr Word word() const noexcept { return static_cast<Word>(bits >> 40 & 0xff); }
  [[nodiscard]] constexpr uint8_t answer_bytes() const noexcept { return bits >> 48 & 0xff; }
  // Whatever the word leads to.
  [[nodiscard]] constexpr bool is_sound() const noexcept {
    return bits >> 56 <= 1 && answer_bytes() <= 32 && word() <= Word::kDecision;
  }
};

// Of one numbered write. It is open from in front of its change until directly behind it; then it is marked.
struct SessionRecord {
  uint64_t name;                     // RecordName, stored last.
  uint64_t state;                    // RecordState.
  uint64_t stamp;                    // Of the change; 0: there is none.
  uint64_t before;                   // What the word was.
  std::array<std::byte, 32> answer;  // Of an erasure the version erased, of an error which one.
};
static_assert(sizeof(SessionRecord) == kLineBytes && offsetof(SessionRecord, state) == 8 &&
              offsetof(SessionRecord, stamp) == 16 && offsetof(SessionRecord, before) == 24 &&
              offsetof(SessionRecord, answer) == 32);

inline constexpr uint64_t kRecordsPerBlock = 63;
inline constexpr uint64_t kBlocksPerSession = 16;
inline constexpr uint64_t kRecordsPerSession = kRecordsPerBlock * kBlocksPerSession;

struct SessionBlock {
  SessionHead head;
  std::array<SessionRecord, kRecordsPerBlock> records;
};
static_assert(sizeof(SessionBlock) == 4096 && offsetof(SessionBlock, records) == kLineBytes);
static_assert(std::has_unique_object_representations_v<SessionBlock>);

// A record's place in its session: of the first block, then of the next, in the order in which they lead to
// each other, which stays.
inline constexpr uint16_t kPlaceUnknown = 0xffff;
static_assert(kRecordsPerSession <= kPlaceUnknown);

}  // namespace refract::kv
