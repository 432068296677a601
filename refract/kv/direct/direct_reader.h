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
#include <span>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/direct/careful_reader.h"
#include "refract/kv/direct/direct_scan.h"
#include "refract/kv/direct/quick_reader.h"
#include "refract/kv/direct/table_view.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/pins.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

template <typename Memory>
class DirectReader {
 public:
  // `memory` and `clock` outlive the reader. REQUIRES: the space's header passed Heap::check_header.
  DirectReader(Memory& memory, const Clock& clock) noexcept
      : memory_(memory),
        clock_(clock),
        view_(memory),
        quick_(memory, view_),
        careful_(memory, view_, clock) {}

  // Its parts refer to each other.
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;
  ~DirectReader() = default;

  [[nodiscard]] uint64_t hash(std::span<const std::byte> key) const noexcept { return view_.hash(key); }
  [[nodiscard]] uint64_t hash_seed() const noexcept { return view_.hash_seed(); }
  // The common case alone.
  [[nodiscard]] QuickReader<Memory>& quick() noexcept { return quick_; }

  // Reads the entry. `sink(value_bytes)` is asked for room once the length is known for certain, perhaps
  // several times; null means "does not fit". After an outcome other than kOk the room's bytes are undefined.
  template <typename Sink>
  [[nodiscard]] Found get(std::span<const std::byte> key, uint64_t hash, Sink&& sink) noexcept {
    Found found;
    if (quick_.get(key, hash, sink, found)) [[likely]]
      return found;
    return get_any(key, hash, sink);
  }

  // get for callers that want its common case inline and the rest out of line: quick_reader.h. False: call
  // get.
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
  // look for callers that want its common case inline. False: call look.
  [[nodiscard, gnu::always_inline]] bool look_at_once(std::span<const std::byte> key, uint64_t hash,
                                                      Found& found) noexcept {
    return quick_.look(key, hash, found);
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
  // pin for callers that want its common case inline. False: call pin.
  [[nodiscard, gnu::always_inline]] bool pin_at_once(std::span<const std::byte> key, uint64_t hash,
                                                     Pinned& pinned) noexcept {
    PinHold hold{.pins = memory_.pins()};
    if (hold.pins == nullptr || !quick_.locate(key, hash, hold, pinned.found, pinned.value)) [[unlikely]]
      return pin_long_at_once(key, hash, pinned);
    return took(hold, pinned);
  }
  // The same, but a value that fits `room` is copied into it, and `pin` is -1. For callers whose common cases
  // (get_at_once, pin_at_once) have settled nothing: one search, where get and pin would be two.
  [[nodiscard, gnu::noinline, gnu::cold]] Pinned copy_or_pin(std::span<const std::byte> key, uint64_t hash,
                                                             std::span<std::byte> room) noexcept {
    quick_.look_again();
    CopyOrPin sink{{}, room};
    const Found found = careful_.read(key, hash, sink);
    return {.found = found, .pin = sink.pin, .value = sink.value};
  }
  void unpin(int pin) noexcept { memory_.pins()->unpin(pin); }

  // The stages of gets whose misses overlap (quick_reader.h): begin() once, the three stages of each key,
  // get().
  using Ahead = typename QuickReader<Memory>::Ahead;
  [[gnu::always_inline]] void begin() noexcept {
    if (!quick_.is_current()) [[unlikely]]
      quick_.look_again();
  }
  [[gnu::always_inline]] void fetch_bucket(uint64_t hash, Ahead& ahead) const noexcept {
    quick_.fetch_bucket(hash, ahead);
  }
  [[gnu::always_inline]] void fetch_buffer(Ahead& ahead) const noexcept { quick_.fetch_buffer(ahead); }
  [[gnu::always_inline]] void fetch_behind(Ahead& ahead) const noexcept { quick_.fetch_behind(ahead); }
  // As the other. REQUIRES: key.size() <= kKeyBytesMax.
  template <typename Sink>
  [[nodiscard, gnu::always_inline]] bool get_at_once(const Ahead& ahead, std::span<const std::byte> key,
                                                     Sink& sink, Found& found) noexcept {
    return quick_.get(ahead.lead, key, sink, found);
  }
  // The same for keys one by one, gets some calls behind.
  void announce(uint64_t hash) noexcept {
    begin();
    const auto at = [&](size_t earlier) noexcept -> Ahead& {
      return announced_[(next_announced_ - earlier) % announced_.size()];
    };
    fetch_bucket(hash, at(0));
    fetch_buffer(at(kAnnouncedAhead / 2 - 1));
    fetch_behind(at(kAnnouncedAhead - 2));
    ++next_announced_;
  }
  // How many announcements before its get a key's is best.
  static constexpr size_t kAnnouncedAhead = 8;

  // One page of a scan: the keys of whole buckets from the cursor on, until `keys_min` or more were given to
  // `visit(key, version, value_bytes)`. An entry present throughout a scan is visited at least once; one may
  // be visited twice. `next` 0: that was the last page. kInvalidated: the owner has to be asked for this
  // page, because its bucket is crowded or never rests.
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
      // What was visited is a page, too; the next one begins with the bucket that is in the way.
      if (code == Code::kInvalidated && visited > 0) return {.next = cursor};
      if (code != Code::kOk) return {.code = code};
    } while (cursor != 0 && visited < keys_min);
    return {.next = cursor};
  }

 private:
  struct PinHold {
    PinWriter* pins = nullptr;
    int pin = -1;
    [[nodiscard]] bool operator()(Offset buffer) noexcept {
      pin = pins->pin(buffer, 0);
      return pin >= 0;
    }
    void undo() const noexcept { pins->unpin(pin); }
  };
  [[nodiscard, gnu::always_inline]] static bool took(const PinHold& hold, Pinned& pinned) noexcept {
    pinned.pin = hold.pin;
    hold.pins->note_stamp(hold.pin, pinned.found.version);
    return true;
  }
  [[nodiscard, gnu::noinline]] bool pin_long_at_once(std::span<const std::byte> key, uint64_t hash,
                                                     Pinned& pinned) noexcept {
    PinHold hold{.pins = memory_.pins()};
    return hold.pins != nullptr && quick_.locate_long(key, hash, hold, pinned.found, pinned.value) &&
           took(hold, pinned);
  }
  [[nodiscard, gnu::noinline, gnu::cold]] Pinned pin_any(std::span<const std::byte> key,
                                                         uint64_t hash) noexcept {
    if (memory_.pins() == nullptr) return {.found = {.code = Code::kUnsupported}};
    quick_.look_again();
    PinSink sink;
    const Found found = careful_.read(key, hash, sink);
    return {.found = found, .pin = sink.pin, .value = sink.value};
  }
  // Out of line: inlined, its registers would cost the common get a third of its instructions.
  template <typename Sink>
  [[nodiscard, gnu::noinline, gnu::cold]] Found get_any(std::span<const std::byte> key, uint64_t hash,
                                                        Sink& sink) noexcept {
    quick_.look_again();
    return careful_.read(key, hash, sink);
  }

  Memory& memory_;
  const Clock& clock_;
  TableView<Memory> view_;
  QuickReader<Memory> quick_;
  CarefulReader<Memory> careful_;
  std::array<Ahead, kAnnouncedAhead> announced_{};
  size_t next_announced_ = 0;
};

}  // namespace refract::kv
