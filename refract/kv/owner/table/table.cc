// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/kv/layout/same_bytes.h"
#include "refract/kv/layout/slot_match.h"
#include "refract/kv/owner/numbered/session_records.h"
#include "refract/kv/owner/table/table_store.h"
#include "refract/runtime/fault.h"

namespace refract::kv {
namespace {

constexpr uint64_t kBucketsAtBirth = 16;

// The table doubles when its buckets hold this many entries on average: three quarters of their slots.
constexpr uint64_t kEntriesPerFourBuckets = 21;

// Splits an insertion pays for while the table doubles: fast enough that the unsplit half does not overfill.
constexpr int kSplitsPerInsertion = 2;

// Out of line: inlined, its registers would cost callers that never meet a crowd.
[[gnu::noinline, gnu::cold]] Crowd* look_for_crowd(Crowds& crowds, uint64_t bucket) noexcept {
  return crowds.of(bucket);
}

}  // namespace

Result<> Table::format(Writer& writer, Heap& heap) {
  const auto& header = writer.view<SpaceHeader>({0});
  const auto buckets = heap.allocate_bucket_chunk();
  if (!buckets) return fail(Code::kNoSpace);
  writer.publish({header.store_area}, buckets->value);
  writer.publish(kRootAt.plus(offsetof(TableRoot, directory)), header.store_area);
  writer.publish(kRootAt.plus(offsetof(TableRoot, directory_words)), header.chunks_max);
  writer.publish(kBucketCountAt, kBucketsAtBirth);
  return {};
}

Table::Table(Writer& writer, Heap& heap, const Clock& clock)
    : writer_(writer),
      heap_(heap),
      clock_(clock),
      hash_seed_(writer.view<SpaceHeader>({0}).hash_seed),
      directory_{writer.view<TableRoot>(kRootAt).directory},
      directory_words_(writer.view<TableRoot>(kRootAt).directory_words),
      count_(writer.load(kBucketCountAt)),
      held_back_(heap),
      sessions_(std::make_unique<SessionRecords>(writer, heap, clock)) {}

Table::~Table() = default;

uint64_t Table::hash(std::span<const std::byte> key) const noexcept {
  return hash_key(key, hash_seed_);
}

Offset Table::bucket_at(uint64_t index) const noexcept {
  const Offset chunk{writer_.load(directory_.plus(index / kBucketsPerChunk * 8))};
  return chunk.plus(index % kBucketsPerChunk * kLineBytes);
}

Offset Table::bucket_of(uint64_t hash) const noexcept {
  return bucket_at(bucket_index(hash, count_));
}

Offset Table::line_behind(Offset line) const noexcept {
  return {writer_.load(line.plus(kOverflowWord * sizeof(Slot)))};
}

Code Table::room_in_log(uint64_t key_bytes, uint64_t value_bytes) const noexcept {
  return log_ == nullptr ? Code::kOk : log_->room_for(key_bytes, value_bytes);
}

Lengths Table::lengths_of(Slot slot) const noexcept {
  return Lengths::from_word(writer_.load(slot.buffer().plus(offsetof(BufferHeader, lengths))));
}

std::span<const std::byte> Table::key_of(Slot slot) const noexcept {
  const Lengths lengths = lengths_of(slot);
  return {writer_.at(slot.buffer().plus(lengths.key_at())), lengths.key_bytes};
}

uint64_t Table::expiry_of(Slot slot) const noexcept {
  return slot.expires() ? writer_.load(slot.buffer().plus(kExpiryAt)) : 0;
}

RequestId Table::identity_of(Slot slot) const noexcept {
  const Lengths lengths = lengths_of(slot);
  if ((lengths.flags & Lengths::kIdentified) == 0) return {};
  const Offset at = slot.buffer().plus(lengths.identity_at());
  return {.client = writer_.load(at), .sequence = writer_.load(at.plus(sizeof(uint64_t)))};
}

bool Table::is_expired(Slot slot) const noexcept {
  return slot.expires() && clock_.wall_ns() >= expiry_of(slot);
}

TablePlace Table::locate(const HashedKey& key) const noexcept {
  const uint8_t fingerprint = Slot::fingerprint_of(key.hash);
  TablePlace place;
  Offset line = bucket_of(key.hash);
  while (true) {
    for (uint32_t hits = match_slots(writer_.at(line), fingerprint); hits != 0; hits &= hits - 1) {
      const Offset at = line.plus(static_cast<uint64_t>(std::countr_zero(hits)) * sizeof(Slot));
      const Slot slot = slot_at(at);
      if (!slot) continue;
      const auto other = key_of(slot);
      if (other.size() == key.bytes.size() && same_bytes(other.data(), key.bytes.data(), other.size()))
          [[likely]]
        return {.slot_at = at, .slot = slot, .tail = line};
    }
    for (uint64_t i = 0; i < kSlotsPerBucket && !place.slot_at; ++i) {
      const Offset at = line.plus(i * sizeof(Slot));
      if (!slot_at(at)) place.slot_at = at;
    }
    place.tail = line;
    const Offset next = line_behind(line);
    if (!next) return place;
    if (crowds_ != nullptr) [[unlikely]] {
      Crowd* const crowd = look_for_crowd(*crowds_, bucket_index(key.hash, count_));
      if (crowd != nullptr) return locate_in(*crowd, key);
    }
    line = next;
  }
}

Code Table::check(const TablePlace& place, const PutOptions& options) const noexcept {
  const bool present = place.slot && !is_expired(place.slot);
  if (options.if_absent && present) return Code::kExists;
  if (options.if_version != 0) {
    if (!present) return Code::kNotFound;
    if (writer_.load(place.slot.buffer()) != options.if_version) return Code::kVersionMismatch;
  }
  return Code::kOk;
}

Result<Table::Draft> Table::draft(const HashedKey& key, uint64_t value_bytes, const PutOptions& options,
                                  uint16_t flags) {
  Draft draft{.hash = key.hash};
  draft.lengths.value_bytes = static_cast<uint32_t>(value_bytes);
  draft.lengths.key_bytes = static_cast<uint16_t>(key.bytes.size());
  if (options.expires_wall_ns != 0) draft.lengths.flags |= Lengths::kExpires;
  if (options.request) draft.lengths.flags |= Lengths::kIdentified;
  draft.lengths.flags |= flags;
  const uint64_t bytes = draft.lengths.total_bytes();
  if (const auto buffer = heap_.allocate(bytes)) [[likely]] {
    draft.buffer = *buffer;
  } else {
    const Result<Offset> made = make_room(bytes, key, options);
    if (!made) return fail(made.error());
    draft.buffer = *made;
  }
  REFRACT_FAULT("kv.put.after_allocate");
  // (I2): no stamp while the bytes change.
  writer_.withdraw(draft.buffer);
  writer_.publish(draft.buffer.plus(offsetof(BufferHeader, lengths)), draft.lengths.word());
  if (options.expires_wall_ns != 0) writer_.publish(draft.buffer.plus(kExpiryAt), options.expires_wall_ns);
  if (options.request) {
    const Offset at = draft.buffer.plus(draft.lengths.identity_at());
    writer_.publish(at, options.request.client);
    writer_.publish(at.plus(sizeof(uint64_t)), options.request.sequence);
  }
  writer_.copy(draft.buffer.plus(draft.lengths.key_at()), key.bytes);
  return draft;
}

[[gnu::flatten]] Result<uint64_t> Table::put(const HashedKey& key, std::span<const std::byte> value,
                                             const PutOptions& options) {
  if (is_held(key.hash)) [[unlikely]]
    return fail(Code::kOverloaded);
  const TablePlace place = locate(key);
  if (options.is_plain()) [[likely]] {
    if (const uint64_t version = replace(key, value, place); version != 0) [[likely]]
      return version;
  }
  return put_at(place, key, value, options);
}

// Out of line: inlined, its registers would cost the puts of one pass.
[[gnu::flatten, gnu::noinline]] Result<uint64_t> Table::put_at(TablePlace place, const HashedKey& key,
                                                               std::span<const std::byte> value,
                                                               const PutOptions& options) {
  if (const Code code = room_in_log(key.bytes.size(), value.size()); code != Code::kOk) return fail(code);
  if (const Code code = check(place, options); code != Code::kOk) return fail(code);
  const uint64_t removed_before = stats_.removed();
  const Result<Draft> made = draft(key, value.size(), options);
  if (!made) return fail(made.error());
  if (stats_.removed() != removed_before) {
    // Making room may have taken the place away, and the log's room. make_room() has compared the condition.
    place = locate(key);
    if (const Code code = room_in_log(key.bytes.size(), value.size()); code != Code::kOk) {
      abandon(*made);
      return fail(code);
    }
  }
  fill(*made, 0, value);
  const Result<uint64_t> version = publish(*made, place);
  if (!version) abandon(*made);
  return version;
}

// What most puts are, in one pass: a small value takes the place of another. The stores are those of draft(),
// publish() and store(), in their order.
uint64_t Table::replace(const HashedKey& key, std::span<const std::byte> value, const TablePlace& place) {
  if (!place.slot || departures_ != nullptr) [[unlikely]]
    return 0;
  const Lengths old = lengths_of(place.slot);
  const Lengths lengths{.value_bytes = static_cast<uint32_t>(value.size()),
                        .key_bytes = static_cast<uint16_t>(key.bytes.size())};
  const bool is_small = value.size() < Lengths::kAlignedValueBytes;
  if (!is_small || old.flags != 0) [[unlikely]]
    return 0;
  if (room_in_log(key.bytes.size(), value.size()) != Code::kOk) [[unlikely]]
    return 0;
  const uint64_t value_at = sizeof(BufferHeader) + key.bytes.size();
  const Offset buffer = heap_.allocate_at_once(value_at + value.size());
  if (!buffer) [[unlikely]]
    return 0;
  REFRACT_FAULT("kv.put.after_allocate");
  // (I2): no stamp while the bytes change.
  writer_.withdraw(buffer);
  writer_.publish(buffer.plus(offsetof(BufferHeader, lengths)), lengths.word());
  writer_.copy(buffer.plus(sizeof(BufferHeader)), key.bytes);
  if (!value.empty()) writer_.copy(buffer.plus(value_at), value);
  const uint64_t stamp = heap_.next_stamp();
  writer_.publish(buffer, stamp);
  if (log_ != nullptr) [[unlikely]]
    tell_log(buffer, stamp);
  REFRACT_FAULT("kv.put.before_publish");
  writer_.publish(place.slot_at, Slot::of({.hash = key.hash,
                                           .stamp = stamp,
                                           .bytes = value_at + value.size(),
                                           .expires = false,
                                           .buffer = buffer})
                                     .bits);
  REFRACT_FAULT("kv.put.after_publish");
  was_used(place.slot_at);
  retire(place.slot.buffer(), old.content_bytes());
  return stamp;
}

Result<Table::Draft> Table::begin(const HashedKey& key, uint64_t value_bytes, const PutOptions& options) {
  if (is_held(key.hash)) return fail(Code::kOverloaded);
  // Room there must be when it is committed.
  if (room_in_log(key.bytes.size(), value_bytes) == Code::kReadOnly) return fail(Code::kReadOnly);
  if (const Code code = check(locate(key), options); code != Code::kOk) return fail(code);
  return draft(key, value_bytes, options);
}

void Table::fill(const Draft& draft, uint64_t value_offset, std::span<const std::byte> piece) {
  REFRACT_DCHECK(value_offset + piece.size() <= draft.lengths.value_bytes);
  if (piece.empty()) return;
  const Offset at = draft.buffer.plus(draft.lengths.value_at() + value_offset);
  if (draft.lengths.value_bytes < kStreamedBytesMin) {
    writer_.copy(at, piece);
  } else {
    writer_.copy_streaming(at, piece);
  }
}

Result<uint64_t> Table::commit(const Draft& draft, const PutOptions& options) {
  const std::span<const std::byte> key{writer_.at(draft.buffer.plus(draft.lengths.key_at())),
                                       draft.lengths.key_bytes};
  // First: what is settled for it takes room in the log.
  if (is_held(draft.hash)) return fail(Code::kOverloaded);
  Code code = room_in_log(draft.lengths.key_bytes, draft.lengths.value_bytes);
  if (code == Code::kOverloaded) return fail(code);
  const TablePlace place = locate({key, draft.hash});
  if (code == Code::kOk) code = check(place, options);
  if (code != Code::kOk) {
    abandon(draft);
    return fail(code);
  }
  return publish(draft, place);
}

void Table::abandon(const Draft& draft) {
  heap_.release(draft.buffer, draft.lengths.total_bytes());
}

Result<uint64_t> Table::publish(const Draft& draft, TablePlace place) {
  if (!place.slot_at && !link_line(place, draft.hash)) return fail(Code::kNoSpace);
  const uint64_t stamp = heap_.next_stamp();
  writer_.publish(draft.buffer, stamp);
  if (log_ != nullptr) [[unlikely]]
    tell_log(draft.buffer, stamp);
  store(draft, place, stamp);
  return stamp;
}

bool Table::link_line(TablePlace& place, uint64_t hash) {
  const auto line = heap_.allocate_line();
  if (!line && room_maker_ != nullptr) room_maker_->make_room_for_table();
  if (!line) return false;
  ++stats_.overflow_lines;
  // Linked while empty: a reader that follows finds nothing yet.
  writer_.publish(place.tail.plus(kOverflowWord * sizeof(Slot)), line->value);
  place.slot_at = *line;
  note_linked(bucket_index(hash, count_), *line);
  return true;
}

// The buffer is complete: its stamp has been stored.
void Table::store(const Draft& draft, const TablePlace& place, uint64_t stamp) {
  store(draft, place, stamp, [] {});
}

void Table::retire(Offset buffer, uint64_t bytes) {
  if (departures_ != nullptr && departures_->keeps(buffer)) [[unlikely]]
    return;
  if (log_ != nullptr) [[unlikely]] {
    if (const uint64_t position = log_->needed_until(buffer); position != 0) {
      return held_back_.keep({.needed_until = position, .at = buffer, .bytes = bytes});
    }
  }
  heap_.retire(buffer, bytes);
}

Result<uint64_t> Table::erase(const HashedKey& key, uint64_t if_version) {
  if (is_held(key.hash)) return fail(Code::kOverloaded);
  if (const Code code = room_in_log(key.bytes.size(), 0); code != Code::kOk) return fail(code);
  const TablePlace place = locate(key);
  if (!place.slot || is_expired(place.slot)) return fail(Code::kNotFound);
  const uint64_t version = writer_.load(place.slot.buffer());
  if (if_version != 0 && version != if_version) return fail(Code::kVersionMismatch);
  if (log_ != nullptr) [[unlikely]] {
    logged_stamp_ = heap_.next_stamp();
    log_->append({.kind = ChangeLog::Kind::kErase, .stamp = logged_stamp_, .key = key.bytes});
  }
  remove(place.slot_at, place.slot);
  trim(bucket_index(key.hash, count_));
  return version;
}

void Table::remove(Offset slot_at, Slot slot) {
  remove(slot_at, slot, [] {});
}

bool Table::is_empty(Offset line) const noexcept {
  for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
    if (slot_at(line.plus(i * sizeof(Slot)))) return false;
  }
  return true;
}

