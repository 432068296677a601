// SPDX-License-Identifier: Apache-2.0
// Many finds or puts at once, in the stages of the direct reader (kv/direct/quick_reader.h): bucket; slot and
// buffer; the line behind, of keys that no slot of the first may name; compare.
#include <bit>
#include <cstddef>
#include <span>
#include <utility>

#include "refract/base/hash.h"
#include "refract/kv/layout/same_bytes.h"
#include "refract/kv/layout/slot_match.h"
#include "refract/kv/owner/table/table.h"

namespace refract::kv {

void Table::seek(std::span<const std::byte> key, Sought& sought) const noexcept {
  const uint64_t hash = hash_key(key, hash_seed_);
  sought.key = {key, hash};
  sought.line = bucket_of(hash);
  sought.slot = {};
  __builtin_prefetch(writer_.at(sought.line));
}

// The stages of many, between which the other keys have theirs.
class Table::Search {
 public:
  explicit Search(Table& table) noexcept : table_(table), writer_(table.writer_) {}

  // All stages but the last.
  [[gnu::always_inline]] void fetch(std::span<Sought> many) const noexcept {
    bool all_match = true;
    for (Sought& one : many) {
      fetch_buffers(one);
      all_match = all_match && !one.line;
    }
    if (all_match) return;
    for (Sought& one : many) fetch_behind(one);
  }

  // What most are: the first slot that matches, and a small value without an expiry and an identity.
  [[nodiscard, gnu::always_inline]] bool find_at_once(Sought& sought) const {
    const std::span<const std::byte> key = sought.key.bytes;
    const uint64_t value_bytes = value_bytes_if_plain(sought.slot, key);
    if (value_bytes == kNotPlain) [[unlikely]]
      return false;
    const Offset buffer = sought.slot.buffer();
    table_.was_used(sought.slot_at);
    sought.code = Code::kOk;
    sought.version = writer_.load(buffer);
    sought.value = {writer_.at(buffer) + sizeof(BufferHeader) + key.size(), value_bytes};
    sought.expires_wall_ns = 0;
    return true;
  }
  // What the slot that was found says now, if that still is such an entry of the key; else a free slot.
  [[nodiscard, gnu::always_inline]] Slot slot_now(const Sought& sought) const noexcept {
    if (!sought.slot) [[unlikely]]
      return {};
    const Slot slot = table_.slot_at(sought.slot_at);
    return value_bytes_if_plain(slot, sought.key.bytes) != kNotPlain ? slot : Slot{};
  }

 private:
  static constexpr uint64_t kNotPlain = UINT64_MAX;

  // What matches in the first line; where nothing does, the next line is fetched, and is looked at next.
  void fetch_buffers(Sought& sought) const noexcept {
    if (table_.crowds_ != nullptr) [[unlikely]] {
      sought.line = {};
      return table_.prefetch_buffers(sought.key);
    }
    if (const uint32_t hits = match(sought); hits != 0) [[likely]]
      return fetch_hits(hits, sought);
    sought.line = table_.line_behind(sought.line);
    __builtin_prefetch(writer_.at(sought.line));
  }
  void fetch_behind(Sought& sought) const noexcept {
    const uint32_t hits = sought.line ? match(sought) : 0;
    if (hits != 0) fetch_hits(hits, sought);
  }

  [[nodiscard, gnu::always_inline]] uint64_t value_bytes_if_plain(
      Slot slot, std::span<const std::byte> key) const noexcept {
    if (!slot) [[unlikely]]
      return kNotPlain;
    const Offset buffer = slot.buffer();
    // The upper half is the key's length, and flags that must be clear: what is left is the value's.
    const uint64_t value_bytes =
        writer_.load(buffer.plus(offsetof(BufferHeader, lengths))) ^ (uint64_t{key.size()} << 32);
    const std::byte* const key_at = writer_.at(buffer) + sizeof(BufferHeader);
    if (value_bytes >= Lengths::kAlignedValueBytes || !same_bytes(key_at, key.data(), key.size()))
        [[unlikely]]
      return kNotPlain;
    return value_bytes;
  }
  [[nodiscard]] uint32_t match(const Sought& sought) const noexcept {
    return match_slots(writer_.at(sought.line), Slot::fingerprint_of(sought.key.hash));
  }
  [[gnu::always_inline]] void fetch_hits(uint32_t hits, Sought& sought) const noexcept {
    const Offset line = std::exchange(sought.line, {});
    const auto slot_of = [line](uint32_t left) noexcept {
      return line.plus(static_cast<uint64_t>(std::countr_zero(left)) * sizeof(Slot));
    };
    sought.slot_at = slot_of(hits);
    sought.slot = table_.slot_at(sought.slot_at);
    fetch(sought.slot);
    while ((hits &= hits - 1) != 0) [[unlikely]]
      fetch(table_.slot_at(slot_of(hits)));
  }
  void fetch(Slot slot) const noexcept {
    __builtin_prefetch(writer_.at(slot.buffer()));
    __builtin_prefetch(writer_.at(slot.buffer()) + kLineBytes);
  }

  Table& table_;
  const Writer& writer_;
};

uint64_t Table::fetch(std::span<Sought> many) noexcept {
  Search(*this).fetch(many);
  return stats_.places_moved();
}

void Table::find(std::span<Sought> many) {
  const Search search(*this);
  search.fetch(many);
  for (Sought& one : many) {
    if (search.find_at_once(one)) [[likely]]
      continue;
    const Result<Entry> entry = find(one.key);
    one.code = entry.code();
    if (!entry) continue;
    one.version = entry->version;
    one.value = entry->value;
    one.expires_wall_ns = entry->expires_wall_ns;
  }
}

// The place is the key's still: only puts came in between, and none of them has moved a slot, so that the
// line is one of the key's bucket.
[[gnu::flatten]] Result<uint64_t> Table::put(const Sought& sought, std::span<const std::byte> value,
                                             const PutOptions& options, uint64_t places_moved) {
  if (is_held(sought.key.hash)) [[unlikely]]
    return fail(Code::kOverloaded);
  if (places_moved == stats_.places_moved() && options.is_plain()) [[likely]] {
    const TablePlace place{.slot_at = sought.slot_at, .slot = Search(*this).slot_now(sought), .tail = {}};
    if (const uint64_t version = replace(sought.key, value, place); version != 0) [[likely]]
      return version;
  }
  return put_at(locate(sought.key), sought.key, value, options);
}

}  // namespace refract::kv
