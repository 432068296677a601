// SPDX-License-Identifier: Apache-2.0
// How a client reads the table by itself, while its owner changes it: no message, no lock, no trace.
//
// Why an accepted value is right (docs/design/007-reuse.md has the whole argument): a value is accepted only
// if the buffer carried one stamp from before its lengths were trusted until after the copy, the slot named
// that stamp, and the slot still holds the same word afterwards. By (I2) the bytes then are one complete
// content, by (I1) it was the entry's value at a moment within the call. A miss is accepted only if the
// bucket count did not change (I3).
#pragma once

#include <array>
#include <bit>
#include <span>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/direct_scan.h"
#include "refract/kv/layout.h"
#include "refract/kv/quick_reader.h"
#include "refract/kv/table_view.h"
#include "refract/memory/pins.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

template <typename Memory>
class DirectReader {
 public:
  // `memory` and `clock` outlive the reader. REQUIRES: the space's header passed Heap::check_header.
  DirectReader(Memory& memory, const Clock& clock) noexcept
      : memory_(memory), clock_(clock), view_(memory), quick_(memory, view_) {}

  [[nodiscard]] uint64_t hash(std::span<const std::byte> key) const noexcept { return view_.hash(key); }

  // Reads the entry. `sink(value_bytes)` is asked for room once the length is known for certain, perhaps
  // several times; null means "does not fit". After an outcome other than kOk the room's bytes are undefined.
  template <typename Sink>
  [[nodiscard]] Found get(std::span<const std::byte> key, uint64_t hash, Sink&& sink) noexcept {
    Found found;
    if (quick_.get(key, hash, sink, found)) [[likely]]
      return found;
    return get_any(key, hash, sink);
  }

  // get for those who want its common case inline and the rest out of line: quick_reader.h. False: call get.
  template <typename Sink>
  [[nodiscard, gnu::always_inline]] bool get_at_once(std::span<const std::byte> key, uint64_t hash,
                                                     Sink& sink, Found& found) noexcept {
    return quick_.get(key, hash, sink, found);
  }

  // Whether the entry is there, with version and length.
  [[nodiscard]] Found look(std::span<const std::byte> key, uint64_t hash) noexcept {
    Found found;
    if (look_at_once(key, hash, found)) [[likely]]
      return found;
    NoCopy sink;
    return get_any(key, hash, sink);
  }
  // look for those who want its common case inline. False: call look.
  [[nodiscard, gnu::always_inline]] bool look_at_once(std::span<const std::byte> key, uint64_t hash,
                                                      Found& found) noexcept {
    NoHold hold;
    Offset value;
    return quick_.locate(key, hash, hold, found, value);
  }

  // Finds the value and pins its buffer in this client's page, so that it stays as it is until unpin(pin).
  // The value lies at `value`. kOverloaded: the page has no room for another pin.
  struct Pinned {
    Found found;
    int pin = -1;
    Offset value{};
  };
  [[nodiscard]] Pinned pin(std::span<const std::byte> key, uint64_t hash) noexcept {
    Pinned pinned;
    return pin_at_once(key, hash, pinned) ? pinned : pin_any(key, hash);
  }
  // pin for those who want its common case inline. False: call pin.
  [[nodiscard, gnu::always_inline]] bool pin_at_once(std::span<const std::byte> key, uint64_t hash,
                                                     Pinned& pinned) noexcept {
    PinHold hold{.pins = memory_.pins()};
    if (hold.pins == nullptr || !quick_.locate(key, hash, hold, pinned.found, pinned.value)) [[unlikely]]
      return false;
    pinned.pin = hold.pin;
    hold.pins->note_stamp(hold.pin, pinned.found.version);
    return true;
  }
  void unpin(int pin) noexcept { memory_.pins()->unpin(pin); }

  // Two stages that a multi_get runs ahead of get, so that the misses of many keys overlap.
  void prefetch_bucket(uint64_t hash) noexcept {
    if (!quick_.is_current()) [[unlikely]]
      quick_.look_again();
    memory_.prefetch(quick_.known_bucket_of(hash));
  }
  using Lead = typename QuickReader<Memory>::Lead;
  Lead prefetch_buffer(uint64_t hash) noexcept {
    Lead lead{};
    if (!quick_.is_current() || !quick_.find(hash, lead)) [[unlikely]]
      return {};
    // Wherever that is: a prefetch is a hint, and no address makes it fail.
    memory_.prefetch(lead.slot.buffer());
    memory_.prefetch(lead.slot.buffer().plus(kLineBytes));
    return lead;
  }
  // The third: get, from what the second has seen.
  template <typename Sink>
  [[nodiscard]] Found get_ahead(const Lead& lead, std::span<const std::byte> key, uint64_t hash,
                                Sink&& sink) noexcept {
    Found found;
    if (lead.slot && quick_.get(lead, key, sink, found)) [[likely]]
      return found;
    return get_any(key, hash, sink);
  }
  // The same for keys one by one, gets some calls behind: the bucket is fetched now, and the buffers once so
  // many other keys have been announced that the bucket has come.
  void announce(uint64_t hash) noexcept {
    prefetch_bucket(hash);
    uint64_t& earlier = announced_[next_announced_++ % announced_.size()];
    (void)prefetch_buffer(earlier);
    earlier = hash;
  }
  // How many announcements before its get a key's is best.
  static constexpr size_t kAnnouncedAhead = 8;

