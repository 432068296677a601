// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/memory/remote_visible.h"
#include "refract/memory/slot_word.h"

namespace refract::prism::snic {
namespace {

constexpr uint64_t kUnbounded = ~uint64_t{0};

// Words inside the bytes are published, so that a direct reader finds each old or new, never half of both. At
// the edges the word's other bytes are stored again as they are: only this thread stores to the region.
void store(Writer& writer, Offset at, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const uint64_t skipped = at.value % 8;
    const size_t piece = std::min<size_t>(8 - skipped, bytes.size());
    const Offset word_at{at.value - skipped};
    uint64_t word = piece == 8 ? 0 : writer.load(word_at);
    std::memcpy(reinterpret_cast<std::byte*>(&word) + skipped, bytes.data(), piece);
    writer.publish(word_at, word);
    at = at.plus(piece);
    bytes = bytes.subspan(piece);
  }
}

}  // namespace

// The arrays are written before they are read.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
Run::Run(Executor& executor, Connection& connection) noexcept : executor_(executor), connection_(connection) {
  chain_.count = 0;
}

Code Run::take(std::span<const std::byte> chain, std::span<std::byte> reply_room) noexcept {
  Executor::Counts& counts = executor_.counts_;
  if (const Code code = decode(chain, chain_); code != Code::kOk) {
    chain_.count = 0;
    ++counts.malformed_chains;
    return code;
  }
  reply_bytes_ = chain_.count * sizeof(Outcome);
  if (reply_room.size() < reply_bytes_) {
    chain_.count = 0;
    return Code::kTooLarge;
  }
  room_ = reply_room;
  const Outcome not_executed = {.code = static_cast<uint16_t>(Code::kCancelled), .reserved = 0, .bytes = 0};
  for (size_t i = 0; i < chain_.count; ++i) {
    std::memcpy(room_.data() + i * sizeof(Outcome), &not_executed, sizeof(Outcome));
  }
  ++counts.chains;
  counts.bytes_in += chain.size();
  return Code::kOk;
}

Result<> Run::begin(std::span<const std::byte> chain, std::span<std::byte> reply_room) noexcept {
  if (const Code code = take(chain, reply_room); code != Code::kOk) return fail(code);
  is_open_ = true;
  ++executor_.open_runs_;
  holds_ = true;
  executor_.hold_buffers();
  return {};
}

bool Run::step() noexcept {
  if (done()) return false;
  run_next();
  return true;
}

size_t Run::end() noexcept {
  chain_.count = next_;
  for (Owned& owned : std::span(owned_).first(owned_count_)) {
    if (owned.is_stored) continue;
    owned.buffers->give_back(owned.fresh());
    ++executor_.counts_.buffers_given_back;
  }
  owned_count_ = 0;
  if (holds_) executor_.release_buffers();
  holds_ = false;
  if (is_open_) --executor_.open_runs_;
  is_open_ = false;
  executor_.counts_.bytes_out += reply_bytes_;
  return std::exchange(reply_bytes_, 0);
}

void Run::run_next() noexcept {
  const Operation& operation = chain_.operations[next_];
  Executor::Counts& counts = executor_.counts_;
  output_bytes_ = 0;
  if (operation.has(Flag::kConditional) && last_code_ != Code::kOk) {
    // Its outcome has been written already.
    last_code_ = Code::kCancelled;
    ++counts.cancelled_operations;
    ++next_;
    return;
  }
  const Grant* grant = connection_.find(RemoteKey{operation.header.key});
  region_ = grant == nullptr ? nullptr : executor_.find(grant->region);
  rights_ = grant == nullptr ? ChainRights{} : grant->rights;
  last_code_ = run(operation);
  ++counts.operations[operation.header.opcode];
  if (last_code_ != Code::kOk) {
    ++(last_code_ == Code::kCompareFailed ? counts.failed_comparisons : counts.failed_operations);
  }
  const Outcome outcome = {.code = static_cast<uint16_t>(last_code_), .reserved = 0, .bytes = output_bytes_};
  std::memcpy(room_.data() + next_ * sizeof(Outcome), &outcome, sizeof(outcome));
  ++next_;
}

