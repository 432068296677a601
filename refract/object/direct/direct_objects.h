// SPDX-License-Identifier: Apache-2.0
// How a client finds and holds objects by itself, while their owner changes the table: no message, no lock.
//
// Why an object that is held is right (O2 in object_layout.h): its record was found, the pin of what the
// record names was announced, and then the record was found again with the same version. A record with that
// version was never removed in between, so the owner that removes it later sees the pin. By (O1) the bytes
// are those of the object, and stay so until the pin is let go of.
//
// A template over the memory, as kv/direct is (table_view.h says what a Memory gives). Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/memory/wide_pins.h"
#include "refract/object/direct/holding_memory.h"
#include "refract/object/layout/object_key.h"
#include "refract/object/layout/object_layout.h"

namespace refract::object {

template <typename Memory>
class DirectObjects {
 public:
  using Reader = kv::DirectReader<Memory>;

  // All outlive this. REQUIRES: the space's header passed Heap::check_header.
  DirectObjects(Memory& memory, WidePins& pins, const Clock& clock) noexcept
      : memory_(memory),
        pins_(pins),
        hold_(pins),
        holding_memory_(memory, hold_),
        holder_(holding_memory_, clock),
        reader_(memory, clock) {}
  DirectObjects(const DirectObjects&) = delete;
  DirectObjects& operator=(const DirectObjects&) = delete;
  ~DirectObjects() = default;

  // kOk, kNotFound, kOverloaded (all pins are in use), kInvalidated (ask the owner), kCorrupt (the object
  // lies outside of what may be read: grow the view first).
  struct Held {
    Code code = Code::kNotFound;
    int pin = -1;  // Of kOk alone. let_go() gives it back.
    ObjectRecord record{};
  };
  [[nodiscard]] Held hold(std::span<const std::byte> id) noexcept {
    const ObjectKey key(KeyKind::kSealed, id);
    const uint64_t hash = reader_.hash(key.bytes());
    Held held;
    if (!hold_at_once(key, hash, id.size(), held)) [[unlikely]]
      hold_carefully(key, hash, id.size(), held);
    return held;
  }

  // The record as it was at a moment within the call; codes as hold() without kOverloaded.
  [[nodiscard]] Code look(std::span<const std::byte> id, ObjectRecord& record) noexcept {
    const ObjectKey key(KeyKind::kSealed, id);
    uint64_t version = 0;
    return find(key.bytes(), reader_.hash(key.bytes()), record, version);
  }

  // For an object that the owner has named: holds it if the owner, asked again behind this, names it still.
  // -1: all pins are in use.
  [[nodiscard]] int pin(const ObjectRecord& record) noexcept {
    return pins_.pin(Offset{record.object_at}, record.birth);
  }
  void let_go(int pin) noexcept { pins_.unpin(pin); }

  // Whether an object of this record lies where it may be read.
  [[nodiscard]] bool is_inside(const ObjectRecord& record, size_t id_bytes) const noexcept {
    return object::is_inside(record, id_bytes, memory_.bytes());
  }

  // The sealed objects of whole buckets from the cursor on, until some `keys_min` keys were looked at:
  // `visit(id, record)`. One that is there throughout is visited at least once. `next` 0: that was the last
  // page. kInvalidated: ask the owner for this page.
  using Page = typename Reader::Page;
  template <typename Visit>
  [[nodiscard]] Page scan(uint64_t cursor, size_t keys_min, Visit&& visit) {
    Code code = Code::kOk;
    Page page = reader_.scan(cursor, keys_min, [&](std::span<const std::byte> key, uint64_t, uint64_t) {
      if (code != Code::kOk || key.size() < 2 ||
          key[0] != std::byte{static_cast<uint8_t>(KeyKind::kSealed)}) {
        return;
      }
      ObjectRecord record{};
      uint64_t version = 0;
      const Code found = find(key, reader_.hash(key), record, version);
      // Removed since its key was seen.
      if (found == Code::kNotFound) return;
      code = found;
      if (code == Code::kOk) visit(key.subspan(1), record);
    });
    if (page.code == Code::kOk) page.code = code;
    return page;
  }

 private:
  // The common case in one pass, with the same looks at slot, stamp and record before the pin and behind it.
  // False: nothing is held.
  [[nodiscard, gnu::always_inline]] bool hold_at_once(const ObjectKey& key, uint64_t hash, size_t id_bytes,
                                                      Held& held) noexcept {
    hold_.begin(id_bytes);
    holder_.begin();
    const auto room = [&](uint64_t bytes) noexcept {
      return bytes == sizeof(held.record) ? reinterpret_cast<std::byte*>(&held.record) : nullptr;
    };
    kv::Found found;
    if (holder_.get_at_once(key.bytes(), hash, room, found) && hold_.pin() >= 0) [[likely]] {
      held.code = Code::kOk;
      held.pin = hold_.pin();
      return true;
    }
    hold_.undo();
    return false;
  }

  [[gnu::noinline, gnu::cold]] void hold_carefully(const ObjectKey& key, uint64_t hash, size_t id_bytes,
                                                   Held& held) noexcept {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      uint64_t version = 0;
      held.code = find(key.bytes(), hash, held.record, version);
      if (held.code != Code::kOk) return;
      if (!is_inside(held.record, id_bytes)) {
        held.code = Code::kCorrupt;
        return;
      }
      held.pin = pin(held.record);
      if (held.pin < 0) {
        held.code = Code::kOverloaded;
        return;
      }
      // The body's miss is under way while the record is looked at again.
      memory_.prefetch(Offset{held.record.object_at + ObjectParts::body_at()});
      // All of it, though its version says the same: a read that was stopped for long may have taken bytes of
      // a body for a record, once (docs/design/050-objects.md, schedule 13).
      ObjectRecord again{};
      uint64_t version_again = 0;
      const Code code = find(key.bytes(), hash, again, version_again);
      if (code == Code::kOk && version_again == version && is_same(again, held.record)) return;
      let_go(held.pin);
      held.pin = -1;
      // Changed in between: it was kept, or removed, or is another object now.
    }
    held.code = Code::kInvalidated;
  }

  // Each is spoiled by a change of this very object.
  static constexpr int kAttempts = 256;

  [[nodiscard]] static bool is_same(const ObjectRecord& one, const ObjectRecord& other) noexcept {
    return std::memcmp(&one, &other, sizeof(one)) == 0;
  }

  [[nodiscard]] Code find(std::span<const std::byte> key, uint64_t hash, ObjectRecord& record,
                          uint64_t& version) noexcept {
    const auto room = [&](uint64_t bytes) noexcept {
      return bytes == sizeof(record) ? reinterpret_cast<std::byte*>(&record) : nullptr;
    };
    const kv::Found found = reader_.get(key, hash, room);
    version = found.version;
    // Of another length: no record of ours.
    return found.code == Code::kTooLarge ? Code::kCorrupt : found.code;
  }

  Memory& memory_;
  WidePins& pins_;
  RecordHold hold_;
  HoldingMemory<Memory> holding_memory_;
  kv::DirectReader<HoldingMemory<Memory>> holder_;
  Reader reader_;
};

}  // namespace refract::object
