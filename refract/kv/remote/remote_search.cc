// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/remote/remote_search.h"

#include <algorithm>
#include <cstring>

namespace refract::kv {

namespace {

// The buffer that the slot names has at most so many bytes.
constexpr uint64_t bytes_hinted(Slot slot) noexcept {
  return uint64_t{64} << slot.size_hint();
}

}  // namespace

RemoteSearch::State RemoteSearch::give_up(WhyCalled why) noexcept {
  why_ = why;
  return State::kByCall;
}

// Once: a search that still finds no way then reads what is not there.
RemoteSearch::State RemoteSearch::unmapped() noexcept {
  if (has_asked_) return give_up(WhyCalled::kRefused);
  has_asked_ = true;
  return State::kUnmapped;
}

RemoteSearch::State RemoteSearch::begin() noexcept {
  const std::optional<Location> known = link_.locations.find(wanted_.hash);
  if (!known) return begin_at_bucket();
  is_known_ = true;
  return try_slot(
      {.slot_at = known->slot_at, .slot = {known->word}, .stamp = known->stamp, .bytes = known->bytes});
}

RemoteSearch::State RemoteSearch::begin_at_bucket() noexcept {
  is_known_ = false;
  candidate_count_ = 0;
  lines_ = 0;
  if (++attempts_ > kAttempts) return give_up(WhyCalled::kContended);
  index_ = link_.geometry.index_of(wanted_.hash);
  count_ = link_.geometry.count();
  line_ = link_.geometry.bucket_at(index_);
  step_ = line_ ? Step::kBucket : Step::kDirectory;
  if (step_ == Step::kDirectory && !link_.geometry.directory_word(index_)) {
    return give_up(WhyCalled::kRefused);
  }
  return State::kAsks;
}

// Only the entry that is there: no bucket is searched, so that nothing can be said to be absent.
RemoteSearch::State RemoteSearch::try_slot(const Candidate& candidate) noexcept {
  if (++attempts_ > kAttempts) return give_up(WhyCalled::kContended);
  if (candidate.slot.size_hint() == Slot::kSizeHintTooLarge) return give_up(WhyCalled::kLarge);
  candidates_[0] = candidate;
  candidate_count_ = 1;
  line_ = {};
  step_ = Step::kSlot;
  return State::kAsks;
}

// Whether another bucket has become the key's.
bool RemoteSearch::has_moved() const noexcept {
  return link_.geometry.index_of(wanted_.hash) != index_;
}

// No line has it: so it is not there, unless it came forward behind the search's back.
RemoteSearch::State RemoteSearch::absent() noexcept {
  if (!came_forward(index_, count_, link_.geometry.count())) return State::kAbsent;
  ++link_.counts.retries;
  return begin_at_bucket();
}

bool RemoteSearch::may_be_it(Slot slot) const noexcept {
  return slot && slot.fingerprint() == Slot::fingerprint_of(wanted_.hash);
}

uint64_t RemoteSearch::bytes_to_read(uint64_t bytes) const noexcept {
  if (!wanted_.value) bytes = std::min(bytes, kFrontBytesMax + wanted_.key.size());
  return std::min(bytes, link_.options.buffer_bytes_max);
}

bool RemoteSearch::add(ReadBatch& batch, Offset at, uint64_t bytes, size_t& read) {
  const auto place = link_.space.find(at, bytes);
  if (place) read = batch.add(place->remote, bytes);
  return place.has_value();
}

bool RemoteSearch::add_entry(ReadBatch& batch, Candidate& candidate) {
  const Offset buffer = candidate.slot.buffer();
  const auto place = link_.space.find(buffer, sizeof(BufferHeader));
  if (!place) return false;
  // A guess may reach beyond the region's end, where no buffer does.
  const uint64_t bytes = std::min(bytes_to_read(candidate.bytes), place->bytes_left);
  const bool confirms = link_.options.confirms_stamps;
  if (confirms && candidate.stamp == 0 && !add(batch, buffer, sizeof(uint64_t), candidate.stamp_before)) {
    return false;
  }
  candidate.buffer = batch.add(place->remote, bytes);
  // While the slot is READ, the buffer must still be what it was: its stamp is READ last.
  return add(batch, candidate.slot_at, sizeof(uint64_t), candidate.slot_read) &&
         (!confirms || add(batch, buffer, sizeof(uint64_t), candidate.stamp_behind));
}

// The count behind the line: a split publishes it before it clears what it moved.
bool RemoteSearch::add_line(ReadBatch& batch, Offset line) {
  return add(batch, line, sizeof(Bucket), line_read_) &&
         add(batch, kBucketCountAt, sizeof(uint64_t), count_read_);
}

bool RemoteSearch::add_step(ReadBatch& batch) {
  if (step_ == Step::kDirectory) {
    return add(batch, link_.geometry.directory_word(index_), sizeof(uint64_t), count_read_);
  }
  if (step_ == Step::kBucket) return add_line(batch, line_);
  for (size_t i = 0; i < candidate_count_; ++i) {
    if (!add_entry(batch, candidates_[i])) return false;
  }
  return !line_ || add_line(batch, line_);
}

RemoteSearch::State RemoteSearch::plan(ReadBatch& batch, uint64_t now_ns) {
  planned_ns_ = now_ns;
  const size_t size = batch.size();
  if (add_step(batch)) return State::kAsks;
  batch.cut(size);
  return unmapped();
}

RemoteSearch::State RemoteSearch::take(const ReadBatch& batch, uint64_t now_ns) noexcept {
  switch (step_) {
    case Step::kSlot:
      return take_slot(batch, now_ns);
    case Step::kDirectory:
      return take_directory(batch);
    case Step::kBucket:
      return take_line(batch);
    case Step::kBuffers:
      return take_buffers(batch, now_ns);
  }
  return give_up(WhyCalled::kRefused);
}

RemoteSearch::State RemoteSearch::take_directory(const ReadBatch& batch) noexcept {
  if (batch.code(count_read_) != Code::kOk) return unmapped();
  const Offset chunk = line_at(batch.word(count_read_));
  if (!chunk) return give_up(WhyCalled::kRefused);
  link_.geometry.set_chunk(index_, chunk);
  // The way to the bucket, not another attempt.
  --attempts_;
  return begin_at_bucket();
}

RemoteSearch::State RemoteSearch::take_slot(const ReadBatch& batch, uint64_t now_ns) noexcept {
  Candidate& candidate = candidates_[0];
  const Seen seen = look(candidate, batch, now_ns);
  if (seen == Seen::kIt) return found(candidate);
  if (seen == Seen::kExpired) return State::kAbsent;
  if (seen == Seen::kRefused) return unmapped();
  if (seen == Seen::kUnusable) return State::kByCall;
  if (seen == Seen::kLonger) {
    candidate.bytes = exact_bytes_;
    return try_slot(candidate);
  }
  if (is_known_) link_.locations.forget_stale(wanted_.hash);
  is_known_ = false;
  ++link_.counts.retries;
  // Written again, most likely: the slot says where it is now.
  if (seen == Seen::kChanged && may_be_it(candidate.now)) {
    return try_slot(
        {.slot_at = candidate.slot_at, .slot = candidate.now, .bytes = bytes_hinted(candidate.now)});
  }
  return begin_at_bucket();
}

// Also of a further line: then its candidates' buffers have been looked at.
RemoteSearch::State RemoteSearch::take_line(const ReadBatch& batch) noexcept {
  if (batch.code(count_read_) != Code::kOk) return unmapped();
  link_.geometry.note_count(batch.word(count_read_));
  if (has_moved()) {
    ++link_.counts.retries;
    return begin_at_bucket();
  }
  if (batch.code(line_read_) != Code::kOk) return unmapped();
  Bucket bucket{};
  std::memcpy(&bucket, batch.bytes(line_read_).data(), sizeof(bucket));
  candidate_count_ = 0;
  for (size_t i = 0; i < kSlotsPerBucket; ++i) {
    const Slot slot{bucket.slots[i]};
    if (!may_be_it(slot)) continue;
    if (slot.size_hint() == Slot::kSizeHintTooLarge) return give_up(WhyCalled::kLarge);
    candidates_[candidate_count_++] = {
        .slot_at = line_.plus(i * sizeof(Slot)), .slot = slot, .bytes = bytes_hinted(slot)};
  }
  line_ = line_at(bucket.overflow);
  if (++lines_ > kLinesMax) return give_up(WhyCalled::kCrowded);
  if (candidate_count_ == 0 && !line_) return absent();
  step_ = Step::kBuffers;
  return State::kAsks;
}

RemoteSearch::State RemoteSearch::take_buffers(const ReadBatch& batch, uint64_t now_ns) noexcept {
  Candidate* changed = nullptr;
  for (Candidate& candidate : std::span(candidates_).first(candidate_count_)) {
    switch (look(candidate, batch, now_ns)) {
      case Seen::kIt:
        return found(candidate);
      case Seen::kExpired:
        return State::kAbsent;
      case Seen::kRefused:
        return unmapped();
      case Seen::kUnusable:
        return State::kByCall;
      case Seen::kLonger:
        candidate.bytes = exact_bytes_;
        return try_slot(candidate);
      case Seen::kChanged:
        if (changed == nullptr || may_be_it(candidate.now)) changed = &candidate;
        break;
      case Seen::kOther:
        break;
    }
  }
  if (changed == nullptr) return line_ ? take_line(batch) : absent();
  ++link_.counts.retries;
  if (may_be_it(changed->now)) {
    return try_slot({.slot_at = changed->slot_at, .slot = changed->now, .bytes = bytes_hinted(changed->now)});
  }
  // Erased, or moved by a split.
  return begin_at_bucket();
}

RemoteSearch::Seen RemoteSearch::look(Candidate& candidate, const ReadBatch& batch,
                                      uint64_t now_ns) noexcept {
  if (!was_read(candidate, batch)) return Seen::kRefused;
  candidate.now = {batch.word(candidate.slot_read)};
  if (candidate.now.bits != candidate.slot.bits) return Seen::kChanged;
  BufferHeader header;
  std::memcpy(&header, batch.bytes(candidate.buffer).data(), sizeof(header));
  // The stamp that was seen with this word, or one that fits it: else the buffer is another's by now.
  const bool fits =
      candidate.stamp != 0 ? header.stamp == candidate.stamp : candidate.slot.names(header.stamp);
  if (!fits || !is_confirmed(candidate, batch, header.stamp)) return Seen::kChanged;
  candidate.stamp = header.stamp;
  return look_at_content(candidate, batch, header, now_ns);
}

bool RemoteSearch::was_read(const Candidate& candidate, const ReadBatch& batch) const noexcept {
  const bool confirms = link_.options.confirms_stamps;
  return batch.code(candidate.buffer) == Code::kOk && batch.code(candidate.slot_read) == Code::kOk &&
         (!confirms || batch.code(candidate.stamp_behind) == Code::kOk) &&
         (!confirms || candidate.stamp != 0 || batch.code(candidate.stamp_before) == Code::kOk);
}

// Whether the buffer carried the stamp before its READ and behind the slot's: stamps are never used twice, so
// it carried it throughout.
bool RemoteSearch::is_confirmed(const Candidate& candidate, const ReadBatch& batch,
                                uint64_t stamp) const noexcept {
  if (!link_.options.confirms_stamps) return true;
  const bool was_known = candidate.stamp != 0;
  return batch.word(candidate.stamp_behind) == stamp &&
         (was_known || batch.word(candidate.stamp_before) == stamp);
}

// Of one complete content, which the slot names.
RemoteSearch::Seen RemoteSearch::look_at_content(const Candidate& candidate, const ReadBatch& batch,
                                                 const BufferHeader& header, uint64_t now_ns) noexcept {
  const std::span<const std::byte> buffer = batch.bytes(candidate.buffer);
  const Lengths lengths = Lengths::from_word(header.lengths);
  why_ = WhyCalled::kRefused;
  if (!lengths.is_sound()) return Seen::kUnusable;
  if (lengths.key_bytes != wanted_.key.size()) return Seen::kOther;
  const uint64_t key_end = lengths.key_at() + lengths.key_bytes;
  exact_bytes_ = wanted_.value ? lengths.content_bytes() : key_end;
  if (exact_bytes_ > link_.options.buffer_bytes_max) {
    why_ = WhyCalled::kLarge;
    return Seen::kUnusable;
  }
  if (key_end > buffer.size()) return Seen::kLonger;
  if (std::memcmp(buffer.data() + lengths.key_at(), wanted_.key.data(), wanted_.key.size()) != 0) {
    return Seen::kOther;
  }
  // The owner decides what is pending before it looks at the next message.
  if (lengths.is_pending()) return Seen::kUnusable;
  if (exact_bytes_ > buffer.size()) return Seen::kLonger;
  found_ = {.stamp = header.stamp, .lengths = lengths, .buffer = buffer};
  if ((lengths.flags & Lengths::kExpires) == 0) return Seen::kIt;
  std::memcpy(&found_.expires_wall_ns, buffer.data() + kExpiryAt, sizeof(uint64_t));
  return look_at_time(found_.expires_wall_ns, now_ns);
}

RemoteSearch::Seen RemoteSearch::look_at_time(uint64_t expires_wall_ns, uint64_t now_ns) noexcept {
  const uint64_t error_ns = link_.options.clock_error_ns;
  if (link_.clock.at(now_ns, error_ns).latest_ns < expires_wall_ns) return Seen::kIt;
  // Before it was READ: while the answer was on its way it may have been written again.
  if (link_.clock.at(planned_ns_, error_ns).earliest_ns >= expires_wall_ns) return Seen::kExpired;
  why_ = WhyCalled::kExpires;
  return Seen::kUnusable;
}

RemoteSearch::State RemoteSearch::found(const Candidate& candidate) noexcept {
  const uint64_t bytes = found_.lengths.content_bytes();
  const Location location{.hash = wanted_.hash,
                          .slot_at = candidate.slot_at,
                          .word = candidate.slot.bits,
                          .stamp = found_.stamp,
                          .bytes = bytes};
  if (!is_known_ && bytes <= link_.options.buffer_bytes_max) link_.locations.learn(location);
  return State::kFound;
}

}  // namespace refract::kv
