// SPDX-License-Identifier: Apache-2.0
// How objects lie in the space of an object shard: a table of records, and bodies out of place.
//
//   table    the key-value store's (kv/layout/layout.h); a key is a kind and what it is about, a value a
//   record object   header 64 | body | padding to 8 | metadata | id          starts at a multiple of 64 bytes
//
// The invariants that readers rely on; docs/design/050-objects.md argues them. (O1) A record of kind kSealed
// is stored after the last byte of its object, and no byte of the object changes from then on until its
// memory is given back, but for the header's word of copies, which no reader looks at. (O2) Memory is given
// back only when no record of any kind names it and no pin does: the owner first removes the record, then
// fences, then looks at the pins. A reader first announces its pin, then looks again whether the record still
// stands. So one of the two sees the other. (O3) Every object whose memory is in use is named by a record:
// kSealed, kCreation, or kDeparted, which is stored before the record that it follows is removed. So a server
// that was killed finds them all. docs/formats/objects.md has a worked example: the golden test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"

namespace refract::object {

inline constexpr size_t kIdBytesMax = 255;
inline constexpr uint32_t kMetadataBytesMax = 64 * kKiB;
inline constexpr uint64_t kBodyAlignment = 64;

// The first byte of a key in the shard's table.
enum class KeyKind : uint8_t {
  kSealed = 'o',    // | id: the object that readers find.
  kCreation = 'c',  // | id: one that is being filled. One an id.
  kDeparted = 'd',  // | object_at, 8 bytes: one that has no id any more, and may be held.
  // | birth, 8 bytes | id: this birth was deleted on all nodes, and is refused until they all know. Its
  // record has the birth, and names no object.
  kTombstone = 't',
};

// What the table has of an object; its key says of which kind.
struct ObjectRecord {
  uint64_t object_at;  // Offset of its header. What holders pin.
  uint64_t birth;      // Drawn at random by its creator: two objects of one id differ in it. Never 0.
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint32_t flags;

  static constexpr uint32_t kKept = 1;  // Is never evicted.
};
static_assert(sizeof(ObjectRecord) == 32 && offsetof(ObjectRecord, metadata_bytes) == 24);
static_assert(std::has_unique_object_representations_v<ObjectRecord>);

inline constexpr uint8_t kCopiesMax = 16;

// How many nodes are to keep a copy of an object, as a number whose comparison says which wish is the later
// one. The home of the id counts the changes; a copy that has such a word with `wanted` > 0 is bound: it is
// never evicted. docs/design/054-copies.md
struct CopiesWord {
  uint32_t bits = 0;

  static constexpr uint32_t kVersionMax = (uint32_t{1} << 24) - 1;
  [[nodiscard]] static constexpr CopiesWord of(uint32_t version, uint8_t wanted) noexcept {
    return {version << 8 | wanted};
  }
  [[nodiscard]] constexpr uint32_t version() const noexcept { return bits >> 8; }
  [[nodiscard]] constexpr uint8_t wanted() const noexcept { return static_cast<uint8_t>(bits); }
  [[nodiscard]] constexpr bool is_bound() const noexcept { return wanted() > 0; }
  [[nodiscard]] constexpr bool is_sound() const noexcept { return wanted() <= kCopiesMax; }
  auto operator<=>(const CopiesWord&) const = default;
};

struct ObjectHeader {
  uint64_t stamp;  // Of the heap, drawn when room was taken.
  uint64_t mark;   // kObjectMark: no kv::Lengths is these bytes.
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint16_t id_bytes;
  uint16_t flags;
  uint64_t copies;  // CopiesWord. Of each node its own.
  uint64_t reserved_end[2];

  static constexpr uint16_t kPulled = 1;  // Its bytes come, or came, from another node.
};
static_assert(sizeof(ObjectHeader) == kBodyAlignment && offsetof(ObjectHeader, metadata_bytes) == 32);
static_assert(std::has_unique_object_representations_v<ObjectHeader>);

// "object" and two zero bytes. It stands where a buffer of the table has its lengths, and is not sound as
// such: so what looks for the table's buffers behind pins passes over objects.
inline constexpr uint64_t kObjectMark = 0x0000'7463'656a'626f;
static_assert(!kv::Lengths::from_word(kObjectMark).is_sound());

// Where the parts of an object lie, from its header on.
struct ObjectParts {
  uint64_t body_bytes = 0;
  uint32_t metadata_bytes = 0;
  uint16_t id_bytes = 0;

  [[nodiscard]] static constexpr uint64_t body_at() noexcept { return sizeof(ObjectHeader); }
  [[nodiscard]] constexpr uint64_t metadata_at() const noexcept {
    return (body_at() + body_bytes + 7) / 8 * 8;
  }
  [[nodiscard]] constexpr uint64_t id_at() const noexcept { return metadata_at() + metadata_bytes; }
  [[nodiscard]] constexpr uint64_t total_bytes() const noexcept {
    return (id_at() + id_bytes + kBodyAlignment - 1) / kBodyAlignment * kBodyAlignment;
  }
  // Body, padding and metadata: what a creator fills, in one piece.
  [[nodiscard]] constexpr uint64_t filled_bytes() const noexcept { return id_at() - body_at(); }
  // What counts against the limit.
  [[nodiscard]] constexpr uint64_t counted_bytes() const noexcept { return body_bytes + metadata_bytes; }
};

}  // namespace refract::object
