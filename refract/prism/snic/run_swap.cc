// SPDX-License-Identifier: Apache-2.0
// Compare-and-swap of 1 to 32 bytes, and fetch-and-add, which is its simplest form.
//
// Everything is loaded into words of this thread before anything is decided: operands come from a peer or
// from places that the swap itself may change.
#include <algorithm>
#include <cstring>

#include "refract/memory/remote_visible.h"
#include "refract/memory/slot_word.h"
#include "refract/prism/snic/run.h"

namespace refract::prism::snic {
namespace {

constexpr uint64_t kNotScratch = ~uint64_t{0};
constexpr uint64_t kAllOnes = ~uint64_t{0};

// The first word is the most significant.
[[nodiscard]] int order(std::span<const uint64_t> supplied, std::span<const uint64_t> stored,
                        std::span<const uint64_t> mask) noexcept {
  for (size_t i = 0; i < supplied.size(); ++i) {
    const uint64_t a = supplied[i] & mask[i];
    const uint64_t b = stored[i] & mask[i];
    if (a != b) return a > b ? 1 : -1;
  }
  return 0;
}

// The last word is filled up with zeroes.
void load_words(const std::byte* from, uint64_t bytes, std::span<uint64_t> words) noexcept {
  const uint64_t whole = std::min<uint64_t>(bytes / 8, words.size());
  for (uint64_t i = 0; i < whole; ++i) std::memcpy(&words[i], from + i * 8, 8);
  if (bytes % 8 == 0 || whole == words.size()) return;
  words[whole] = 0;
  std::memcpy(&words[whole], from + whole * 8, bytes % 8);
}

[[nodiscard]] bool holds(Comparison comparison, int order) noexcept {
  switch (comparison) {
    case Comparison::kEqual:
      return order == 0;
    case Comparison::kGreater:
      return order > 0;
    case Comparison::kLess:
      return order < 0;
  }
  return false;
}

}  // namespace

Code Run::load_operand(const Operation& operation, uint16_t flag, const std::byte* inline_bytes, Words& words,
                       uint64_t* scratch_from) noexcept {
  const uint64_t bytes = operation.header.bytes;
  const std::byte* from = inline_bytes;
  if (operation.has(flag)) {
    RemotePointer pointer;
    std::memcpy(&pointer, inline_bytes, sizeof(pointer));
    Workplace source;  // NOLINT(cppcoreguidelines-pro-type-member-init): reach fills it.
    if (const Code code = reach(pointer, source); code != Code::kOk) return code;
    if (!may(source, ChainRights::kRead, bytes)) return Code::kAccessDenied;
    if (scratch_from != nullptr && source.writer == nullptr) *scratch_from = source.at;
    from = source.memory;
  }
  load_words(from, bytes, words);
  return Code::kOk;
}

Code Run::load_target(const Operation& operation, SwapWork& work) noexcept {
  const uint64_t bytes = operation.header.bytes;
  const uint64_t skipped = work.place.at % 8;
  if (bytes >= 8 ? skipped != 0 : skipped + bytes > 8) return Code::kInvalidArgument;
  const bool retires = operation.has(Flag::kRetire);
  const uint8_t right =
      retires ? uint8_t{ChainRights::kAtomic | ChainRights::kAllocate} : ChainRights::kAtomic;
  if (!may(work.place, right, bytes)) return Code::kAccessDenied;
  work.words = (bytes + 7) / 8;
  work.shift = skipped * 8;
  work.last_mask = bytes % 8 == 0 ? kAllOnes : (uint64_t{1} << (bytes % 8 * 8)) - 1;
  work.place.memory -= skipped;
  work.place.at -= skipped;
  for (size_t i = 0; i < work.words; ++i) {
    work.raw[i] = observe_u64(work.place.memory + i * 8);
    work.stored[i] = (work.raw[i] >> work.shift) & (i + 1 == work.words ? work.last_mask : kAllOnes);
  }
  return Code::kOk;
}

Code Run::load_swap(const Operation& operation, SwapWork& work) noexcept {
  work.scratch_from = kNotScratch;
  if (const Code code = find_target(operation, work.place); code != Code::kOk) return code;
  if (const Code code = load_target(operation, work); code != Code::kOk) return code;
  Code code = load_operand(operation, Flag::kCompareIndirect, operation.compare(), work.compare, nullptr);
  if (code != Code::kOk) return code;
  code = load_operand(operation, Flag::kDataIndirect, operation.swap(), work.swap, &work.scratch_from);
  if (code != Code::kOk) return code;
  if (operation.has(Flag::kMasked)) {
    load_words(operation.compare_mask(), operation.header.bytes, work.compare_mask);
    load_words(operation.swap_mask(), operation.header.bytes, work.swap_mask);
  } else {
    for (size_t i = 0; i < work.words; ++i) work.compare_mask[i] = work.swap_mask[i] = kAllOnes;
  }
  work.swap_mask[work.words - 1] &= work.last_mask;
  for (size_t i = 0; i < work.words; ++i) {
    const uint64_t mask = work.swap_mask[i] << work.shift;
    work.after[i] = (work.raw[i] & ~mask) | ((work.swap[i] << work.shift) & mask);
  }
  return Code::kOk;
}

Code Run::compare_swap(const Operation& operation) noexcept {
  SwapWork
      work;  // NOLINT(cppcoreguidelines-pro-type-member-init): as many words as the operand has are filled.
  if (const Code code = load_swap(operation, work); code != Code::kOk) return code;
  const uint64_t bytes = operation.header.bytes;
  if (!has_room(bytes)) return Code::kTooLarge;
  const int found = order(std::span(work.compare).first(work.words), std::span(work.stored).first(work.words),
                          std::span(work.compare_mask).first(work.words));
  Code code = Code::kCompareFailed;
  if (holds(static_cast<Comparison>(operation.header.mode), found)) {
    code = swap_in(operation, work);
    if (code != Code::kOk) return code;
  }
  put_out(work.stored.data(), bytes);
  return code;
}

uint64_t Run::leads_to(const Operation& operation, uint64_t word) const noexcept {
  return operation.has(Flag::kSlotWord) ? SlotWord{word}.buffer().value : RemotePointer{word}.offset();
}

Code Run::find_retired(const Operation& operation, const SwapWork& work, Offset& retired) noexcept {
  const uint64_t old_word = work.stored[work.words - 1];
  const uint64_t new_word = work.after[work.words - 1];
  const uint64_t offset = leads_to(operation, old_word);
  if (offset == 0) return Code::kOk;
  const bool is_pointer = !operation.has(Flag::kSlotWord);
  const bool stays = offset == leads_to(operation, new_word) &&
                     (!is_pointer || RemotePointer{old_word}.region() == RemotePointer{new_word}.region());
  if (stays) return Code::kOk;
  if (is_pointer && RemotePointer{old_word}.region() != region_->id) return Code::kAccessDenied;
  retired = region_->start.plus(offset);
  const bool is_out =
      region_->buffers != nullptr && offset < region_->bytes && region_->buffers->is_out(retired);
  return is_out ? Code::kOk : Code::kAccessDenied;
}

void Run::retire(Offset at) noexcept {
  // What this chain owned may have been led to by other means than its scratch; it goes one way only.
  for (Owned& owned : std::span(owned_).first(owned_count_)) {
    if (owned.buffers == region_->buffers && owned.at == at.value) owned.is_stored = true;
  }
  // Later operations of the chain may still read it.
  if (!holds_) executor_.hold_buffers();
  holds_ = true;
  region_->buffers->retire(at);
  ++executor_.counts_.buffers_retired;
}

Code Run::swap_in(const Operation& operation, const SwapWork& work) noexcept {
  Writer* writer = work.place.writer;
  if (writer == nullptr) {
    std::memcpy(work.place.memory, work.after.data(), work.words * 8);
    return Code::kOk;
  }
  Offset retired;
  if (operation.has(Flag::kRetire)) {
    if (const Code code = find_retired(operation, work, retired); code != Code::kOk) return code;
  }
  // Which of the chain's own buffers this stores: the whole word, from where its allocation put it.
  uint32_t stores = 0;
  Buffers::Fresh installs;
  for (size_t i = 0; work.scratch_from != kNotScratch && i < owned_count_; ++i) {
    const Owned& owned = owned_[i];
    if (!is_in(owned, work.scratch_from, operation.header.bytes)) continue;
    uint64_t mask = 0;
    const uint64_t distance = owned.scratch_at - work.scratch_from;
    std::memcpy(&mask, reinterpret_cast<const std::byte*>(work.swap_mask.data()) + distance, sizeof(mask));
    if (mask != kAllOnes) continue;
    stores |= uint32_t{1} << i;
    installs = owned.fresh();
  }
  if (region_->guard != nullptr) {
    const Swap swap{.at = {work.place.at},
                    .bytes = work.words * 8,
                    .before = std::span(work.raw).first(work.words),
                    .after = std::span(work.after).first(work.words),
                    .retires = static_cast<bool>(retired),
                    .installs = installs};
    if (const Code code = region_->guard->may_swap(swap); code != Code::kOk) return code;
  }
  for (size_t i = 0; i < work.words; ++i) {
    if (work.after[i] != work.raw[i]) writer->publish({work.place.at + i * 8}, work.after[i]);
  }
  for (size_t i = 0; stores >> i != 0; ++i) {
    if (((stores >> i) & 1) != 0) owned_[i].is_stored = true;
  }
  if (retired) retire(retired);
  return Code::kOk;
}

Code Run::fetch_add(const Operation& operation) noexcept {
  SwapWork work;  // NOLINT(cppcoreguidelines-pro-type-member-init): the one word is filled.
  if (const Code code = find_target(operation, work.place); code != Code::kOk) return code;
  if (const Code code = load_target(operation, work); code != Code::kOk) return code;
  if (!has_room(sizeof(uint64_t))) return Code::kTooLarge;
  work.scratch_from = kNotScratch;
  work.after[0] = work.raw[0] + operation.header.operand;
  if (const Code code = swap_in(operation, work); code != Code::kOk) return code;
  put_out(work.stored.data(), sizeof(uint64_t));
  return Code::kOk;
}

}  // namespace refract::prism::snic
