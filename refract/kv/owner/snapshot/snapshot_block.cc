// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/snapshot/snapshot_block.h"

#include <algorithm>

namespace refract::kv {
namespace {

template <typename T>
[[nodiscard]] T take(std::span<const std::byte>& from) noexcept {
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  from = from.subspan(sizeof(T));
  return value;
}

}  // namespace

Code SnapshotBlockWriter::flush() {
  if (used_ == 0) return Code::kOk;
  const SnapshotBlock block{
      .kind = SnapshotBlockKind::kEntries, .entries = entries_, .bytes = std::span(bytes_).first(used_)};
  used_ = 0;
  entries_ = 0;
  return sink_.write(block);
}

Result<> SnapshotBlockReader::begin(const SnapshotBlock& block) {
  if (!rest_.empty() || entries_left_ != 0) return fail(Code::kMalformed);
  rest_ = block.bytes;
  if (large_is_whole_) {
    large_.clear();
    large_is_whole_ = false;
  }
  if (block.kind == SnapshotBlockKind::kPiece) {
    const Result<> taken = take_piece();
    rest_ = {};
    if (!taken) return taken;
    if (block.entries != (large_is_whole_ ? 1U : 0U)) return fail(Code::kMalformed);
  } else if (block.kind != SnapshotBlockKind::kEntries || !large_.empty() || block.entries == 0) {
    rest_ = {};
    return fail(Code::kMalformed);
  }
  entries_left_ = block.entries;
  return {};
}

Result<> SnapshotBlockReader::take_piece() {
  if (rest_.size() < sizeof(SnapshotPieceHeader)) return fail(Code::kMalformed);
  const auto header = take<SnapshotPieceHeader>(rest_);
  const Lengths lengths = Lengths::from_word(header.lengths);
  if (!lengths.is_sound() || header.stamp == 0) return fail(Code::kMalformed);
  const uint64_t fields_bytes = lengths.key_at() + lengths.key_bytes - sizeof(BufferHeader);
  const uint64_t bytes = fields_bytes + lengths.value_bytes;
  if (large_.empty() != (header.value_offset == 0)) return fail(Code::kMalformed);
  if (large_.empty()) {
    // The room is not taken by what a header claims, but as bytes come.
    if (rest_.size() <= fields_bytes || rest_.size() > bytes) return fail(Code::kMalformed);
    large_stamp_ = header.stamp;
    large_lengths_ = lengths;
  } else if (header.stamp != large_stamp_ || lengths.word() != large_lengths_.word() || rest_.empty() ||
             header.value_offset != large_.size() - fields_bytes || rest_.size() > bytes - large_.size()) {
    return fail(Code::kMalformed);
  }
  large_.insert(large_.end(), rest_.begin(), rest_.end());
  large_is_whole_ = large_.size() == bytes;
  return {};
}

// What stands between lengths and value. False: there are too few bytes.
bool SnapshotBlockReader::take_fields(const Lengths& lengths, std::span<const std::byte>& from,
                                      SnapshotEntry& entry) const noexcept {
  const uint64_t fields_bytes = lengths.key_at() + lengths.key_bytes - sizeof(BufferHeader);
  if (from.size() < fields_bytes + lengths.value_bytes) return false;
  entry.expires_wall_ns = 0;
  entry.request = {};
  if ((lengths.flags & Lengths::kExpires) != 0) entry.expires_wall_ns = take<uint64_t>(from);
  if ((lengths.flags & Lengths::kIdentified) != 0) {
    entry.request.client = take<uint64_t>(from);
    entry.request.sequence = take<uint64_t>(from);
  }
  entry.key = from.first(lengths.key_bytes);
  entry.value = from.subspan(lengths.key_bytes, lengths.value_bytes);
  from = from.subspan(uint64_t{lengths.key_bytes} + lengths.value_bytes);
  return true;
}

Result<> SnapshotBlockReader::next(SnapshotEntry& entry) {
  if (entries_left_ == 0) return fail(rest_.empty() ? Code::kNotFound : Code::kMalformed);
  --entries_left_;
  if (large_is_whole_) {
    std::span<const std::byte> from = large_;
    entry.stamp = large_stamp_;
    return take_fields(large_lengths_, from, entry) ? Result<>() : fail(Code::kMalformed);
  }
  if (rest_.size() < sizeof(BufferHeader)) return fail(Code::kMalformed);
  const size_t bytes_before = rest_.size();
  const auto header = take<BufferHeader>(rest_);
  const Lengths lengths = Lengths::from_word(header.lengths);
  if (header.stamp == 0 || !lengths.is_sound()) return fail(Code::kMalformed);
  entry.stamp = header.stamp;
  if (!take_fields(lengths, rest_, entry)) return fail(Code::kMalformed);
  const size_t padding = (8 - (bytes_before - rest_.size()) % 8) % 8;
  if (rest_.size() < padding) return fail(Code::kMalformed);
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (!std::ranges::all_of(rest_.first(padding), is_zero)) return fail(Code::kMalformed);
  rest_ = rest_.subspan(padding);
  return {};
}

}  // namespace refract::kv
