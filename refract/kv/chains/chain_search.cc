// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/chains/chain_search.h"

#include <algorithm>
#include <cstring>

#include "refract/base/units.h"
#include "refract/memory/remote_visible.h"
#include "refract/prism/limits.h"

namespace refract::kv {

namespace {

uint64_t word_at(std::span<const std::byte> bytes, size_t at) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

}  // namespace

ChainSearch::State ChainSearch::begin() noexcept {
  const KnownSlot* known = link_.slots.find(wanted_.hash);
  if (known == nullptr) return begin_at_bucket();
  known_ = *known;
  was_known_ = true;
  step_ = Step::kSlot;
  return State::kAsks;
}

ChainSearch::State ChainSearch::begin_at_bucket() noexcept {
  was_known_ = false;
  candidate_count_ = 0;
  next_line_ = {};
  lines_ = 0;
  if (++attempts_ > kAttempts) return give_up(ByRpc::kContended);
  index_ = link_.geometry.index_of(wanted_.hash);
  count_ = link_.geometry.count();
  step_ = link_.geometry.bucket_at(index_) ? Step::kBucket : Step::kDirectory;
  if (step_ == Step::kDirectory && !link_.geometry.directory_word(index_)) return give_up(ByRpc::kRefused);
  return State::kAsks;
}

// Whether another bucket has become the key's.
bool ChainSearch::has_moved() const noexcept {
  return link_.geometry.index_of(wanted_.hash) != index_;
}

// No line has it: so it is not there, unless it came forward behind the search's back.
ChainSearch::State ChainSearch::absent() noexcept {
  if (!came_forward(index_, count_, link_.geometry.count())) return State::kAbsent;
  return begin_at_bucket();
}

// How much of a buffer is asked for, where so much is thought to be there.
uint64_t ChainSearch::bytes_to_read(uint64_t bytes, size_t operations) const noexcept {
  if (!wanted_.value) bytes = std::min(bytes, kFrontBytesMax + wanted_.key.size());
  bytes = std::min<uint64_t>(bytes, prism::kTransferBytesMax);
  return std::min(bytes, link_.room_for(operations));
}

void ChainSearch::build(prism::Chain& chain) noexcept {
  const TableGeometry& geometry = link_.geometry;
  switch (step_) {
    case Step::kSlot:
      return build_slot(chain);
    case Step::kDirectory:
      chain.read(link_.at(geometry.directory_word(index_)), link_.key, sizeof(uint64_t));
      return;
    case Step::kBucket:
      chain.read(link_.at(geometry.bucket_at(index_)), link_.key, sizeof(Bucket));
      chain.read(link_.at(kBucketCountAt), link_.key, sizeof(uint64_t));
      return;
    case Step::kBuffers:
      return build_buffers(chain);
  }
}

void ChainSearch::build_slot(prism::Chain& chain) noexcept {
  if (wanted_.word) chain.read(link_.at(known_.at), link_.key, sizeof(uint64_t));
  chain.read(link_.at(known_.at), link_.key, static_cast<uint32_t>(bytes_to_read(known_.bytes, 2)))
      .indirect()
      .by_slot_word();
}

void ChainSearch::build_buffers(prism::Chain& chain) noexcept {
  const size_t operations = candidate_count_ + 2;
  // Where all together do not fit, the keys say which of them is worth asking for again.
  uint64_t sum = sizeof(Bucket) + sizeof(uint64_t);
  for (const Candidate& candidate : candidates()) {
    sum += prism::padded(bytes_to_read(uint64_t{64} << candidate.slot.size_hint(), operations));
  }
  const bool all_fit = sum <= link_.room_for(operations);
  for (const Candidate& candidate : candidates()) {
    uint64_t bytes = uint64_t{64} << candidate.slot.size_hint();
    if (!all_fit && candidate_count_ > 1) bytes = std::min(bytes, kFrontBytesMax + wanted_.key.size());
    // Beside it, line and count must find room.
    bytes = std::min(bytes_to_read(bytes, operations), link_.room_for(operations) - sizeof(Bucket) - 8);
    chain.read(link_.at(candidate.slot_at), link_.key, static_cast<uint32_t>(bytes))
        .indirect()
        .by_slot_word();
  }
  if (next_line_) chain.read(link_.at(next_line_), link_.key, sizeof(Bucket));
  chain.read(link_.at(kBucketCountAt), link_.key, sizeof(uint64_t));
}

ChainSearch::State ChainSearch::take(const prism::Reply& reply) noexcept {
  switch (step_) {
    case Step::kSlot:
      return take_slot(reply);
    case Step::kDirectory:
      return take_directory(reply);
    case Step::kBucket:
      if (!reply.all_ok() || reply.bytes(0).size() != sizeof(Bucket)) return give_up(ByRpc::kRefused);
      link_.geometry.note_count(reply.word(1));
      if (has_moved()) return begin_at_bucket();
      return take_line(reply.bytes(0), link_.geometry.bucket_at(index_));
    case Step::kBuffers:
      return take_buffers(reply);
  }
  return give_up(ByRpc::kRefused);
}

ChainSearch::State ChainSearch::take_directory(const prism::Reply& reply) noexcept {
  const Offset chunk = line_at(reply.word(0));
  if (!reply.all_ok() || !chunk) return give_up(ByRpc::kRefused);
  link_.geometry.set_chunk(index_, chunk);
  return begin_at_bucket();
}

ChainSearch::State ChainSearch::take_slot(const prism::Reply& reply) noexcept {
  const size_t last = reply.operations() - 1;
  const Candidate at{.slot_at = known_.at, .slot = {wanted_.word ? reply.word(0) : 0}};
  const Code code = reply.code(last);
  const Seen seen = code == Code::kOk ? look(at, reply.bytes(last)) : Seen::kOther;
  switch (seen) {
    case Seen::kIt:
      // Who did not ask for the word has it still, if the buffer is the same.
      if (!wanted_.word && found_.stamp == known_.stamp) found_.word = known_.word;
      learn();
      return State::kFound;
    case Seen::kLonger:
      return retry_slot(known_.at);
    case Seen::kUnusable:
      return State::kByRpc;
    case Seen::kOther:
      break;
  }
  link_.slots.forget(wanted_.hash);
  return begin_at_bucket();
}

ChainSearch::State ChainSearch::retry_slot(Offset slot_at) noexcept {
  const uint64_t bytes = exact_bytes_;
  if (bytes > bytes_to_read(bytes, 2)) return give_up(ByRpc::kLarge);
  if (++attempts_ > kAttempts) return give_up(ByRpc::kContended);
  const bool is_same = known_.at == slot_at;
  known_ = {.hash = wanted_.hash,
            .at = slot_at,
            .word = is_same ? known_.word : 0,
            .stamp = is_same ? known_.stamp : 0,
            .bytes = bytes};
  step_ = Step::kSlot;
  return State::kAsks;
}

ChainSearch::State ChainSearch::take_line(std::span<const std::byte> bytes, Offset line) noexcept {
  candidate_count_ = 0;
  const uint8_t fingerprint = Slot::fingerprint_of(wanted_.hash);
  for (size_t i = 0; i < kSlotsPerBucket; ++i) {
    const Slot slot{word_at(bytes, i * sizeof(Slot))};
    if (!slot || slot.fingerprint() != fingerprint) continue;
    // Whether it has expired, only the owner's clock tells; and no guess says how long the longest are.
    if (slot.expires()) return give_up(ByRpc::kExpires);
    if (slot.size_hint() == Slot::kSizeHintTooLarge) return give_up(ByRpc::kLarge);
    candidates_[candidate_count_++] = {.slot_at = line.plus(i * sizeof(Slot)), .slot = slot};
  }
  next_line_ = line_at(word_at(bytes, kOverflowWord * sizeof(Slot)));
  if (++lines_ > kLinesMax) return give_up(ByRpc::kCrowded);
  if (candidate_count_ == 0 && !next_line_) return absent();
  step_ = Step::kBuffers;
  return State::kAsks;
}

ChainSearch::State ChainSearch::take_buffers(const prism::Reply& reply) noexcept {
  for (size_t i = 0; i < candidate_count_; ++i) {
    // An empty slot: its entry was erased or moved since.
    if (reply.code(i) == Code::kNotFound) continue;
    if (reply.code(i) != Code::kOk) return give_up(ByRpc::kRefused);
    switch (look(candidates_[i], reply.bytes(i))) {
      case Seen::kIt:
        learn();
        return State::kFound;
      case Seen::kLonger:
        return retry_slot(candidates_[i].slot_at);
      case Seen::kUnusable:
        return State::kByRpc;
      case Seen::kOther:
        break;
    }
  }
  return next_line_or_absent(reply, candidate_count_);
}

ChainSearch::State ChainSearch::next_line_or_absent(const prism::Reply& reply, size_t at) noexcept {
  const size_t count_at = at + (next_line_ ? 1 : 0);
  if (reply.operations() != count_at + 1 || reply.code(count_at) != Code::kOk)
    return give_up(ByRpc::kRefused);
  link_.geometry.note_count(reply.word(count_at));
  if (has_moved()) return begin_at_bucket();
  if (!next_line_) return absent();
  if (reply.code(at) != Code::kOk || reply.bytes(at).size() != sizeof(Bucket)) {
    return give_up(ByRpc::kRefused);
  }
  return take_line(reply.bytes(at), next_line_);
}

ChainSearch::Seen ChainSearch::look(const Candidate& at, std::span<const std::byte> buffer) noexcept {
  if (buffer.size() < sizeof(BufferHeader)) return Seen::kOther;
  // One copy, then checked: the owner may still be changing its reply.
  BufferHeader header;
  copy_possibly_torn(&header, buffer.data(), sizeof(header));
  const Lengths lengths = Lengths::from_word(header.lengths);
  if (header.stamp == 0 || !lengths.is_sound()) {
    why_ = ByRpc::kRefused;
    return Seen::kUnusable;
  }
  if (lengths.key_bytes != wanted_.key.size()) return Seen::kOther;
  const uint64_t key_end = lengths.key_at() + lengths.key_bytes;
  const uint64_t needed = wanted_.value ? lengths.content_bytes() : key_end;
  exact_bytes_ = needed;
  if (key_end > buffer.size()) return Seen::kLonger;
  if (std::memcmp(buffer.data() + lengths.key_at(), wanted_.key.data(), wanted_.key.size()) != 0) {
    return Seen::kOther;
  }
  // The owner decides what is pending before it looks at the next message.
  if (lengths.is_pending()) {
    why_ = ByRpc::kRefused;
    return Seen::kUnusable;
  }
  if ((lengths.flags & Lengths::kExpires) != 0) {
    why_ = ByRpc::kExpires;
    return Seen::kUnusable;
  }
  if (needed > buffer.size()) return Seen::kLonger;
  found_ = {.slot_at = at.slot_at,
            .word = at.slot.names(header.stamp) ? at.slot.bits : 0,
            .stamp = header.stamp,
            .lengths = lengths,
            .buffer = buffer};
  return Seen::kIt;
}

void ChainSearch::learn() const noexcept {
  link_.slots.learn({.hash = wanted_.hash,
                     .at = found_.slot_at,
                     .word = found_.word,
                     .stamp = found_.stamp,
                     // A little more, so that the next value may be a little longer.
                     .bytes = round_up(found_.lengths.content_bytes(), 64)});
}

}  // namespace refract::kv