Code Run::run(const Operation& operation) noexcept {
  switch (operation.opcode()) {
    case Opcode::kRead:
      return read(operation);
    case Opcode::kWrite:
      return write(operation);
    case Opcode::kAllocate:
      return allocate(operation);
    case Opcode::kCompareSwap:
      return compare_swap(operation);
    case Opcode::kFetchAdd:
      return fetch_add(operation);
  }
  return Code::kMalformed;  // decode() let nothing else pass.
}

Code Run::reach(RemotePointer given, Workplace& place) noexcept {
  const uint64_t offset = given.offset();
  if (given.region() == kScratchRegion) {
    if (offset > kScratchBytes) return Code::kAccessDenied;
    place = {.memory = connection_.scratch() + offset,
             .writer = nullptr,
             .at = offset,
             .left = kScratchBytes - offset,
             .bound = kUnbounded};
    return Code::kOk;
  }
  if (region_ == nullptr || region_->id != given.region()) return Code::kAccessDenied;
  return reach_in_region(offset, place);
}

Code Run::reach_in_region(uint64_t offset, Workplace& place) noexcept {
  if (region_ == nullptr || offset > region_->bytes) return Code::kAccessDenied;
  const Offset at = region_->start.plus(offset);
  place = {.memory = region_->writer->base() + at.value,
           .writer = region_->writer,
           .at = at.value,
           .left = region_->bytes - offset,
           .bound = kUnbounded};
  return Code::kOk;
}

bool Run::may(const Workplace& place, uint8_t right, uint64_t bytes) const noexcept {
  return bytes <= place.left && (place.writer == nullptr || rights_.cover(right));
}

Code Run::find_target(const Operation& operation, Workplace& place) noexcept {
  const RemotePointer given{operation.header.address};
  if (!operation.has(Flag::kIndirect)) return reach(given, place);
  if (given.offset() % 8 != 0) return Code::kInvalidArgument;
  const bool is_bounded = operation.has(Flag::kBounded);
  if (const Code code = reach(given, place); code != Code::kOk) return code;
  if (!may(place, ChainRights::kRead, is_bounded ? 16 : 8)) return Code::kAccessDenied;
  const uint64_t word = observe_u64(place.memory);
  const uint64_t bound = is_bounded ? observe_u64(place.memory + 8) : kUnbounded;
  if (operation.has(Flag::kSlotWord)) {
    const Offset buffer = SlotWord{word}.buffer();
    return buffer ? reach_in_region(buffer.value, place) : Code::kNotFound;
  }
  const RemotePointer found{word};
  if (found.offset() == 0) return Code::kNotFound;
  // The second hop stands under the key of the first; no pointer in memory leads to a scratch.
  if (region_ == nullptr || found.region() != region_->id) return Code::kAccessDenied;
  const Code code = reach_in_region(found.offset(), place);
  place.bound = bound;
  return code;
}

bool Run::has_room(uint64_t bytes) const noexcept {
  return padded(bytes) <= room_.size() - reply_bytes_;
}

void Run::put_out(const void* bytes, uint64_t count) noexcept {
  std::byte* target = room_.data() + reply_bytes_;
  const uint64_t whole = padded(count);
  if (whole > count) std::memset(target + whole - 8, 0, 8);
  if (count > 0) copy_possibly_torn(target, bytes, count);
  output_bytes_ = static_cast<uint32_t>(count);
  reply_bytes_ += whole;
}

Code Run::read(const Operation& operation) noexcept {
  Workplace place;  // NOLINT(cppcoreguidelines-pro-type-member-init): find_target fills it.
  if (const Code code = find_target(operation, place); code != Code::kOk) return code;
  uint64_t bytes = std::min<uint64_t>(operation.header.bytes, place.bound);
  // A slot does not say how long its buffer is.
  if (operation.has(Flag::kSlotWord)) bytes = std::min(bytes, place.left);
  if (!may(place, ChainRights::kRead, bytes)) return Code::kAccessDenied;
  if (operation.has(Flag::kRedirect)) {
    // The source may be the scratch itself.
    std::memmove(connection_.scratch() + operation.header.mode, place.memory, bytes);
    return Code::kOk;
  }
  if (!has_room(bytes)) return Code::kTooLarge;
  put_out(place.memory, bytes);
  return Code::kOk;
}