void Table::trim(uint64_t bucket) {
  const Offset first = bucket_at(bucket);
  if (!line_behind(first)) return;
  if (crowds_ != nullptr) [[unlikely]] {
    if (Crowd* const crowd = crowds_->of(bucket)) return trim_crowd(bucket, *crowd);
  }
  // (I4): only the last line of a chain goes, and only when it is empty, so that a reader inside it misses
  // nothing.
  while (true) {
    Offset parent;
    Offset line = first;
    while (const Offset next = line_behind(line)) {
      parent = line;
      line = next;
    }
    if (!parent || !is_empty(line)) return;
    writer_.publish(parent.plus(kOverflowWord * sizeof(Slot)), 0);
    heap_.release_line(line);
    --stats_.overflow_lines;
  }
}

Result<Table::Entry> Table::find(const HashedKey& key) {
  TablePlace place = locate(key);
  if (holding_ != nullptr && place.slot) [[unlikely]]
    place.slot = settled(place.slot);
  if (!place.slot || is_expired(place.slot)) return fail(Code::kNotFound);
  was_used(place.slot_at);
  const Lengths lengths = lengths_of(place.slot);
  const Offset buffer = place.slot.buffer();
  return Entry{.version = writer_.load(buffer),
               .buffer = buffer,
               .buffer_bytes = lengths.total_bytes(),
               .value = {writer_.at(buffer.plus(lengths.value_at())), lengths.value_bytes},
               .expires_wall_ns = expiry_of(place.slot),
               .request = identity_of(place.slot)};
}

