// SPDX-License-Identifier: Apache-2.0
// How entries lie in the blocks of a snapshot, and how they get there and back (docs/formats/snapshot.md).
//
//   kEntries  entry | entry | ...           each: stamp 8, lengths 8, [expiry 8], [identity 16], key, value,
//                                           zero bytes up to a multiple of 8
//   kPiece    stamp 8 | lengths 8 | value offset 8 | [expiry 8] [identity 16] key | bytes of the value
//
// An entry is what its buffer in the table is, without the padding in front of a large value, so that either
// way is one copy. One that is too large for a block is a row of pieces in consecutive blocks; only the first
// has expiry, identity and key. Blocks are checked as a whole by the layer that keeps them
// (storage/snapshot/snapshot_file.h), so that there are no checksums here; still, any bytes are safe to
// decode.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/snapshot/snapshot_walk.h"

namespace refract::kv {

inline constexpr size_t kSnapshotBlockBytes = 1 << 20;

enum class SnapshotBlockKind : uint16_t {
  kEntries = 1,
  kPiece = 2,
  // 3 to 5 are storage::kSnapshotHosted, kSnapshotDecided, kSnapshotPrepared, and not for the reader here.
};

struct SnapshotBlock {
  SnapshotBlockKind kind = SnapshotBlockKind::kEntries;
  uint32_t entries = 0;  // Of kPiece: 1 in the last.
  std::span<const std::byte> bytes;
};

// Takes blocks in their order.
class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  // May block, for the disk's sake or to keep to a pace. The bytes are the caller's again afterwards.
  // Anything but kOk ends the snapshot, and comes back as its code.
  [[nodiscard]] virtual Code write(const SnapshotBlock& block) = 0;
};

struct SnapshotPieceHeader {
  uint64_t stamp;
  uint64_t lengths;  // Lengths::word()
  uint64_t value_offset;
};
static_assert(sizeof(SnapshotPieceHeader) == 24);

class SnapshotBlockWriter {
 public:
  explicit SnapshotBlockWriter(SnapshotSink& sink) : sink_(sink), bytes_(kSnapshotBlockBytes) {}

  template <typename Memory>
  [[nodiscard]] Code put(Memory& memory, const SnapshotSource& source);
  // Writes what has come together.
  [[nodiscard]] Code flush();

 private:
  template <typename Memory>
  [[nodiscard]] Code put_pieces(Memory& memory, const SnapshotSource& source);

  SnapshotSink& sink_;
  std::vector<std::byte> bytes_;
  size_t used_ = 0;
  uint32_t entries_ = 0;
};

struct SnapshotEntry {
  uint64_t stamp = 0;
  uint64_t expires_wall_ns = 0;
  RequestId request;
  std::span<const std::byte> key;
  std::span<const std::byte> value;
};

// Takes blocks apart. Spans of an entry lead into the block, or, of one that came in pieces, into the reader,
// until the next call.
class SnapshotBlockReader {
 public:
  // The next block in order. kMalformed: these are no bytes of a snapshot, or not at this place.
  [[nodiscard]] Result<> begin(const SnapshotBlock& block);
  // kNotFound: the block has no more. kMalformed: likewise, as with begin().
  [[nodiscard]] Result<> next(SnapshotEntry& entry);
  // Whether pieces are missing at the end.
  [[nodiscard]] bool is_complete() const noexcept { return large_.empty() || large_is_whole_; }

 private:
  [[nodiscard]] Result<> take_piece();
  [[nodiscard]] bool take_fields(const Lengths& lengths, std::span<const std::byte>& from,
                                 SnapshotEntry& entry) const noexcept;

  std::span<const std::byte> rest_;
  uint32_t entries_left_ = 0;
  // Of an entry in pieces: its fields and value so far.
  std::vector<std::byte> large_;
  uint64_t large_stamp_ = 0;
  Lengths large_lengths_;
  bool large_is_whole_ = false;
};

template <typename Memory>
Code SnapshotBlockWriter::put(Memory& memory, const SnapshotSource& source) {
  const Lengths& lengths = source.lengths;
  const uint64_t fields_bytes = lengths.key_at() + lengths.key_bytes;
  const uint64_t bytes = (fields_bytes + lengths.value_bytes + 7) / 8 * 8;
  if (bytes > bytes_.size()) return put_pieces(memory, source);
  if (bytes > bytes_.size() - used_) {
    if (const Code code = flush(); code != Code::kOk) return code;
  }
  std::byte* const place = bytes_.data() + used_;
  std::memset(place + bytes - 8, 0, 8);
  if (lengths.value_at() == fields_bytes) {
    memory.copy(place, source.buffer, lengths.total_bytes());
  } else {
    memory.copy(place, source.buffer, fields_bytes);
    memory.copy(place + fields_bytes, source.buffer.plus(lengths.value_at()), lengths.value_bytes);
  }
  // The buffer's own may say that a batch wrote it.
  const uint64_t word = lengths.word();
  std::memcpy(place + offsetof(BufferHeader, lengths), &word, sizeof(word));
  used_ += bytes;
  ++entries_;
  return Code::kOk;
}

template <typename Memory>
Code SnapshotBlockWriter::put_pieces(Memory& memory, const SnapshotSource& source) {
  if (const Code code = flush(); code != Code::kOk) return code;
  const Lengths& lengths = source.lengths;
  SnapshotPieceHeader header{.stamp = source.stamp, .lengths = lengths.word(), .value_offset = 0};
  do {
    uint64_t used = sizeof(header);
    std::memcpy(bytes_.data(), &header, sizeof(header));
    if (header.value_offset == 0) {
      const uint64_t fields_bytes = lengths.key_at() + lengths.key_bytes - sizeof(BufferHeader);
      memory.copy(bytes_.data() + used, source.buffer.plus(sizeof(BufferHeader)), fields_bytes);
      used += fields_bytes;
    }
    const uint64_t piece = std::min(bytes_.size() - used, lengths.value_bytes - header.value_offset);
    memory.copy(bytes_.data() + used, source.buffer.plus(lengths.value_at() + header.value_offset), piece);
    header.value_offset += piece;
    const SnapshotBlock block{.kind = SnapshotBlockKind::kPiece,
                              .entries = header.value_offset == lengths.value_bytes ? 1U : 0U,
                              .bytes = std::span(bytes_).first(used + piece)};
    if (const Code code = sink_.write(block); code != Code::kOk) return code;
  } while (header.value_offset < lengths.value_bytes);
  return Code::kOk;
}

}  // namespace refract::kv
