// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/crowds.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "refract/base/check.h"
#include "refract/kv/layout/scan_cursor.h"
#include "refract/kv/layout/slot_match.h"

namespace refract::kv {
namespace {

// Lines whose slots, and lines whose entries, are fetched ahead.
constexpr uint64_t kLinesAhead = 8;
constexpr uint64_t kEntriesAhead = 4;

// Numbers that a cursor's bits can say besides 0, which is a bucket's beginning.
constexpr uint64_t kPieceNumbers = (uint64_t{1} << kCursorPieceBits) - 1;

}  // namespace

std::span<const std::byte> key_in_slot(const Writer& writer, Slot slot) noexcept {
  const Offset buffer = slot.buffer();
  const Lengths lengths = Lengths::from_word(writer.load(buffer.plus(offsetof(BufferHeader, lengths))));
  return {writer.at(buffer.plus(lengths.key_at())), lengths.key_bytes};
}

Crowds::Crowds(const Writer& writer, uint64_t birth)
    : writer_(writer), birth_(birth), secret_(SecretKey::draw()) {}

uint64_t Crowds::first_piece(uint64_t bucket) const noexcept {
  return mix(birth_ ^ mix(bucket)) % kPieceNumbers;
}

uint64_t Crowds::piece_bits(uint64_t bucket, uint64_t piece) const noexcept {
  return piece == 0 ? 0 : 1 + (first_piece(bucket) + piece) % kPieceNumbers;
}

std::optional<uint64_t> Crowds::piece_of(uint64_t bucket, uint64_t piece_bits) const noexcept {
  if (piece_bits == 0) return 0;
  const uint64_t piece = (piece_bits - 1 + kPieceNumbers - first_piece(bucket)) % kPieceNumbers;
  if (piece == 0 || piece > pieces_max_) return std::nullopt;
  return piece;
}

Crowd* Crowds::look_up(uint64_t bucket) noexcept {
  const auto found = crowds_.find(bucket);
  return found == crowds_.end() ? nullptr : &found->second;
}

uint64_t Crowds::bytes() const noexcept {
  uint64_t bytes = sizeof(*this) + index_.bytes();
  for (const auto& [bucket, crowd] : crowds_) {
    bytes += sizeof(crowd) + crowd.lines_.capacity() * sizeof(Offset) + crowd.free_.capacity() * 8;
  }
  return bytes;
}

void Crowds::note_lines(const Crowd& crowd) noexcept {
  pieces_max_ = std::max<uint64_t>(pieces_max_, crowd.lines_.size() / kLinesPerPiece + 1);
}

void Crowds::push_free(Crowd& crowd, ChainPlace place) const {
  crowd.free_.push_back(place.number);
  std::ranges::push_heap(crowd.free_, std::greater{});
}

void Crowds::pop_free(Crowd& crowd) {
  std::ranges::pop_heap(crowd.free_, std::greater{});
  crowd.free_.pop_back();
}

Crowd& Crowds::gather(uint64_t bucket, Offset first) {
  Crowd& crowd = crowds_.try_emplace(bucket).first->second;
  REFRACT_CHECK(crowd.lines_.empty());
  ++crowds_at_[bucket % crowds_at_.size()];
  for (Offset line = first; line; line = {writer_.load(line.plus(kOverflowWord * sizeof(Slot)))}) {
    crowd.lines_.push_back(line);
  }
  for (uint64_t n = 0; n < crowd.lines_.size(); ++n) {
    look_ahead(crowd.lines_, n);
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const ChainPlace place = ChainPlace::of(n, i);
      const Slot slot{writer_.load(crowd.at(place))};
      if (slot) {
        index_.add(secret_(key_in_slot(writer_, slot)), place.number);
      } else {
        crowd.free_.push_back(place.number);  // In order, so that it is a heap.
      }
    }
  }
  note_lines(crowd);
  return crowd;
}