Table::Standing Table::standing(const HashedKey& key) const noexcept {
  const TablePlace place = locate(key);
  if (!place.slot) return {};
  return {.slot_at = place.slot_at, .slot = place.slot};
}

void Table::prefetch_bucket(uint64_t hash) const noexcept {
  __builtin_prefetch(writer_.at(bucket_of(hash)));
}

void Table::prefetch_buffers(const HashedKey& key) const noexcept {
  const Offset bucket = bucket_of(key.hash);
  if (crowds_ != nullptr) [[unlikely]] {
    if (const Crowd* const crowd = crowds_->of(bucket_index(key.hash, count_))) {
      return crowds_->prefetch_entry(*crowd, key.bytes);
    }
  }
  for (uint32_t hits = match_slots(writer_.at(bucket), Slot::fingerprint_of(key.hash)); hits != 0;
       hits &= hits - 1) {
    const Slot slot = slot_at(bucket.plus(static_cast<uint64_t>(std::countr_zero(hits)) * sizeof(Slot)));
    if (!slot) continue;
    __builtin_prefetch(writer_.at(slot.buffer()));
    __builtin_prefetch(writer_.at(slot.buffer()) + kLineBytes);
  }
}

size_t Table::sweep(uint64_t lines_max) {
  const uint64_t before = stats_.expired;
  SlotRoom room;
  for (uint64_t done = 0; done < lines_max && stats_.expiring_entries > 0; done += room.lines) {
    const uint64_t bucket = sweep_at_.bucket;
    bool removed = false;
    for (const Standing& standing : slots_at(sweep_at_, room)) {
      if (!standing.slot.expires()) continue;
      const bool is_kept = holding_ != nullptr && this->is_kept(hash(key_of(standing.slot)));
      if (is_kept || !is_expired(standing.slot)) {
        stats_.first_expiry.left(expiry_of(standing.slot));
        continue;
      }
      remove(standing.slot_at, standing.slot);
      ++stats_.expired;
      removed = true;
    }
    if (removed) trim(bucket);
    if (sweep_at_.bucket == 0 && sweep_at_.line == 0) stats_.first_expiry.end_round();
  }
  return stats_.expired - before;
}

uint64_t buckets_for(uint64_t entries) noexcept {
  return std::bit_ceil(std::max(kBucketsAtBirth, entries * 4 / kEntriesPerFourBuckets + 1));
}

void Table::grow() {
  if (grow_to_ <= count_ && stats_.entries * 4 > count_ * kEntriesPerFourBuckets) {
    grow_to_ = std::bit_floor(count_) * 2;
  }
  for (int i = 0; i < kSplitsPerInsertion && count_ < grow_to_; ++i) {
    if (split_one()) continue;
    if (room_maker_ != nullptr) room_maker_->make_room_for_table();
    return;
  }
}

}  // namespace refract::kv