Code Run::write(const Operation& operation) noexcept {
  const uint64_t bytes = operation.header.bytes;
  Workplace place;  // NOLINT(cppcoreguidelines-pro-type-member-init): find_target fills it.
  if (const Code code = find_target(operation, place); code != Code::kOk) return code;
  if (bytes > place.bound) return Code::kTooLarge;
  if (!may(place, ChainRights::kWrite, bytes)) return Code::kAccessDenied;
  std::span<const std::byte> data = operation.data();
  uint64_t scratch_from = 0;
  uint64_t scratch_bytes = 0;
  if (operation.has(Flag::kDataIndirect)) {
    Workplace source;  // NOLINT(cppcoreguidelines-pro-type-member-init): reach fills it.
    if (const Code code = reach(RemotePointer{operation.header.operand}, source); code != Code::kOk)
      return code;
    if (!may(source, ChainRights::kRead, bytes)) return Code::kAccessDenied;
    if (source.writer == nullptr) {
      scratch_from = source.at;
      scratch_bytes = bytes;
    }
    // By way of a place of its own, since the two may overlap.
    if (bytes > 0) copy_possibly_torn(executor_.bounce_.data(), source.memory, bytes);
    data = std::span(executor_.bounce_).first(bytes);
  }
  if (place.writer == nullptr) {
    if (bytes > 0) std::memcpy(place.memory, data.data(), bytes);
    return Code::kOk;
  }
  if (region_->guard != nullptr && !region_->guard->may_write({place.at}, bytes)) return Code::kAccessDenied;
  store(*place.writer, {place.at}, data);
  for (Owned& owned : std::span(owned_).first(owned_count_)) {
    if (is_in(owned, scratch_from, scratch_bytes)) owned.is_stored = true;
  }
  return Code::kOk;
}

Code Run::allocate(const Operation& operation) noexcept {
  const RemotePointer list{operation.header.address};
  const bool is_open = region_ != nullptr && region_->id == list.region() && region_->buffers != nullptr &&
                       rights_.cover(ChainRights::kAllocate);
  if (!is_open) return Code::kAccessDenied;
  const bool is_guarded = region_->guard != nullptr && !operation.has(Flag::kOwned);
  if (is_guarded && !region_->guard->may_allocate_unowned()) return Code::kAccessDenied;
  const bool is_redirected = operation.has(Flag::kRedirect);
  if (!is_redirected && !has_room(sizeof(uint64_t))) return Code::kTooLarge;
  const bool as_slot_word = operation.has(Flag::kSlotWord);
  if (as_slot_word && !region_->buffers->is_granular(list.offset())) return Code::kInvalidArgument;
  const Result<Buffers::Fresh> fresh = region_->buffers->allocate(list.offset(), operation.data());
  if (!fresh) return fresh.error().code;
  const Offset offset{fresh->at.value - region_->start.value};
  const uint64_t word = as_slot_word ? operation.header.operand | SlotWord::of(offset, fresh->stamp).bits
                                     : RemotePointer::at(region_->id, offset.value).bits;
  if (operation.has(Flag::kOwned)) {
    owned_[owned_count_++] = {.buffers = region_->buffers,
                              .at = fresh->at.value,
                              .bytes = fresh->bytes,
                              .stamp = fresh->stamp,
                              .word = word,
                              .scratch_at = operation.header.mode,
                              .is_stored = false};
  }
  if (is_redirected) {
    std::memcpy(connection_.scratch() + operation.header.mode, &word, sizeof(word));
  } else {
    put_out(&word, sizeof(word));
  }
  return Code::kOk;
}

bool Run::is_in(const Owned& owned, uint64_t scratch_at, uint64_t bytes) const noexcept {
  if (owned.scratch_at < scratch_at || owned.scratch_at + sizeof(uint64_t) > scratch_at + bytes) return false;
  return observe_u64(connection_.scratch() + owned.scratch_at) == owned.word;
}

}  // namespace refract::prism::snic