void Crowds::dissolve(uint64_t bucket) {
  Crowd* const crowd = look_up(bucket);
  REFRACT_CHECK(crowd != nullptr);
  for (uint64_t n = 0; n < crowd->lines_.size(); ++n) {
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const ChainPlace place = ChainPlace::of(n, i);
      const Slot slot{writer_.load(crowd->at(place))};
      if (slot) (void)index_.remove(secret_(key_in_slot(writer_, slot)), place.number);
    }
  }
  --crowds_at_[bucket % crowds_at_.size()];
  crowds_.erase(bucket);
}

bool Crowds::is_at(Offset slot_at, std::span<const std::byte> key) const noexcept {
  if (!slot_at) return false;
  const Slot slot{writer_.load(slot_at)};
  if (!slot) return false;
  const auto other = key_in_slot(writer_, slot);
  return other.size() == key.size() && std::memcmp(other.data(), key.data(), key.size()) == 0;
}

Offset Crowds::find(const Crowd& crowd, std::span<const std::byte> key) const {
  const auto place =
      index_.find(secret_(key), [&](uint64_t number) { return is_at(crowd.at(ChainPlace{number}), key); });
  return place ? crowd.at(ChainPlace{*place}) : Offset{};
}

void Crowds::prefetch_entry(const Crowd& crowd, std::span<const std::byte> key) const noexcept {
  (void)index_.find(secret_(key), [&](uint64_t number) {
    const Offset at = crowd.at(ChainPlace{number});
    if (!at) return false;
    const Slot slot{writer_.load(at)};
    __builtin_prefetch(writer_.at(slot.buffer()));
    __builtin_prefetch(writer_.at(slot.buffer()) + kLineBytes);
    return true;
  });
}

Offset Crowds::free_slot(Crowd& crowd) const {
  while (!crowd.free_.empty()) {
    const Offset at = crowd.at(ChainPlace{crowd.free_.front()});
    if (at && writer_.load(at) == 0) return at;
    // Its line was trimmed, and perhaps came back with a place of its own.
    pop_free(crowd);
  }
  return {};
}

void Crowds::linked(Crowd& crowd, Offset line) {
  crowd.lines_.push_back(line);
  for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
    push_free(crowd, ChainPlace::of(crowd.lines_.size() - 1, i));
  }
  note_lines(crowd);
}

void Crowds::stored(Crowd& crowd, std::span<const std::byte> key) {
  REFRACT_CHECK(!crowd.free_.empty());
  const uint64_t place = crowd.free_.front();
  while (!crowd.free_.empty() && crowd.free_.front() == place) pop_free(crowd);
  index_.add(secret_(key), place);
}

void Crowds::removing(Crowd& crowd, std::span<const std::byte> key, Offset slot_at) {
  const uint64_t hash = secret_(key);
  const auto place = index_.find(hash, [&](uint64_t number) { return crowd.at({number}) == slot_at; });
  // Only a key that has changed in memory is not found; then its slot stays empty.
  if (!place) return;
  (void)index_.remove(hash, *place);
  push_free(crowd, ChainPlace{*place});
}

void Crowds::removing(Crowd& crowd, std::span<const std::byte> key, ChainPlace place) {
  if (index_.remove(secret_(key), place.number)) push_free(crowd, place);
}

std::optional<uint64_t> Crowds::take_untrimmed() noexcept {
  if (untrimmed_.empty()) return std::nullopt;
  const uint64_t bucket = untrimmed_.back();
  untrimmed_.pop_back();
  return bucket;
}

void Crowds::look_ahead(std::span<const Offset> lines, uint64_t line) const noexcept {
  if (line + kLinesAhead < lines.size()) __builtin_prefetch(writer_.at(lines[line + kLinesAhead]));
  if (line + kEntriesAhead >= lines.size()) return;
  for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
    const Slot slot{writer_.load(lines[line + kEntriesAhead].plus(i * sizeof(Slot)))};
    if (slot) __builtin_prefetch(writer_.at(slot.buffer()));
  }
}

}  // namespace refract::kv