  // One page of a scan: the keys of whole buckets from the cursor on, until `keys_min` or more were given to
  // `visit(key, version, value_bytes)`. An entry present throughout a scan is visited at least once; one may
  // be visited twice. `next` 0: that was the last page.
  struct Page {
    Code code = Code::kOk;
    uint64_t next = 0;
  };
  template <typename Visit>
  [[nodiscard]] Page scan(uint64_t cursor, size_t keys_min, Visit&& visit) {
    DirectScan<Memory> scan(view_, clock_);
    size_t visited = 0;
    do {
      const Code code = scan.next_bucket(cursor, [&](const ScannedKey& entry) {
        ++visited;
        visit(std::span<const std::byte>(entry.key), entry.version, entry.value_bytes);
      });
      if (code != Code::kOk) return {.code = code};
    } while (cursor != 0 && visited < keys_min);
    return {.next = cursor};
  }

 private:
  using View = TableView<Memory>;
  using Seen = typename View::Seen;

  static constexpr int kAttempts = View::kAttempts;
  // A copy of this length takes long enough that a busy writer could spoil every attempt.
  static constexpr uint64_t kPinnedBytes = 16 << 10;

  struct NoCopy {
    std::byte* operator()(uint64_t) const noexcept { return nullptr; }
  };
  struct PinSink {
    int pin = -1;
    Offset value{};
  };
  struct NoHold {
    [[nodiscard]] bool operator()(Offset) const noexcept { return true; }
    void undo() const noexcept {}
  };
  struct PinHold {
    PinWriter* pins = nullptr;
    int pin = -1;
    [[nodiscard]] bool operator()(Offset buffer) noexcept {
      pin = pins->pin(buffer, 0);
      return pin >= 0;
    }
    void undo() const noexcept { pins->unpin(pin); }
  };
  [[nodiscard, gnu::noinline, gnu::cold]] Pinned pin_any(std::span<const std::byte> key,
                                                         uint64_t hash) noexcept {
    if (memory_.pins() == nullptr) return {.found = {.code = Code::kUnsupported}};
    quick_.look_again();
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      PinSink sink;
      Pinned pinned{.found = search(key, hash, sink)};
      pinned.pin = sink.pin;
      pinned.value = sink.value;
      if (pinned.found.code != Code::kInvalidated) return pinned;
    }
    return {.found = {.code = Code::kInvalidated}};
  }
  // Out of line: inlined, its registers would cost the common get a third of its instructions.
  template <typename Sink>
  [[nodiscard, gnu::noinline, gnu::cold]] Found get_any(std::span<const std::byte> key, uint64_t hash,
                                                        Sink& sink) noexcept {
    quick_.look_again();
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const Found found = search(key, hash, sink);
      if (found.code != Code::kInvalidated) return found;
    }
    return {.code = Code::kInvalidated};
  }

  template <typename Sink>
  [[nodiscard]] Found search(std::span<const std::byte> key, uint64_t hash, Sink& sink) noexcept {
    const uint64_t count = view_.observe_count();
    const uint8_t fingerprint = Slot::fingerprint_of(hash);
    Offset line = view_.bucket_of(hash, count);
    for (int hop = 0; hop < View::kChainMax; ++hop) {
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
    return {.code = Code::kInvalidated};
  }

  // True: `found` is the answer (perhaps "retry"). False: the slot is for certain another key's.
  template <typename Sink>
  [[nodiscard]] bool read_buffer(Offset slot_at, Slot slot, std::span<const std::byte> key, Sink& sink,
                                 Found& found) noexcept {
    Seen seen{.slot_at = slot_at, .slot = slot};
    if (!view_.see(seen, found.code)) return true;
    const Lengths lengths = seen.lengths;
    const Offset buffer = slot.buffer();
    if (lengths.key_bytes != key.size() || !memory_.equals(buffer.plus(lengths.key_at()), key)) {
      if (view_.is_current(seen)) return false;
      found.code = Code::kInvalidated;
      return true;
    }
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

  [[nodiscard]] Code take_value(const Seen& seen, NoCopy&) noexcept {
    return view_.is_current(seen) ? Code::kOk : Code::kInvalidated;
  }

  [[nodiscard]] Code take_value(const Seen& seen, PinSink& sink) noexcept {
    const Offset buffer = seen.slot.buffer();
    sink.value = buffer.plus(seen.lengths.value_at());
    sink.pin = memory_.pins()->pin(buffer, seen.stamp);
    if (sink.pin < 0) return Code::kOverloaded;
    // The pin was announced before this look at the slot: the owner, who stores the slot before it looks at
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
      memory_.copy(target, seen.slot.buffer().plus(seen.lengths.value_at()), bytes);
      // A pinned buffer keeps its stamp, if whoever honours pins is still there; its slot may well have moved
      // on, which is no reason to start again.
      if (pin >= 0 ? view_.has_stamp(seen) : view_.is_current(seen)) code = Code::kOk;
    }
    if (pin >= 0) pins->unpin(pin);
    return code;
  }

  Memory& memory_;
  const Clock& clock_;
  TableView<Memory> view_;
  QuickReader<Memory> quick_;
  std::array<uint64_t, kAnnouncedAhead / 2> announced_{};  // Hashes.
  size_t next_announced_ = 0;
};

}  // namespace refract::kv
