// SPDX-License-Identifier: Apache-2.0
// The direct read that settles everything: all slots that match, along a bucket's lines, values of any length
// and with an expiry, as often as a busy writer spoils it. What makes it right stands in direct_reader.h.
// Only what lies beyond kLinesWalked lines is left to the owner: kInvalidated.
//
// Threads: one. Memory, view and clock outlive the reader.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/direct/quick_reader.h"
#include "refract/kv/direct/table_view.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/pins.h"

namespace refract::kv {

// Sinks beside those that give room for a copy. The first one needs nothing of the value, the second one its
// place, pinned. `pin` -1: it is not.
struct NoCopy {};
struct PinSink {
  int pin = -1;
  Offset value{};
};

// A value that fits the room is copied into it, any other is pinned.
struct CopyOrPin : PinSink {
  std::span<std::byte> room;
};

template <typename Memory>
class CarefulReader {
 public:
  CarefulReader(Memory& memory, TableView<Memory>& view, const Clock& clock) noexcept
      : memory_(memory), view_(view), clock_(clock) {}

  template <typename Sink>
  [[nodiscard]] Found read(std::span<const std::byte> key, uint64_t hash, Sink& sink) noexcept {
    bool is_beyond = false;
    for (int attempt = 0; attempt < View::kAttempts && !is_beyond; ++attempt) {
      const Found found = search(key, hash, sink, is_beyond);
      if (found.code != Code::kInvalidated) return found;
    }
    return {.code = Code::kInvalidated};
  }

 private:
  using View = TableView<Memory>;
  using Seen = typename View::Seen;

  // A copy of this length takes long enough that a busy writer could spoil every attempt.
  static constexpr uint64_t kPinnedBytes = 16 << 10;

  // `is_beyond`: it is not in the lines that readers follow, and there are more.
  template <typename Sink>
  [[nodiscard]] Found search(std::span<const std::byte> key, uint64_t hash, Sink& sink,
                             bool& is_beyond) noexcept {
    const uint64_t count = view_.observe_count();
    const uint8_t fingerprint = Slot::fingerprint_of(hash);
    Offset line = view_.bucket_of(hash, count);
    for (int hop = 0; hop < kLinesWalked; ++hop) {
      if (!view_.is_inside(line, kLineBytes)) return {.code = Code::kCorrupt};
      for (uint32_t hits = memory_.match(line, fingerprint); hits != 0; hits &= hits - 1) {
        const Offset slot_at = line.plus(static_cast<uint64_t>(std::countr_zero(hits)) * sizeof(Slot));
        const Slot slot{memory_.observe(slot_at)};
        if (!slot || slot.fingerprint() != fingerprint) continue;
        Found found;
        if (read_buffer(slot_at, slot, key, sink, found)) return found;
      }
      line = line_at(memory_.observe(line.plus(kOverflowWord * sizeof(Slot))));
      if (!line) return {.code = view_.observe_count() == count ? Code::kNotFound : Code::kInvalidated};
    }
    is_beyond = true;
    return {.code = Code::kInvalidated};
  }

  // True: `found` is the answer (perhaps "retry"). False: the slot is for certain another key's.
  template <typename Sink>
  [[nodiscard]] bool read_buffer(Offset slot_at, Slot slot, std::span<const std::byte> key, Sink& sink,
                                 Found& found) noexcept {
    Seen seen{.slot_at = slot_at, .slot = slot};
    if (!view_.see(seen, found.code)) return true;
    if (!has_key(seen, key)) {
      if (view_.is_current(seen)) return false;
      found.code = Code::kInvalidated;
      return true;
    }
    if (seen.lengths.is_pending()) [[unlikely]] {
      found.code = view_.settle(seen);
      if (found.code == Code::kNotFound && !view_.is_current(seen)) found.code = Code::kInvalidated;
      if (found.code != Code::kOk) return true;
    }
    const Lengths lengths = seen.lengths;
    const Offset buffer = seen.slot.buffer();
    found = {.code = Code::kOk, .version = seen.stamp, .value_bytes = lengths.value_bytes};
    if ((lengths.flags & Lengths::kExpires) != 0) {
      found.expires_wall_ns = memory_.observe(buffer.plus(kExpiryAt));
      if (clock_.wall_ns() >= found.expires_wall_ns) {
        found.code = view_.is_current(seen) ? Code::kNotFound : Code::kInvalidated;
        return true;
      }
    }
    found.code = take_value(seen, sink);
    return true;
  }

  [[nodiscard]] bool has_key(const Seen& seen, std::span<const std::byte> key) noexcept {
    return seen.lengths.key_bytes == key.size() &&
           memory_.equals(seen.slot.buffer().plus(seen.lengths.key_at()), key);
  }

  [[nodiscard]] Code take_value(const Seen& seen, NoCopy&) noexcept {
    return view_.is_current(seen) ? Code::kOk : Code::kInvalidated;
  }

  [[nodiscard]] Code take_value(const Seen& seen, CopyOrPin& sink) noexcept {
    if (seen.lengths.value_bytes > sink.room.size()) {
      return memory_.pins() == nullptr ? Code::kUnsupported : take_value(seen, static_cast<PinSink&>(sink));
    }
    const auto room = [&](uint64_t) noexcept { return sink.room.data(); };
    return take_value(seen, room);
  }

  [[nodiscard]] Code take_value(const Seen& seen, PinSink& sink) noexcept {
    const Offset buffer = seen.slot.buffer();
    sink.value = buffer.plus(seen.lengths.value_at());
    sink.pin = memory_.pins()->pin(buffer, seen.stamp);
    if (sink.pin < 0) return Code::kOverloaded;
    // The pin was announced before this look at the slot: the owner, which stores the slot before it looks at
    // pins, either sees the pin or this sees the slot changed.
    if (view_.is_current(seen)) return Code::kOk;
    memory_.pins()->unpin(sink.pin);
    sink.pin = -1;
    return Code::kInvalidated;
  }

  template <typename Sink>
  [[nodiscard]] Code take_value(const Seen& seen, Sink& sink) noexcept {
    const uint64_t bytes = seen.lengths.value_bytes;
    std::byte* target = sink(bytes);
    if (target == nullptr) return view_.is_current(seen) ? Code::kTooLarge : Code::kInvalidated;
    PinWriter* pins = bytes >= kPinnedBytes ? memory_.pins() : nullptr;
    const int pin = pins == nullptr ? -1 : pins->pin(seen.slot.buffer(), seen.stamp);
    Code code = Code::kInvalidated;
    if (pin < 0 || view_.is_current(seen)) {
      copy_value(target, seen.slot.buffer().plus(seen.lengths.value_at()), bytes);
      // A pinned buffer keeps its stamp, if the owner, which honours pins, is still there; its slot may well
      // have changed, which is no reason to start again.
      if (pin >= 0 ? view_.has_stamp(seen) : view_.is_current(seen)) code = Code::kOk;
    }
    if (pin >= 0) pins->unpin(pin);
    return code;
  }

  // Of any length: a policy may have a way of its own for the longest.
  void copy_value(std::byte* target, Offset at, uint64_t bytes) noexcept {
    if constexpr (requires { memory_.copy_value(target, at, bytes); }) {
      memory_.copy_value(target, at, bytes);
    } else {
      memory_.copy(target, at, bytes);
    }
  }

  Memory& memory_;
  TableView<Memory>& view_;
  const Clock& clock_;
};

}  // namespace refract::kv
