// SPDX-License-Identifier: Apache-2.0
#include "apps/inspect/table_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/inspect/decoder.h"
#include "apps/inspect/transaction_words.h"
#include "apps/progress/progress.h"
#include "apps/records/shown_text.h"

#include "refract/base/hash.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/transaction_wire.h"

namespace refract::inspect {
namespace {

using kv::Lengths;
using kv::Slot;
using progress::bytes_text;

constexpr int kLooks = 8;
constexpr uint64_t kHexBytes = 128;
constexpr uint64_t kValueBytesShown = 1024;

std::string hex(uint64_t value) {
  return fmt::format("{:#x}", value);
}

std::string_view fate_text(uint64_t fate) {
  switch (static_cast<kv::wire::Fate>(fate)) {
    case kv::wire::Fate::kHappened:
      return "has happened, and is being applied";
    case kv::wire::Fate::kNever:
      return "never happens, and is being undone";
    default:
      return "open";
  }
}

Part far_part_of(const FarLook& look) {
  const kv::DecisionPlace home = look.home();
  Part part{.kind = "far_part"};
  part.hidden("offset", look.at.value).hidden("member", home.member()).hidden("shard", home.shard());
  part.hidden("word_at", home.at().value).hidden("number", look.part.number);
  part.hidden("generation", look.part.generation).hidden("fate", fate_text(look.part.fate));
  const std::string name = fmt::format("number {} by the decision word at {:#x} of shard {}",
                                       look.part.number, home.at().value, home.shard());
  if (look.is_decision()) {
    part.heading = fmt::format("{:#x}  {}: this node has decided it, in an earlier memory: it has happened",
                               look.at.value, name);
    return part;
  }
  part.heading = fmt::format("{:#x}  home member {}, {}: {}", look.at.value, home.member(), name,
                             fate_text(look.part.fate));
  for (const FarLook::Key& key : look.keys) {
    part.parts.push_back({.kind = "held_key",
                          .heading = fmt::format("holds {} ({})", records::in_quotes(key.key),
                                                 key.is_written ? "erased, and absent" : "read")});
    part.parts.back().bytes("key", std::as_bytes(std::span(key.key))).hidden("is_written", key.is_written);
    for (Field& field : part.parts.back().fields) field.text.clear();
  }
  return part;
}

std::string hint_text(uint8_t hint) {
  return hint < 15 ? fmt::format("at most {} B", 64ULL << hint) : std::string("more than 512 KiB");
}

}  // namespace

template <typename Visit>
void TableLook::walk(uint64_t bucket, const Visit& visit) {
  Offset line = words_.bucket_at(bucket);
  RingFinder ring;
  while (line && !ring.was_at(line)) {
    for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
      const Offset at = line.plus(i * sizeof(Slot));
      if (!visit(at, Slot{words_.observe(at)})) return;
    }
    bool is_sound = false;
    line = words_.line_after(line, is_sound);
    if (!is_sound) return;
  }
}

template <typename Is>
TableLook::Named TableLook::find(uint64_t hash, const Is& is) {
  Named named;
  const uint64_t count = words_.bucket_count();
  if (count == 0) return named;
  walk(kv::bucket_index(hash, count), [&](Offset at, Slot slot) {
    if (!slot || !is(at, slot)) return true;
    named = {.slot_at = at, .slot = slot};
    return false;
  });
  return named;
}

// What a slot names; looked at again while a server may be changing it.
SpaceWords::Entry TableLook::steady_entry(Offset slot_at, Slot& slot) {
  SpaceWords::Entry entry;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) {
      pause_();
      slot = {words_.observe(slot_at)};
    }
    if (!slot) return {};
    if (!words_.is_inside(slot.buffer(), sizeof(kv::BufferHeader))) {
      entry.fault = "the slot points outside the space";
    } else {
      entry = words_.entry_of(slot);
    }
    if (entry.fault == nullptr || !pause_) break;
  }
  return entry;
}

// Likewise.
const char* TableLook::steady_trailer_fault(Offset slot_at) {
  const char* fault = nullptr;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) pause_();
    Slot slot{words_.observe(slot_at)};
    const SpaceWords::Entry entry = steady_entry(slot_at, slot);
    const bool has_trailer = slot && entry.fault == nullptr && (entry.lengths.flags & Lengths::kBatch) != 0;
    fault = has_trailer ? fault_of_trailer(words_, slot, entry) : nullptr;
    if (fault == nullptr || !pause_) break;
  }
  return fault;
}

Part TableLook::slot(Offset at, uint64_t bucket, uint64_t number, uint64_t& used) {
  Part part{.kind = "slot"};
  Slot slot{words_.observe(at)};
  const SpaceWords::Entry entry = steady_entry(at, slot);
  part.hidden("slot", number).hidden("offset", at.value);
  part.hidden("word", fmt::format("{:#018x}", slot.bits));
  part.heading = fmt::format("slot {}  {:#010x}  ", number, at.value);
  if (!slot) {
    part.heading += "free";
    return part;
  }
  ++used;
  part.hidden("fingerprint", slot.fingerprint())
      .hidden("stamp_low", slot.bits >> Slot::kStampShift & 0xffff)
      .hidden("expires", slot.expires())
      .hidden("buffer", slot.buffer().value);
  part.heading += fmt::format("fingerprint {:#04x}  stamp ..{:04x}  {}{}  -> {:#x}", slot.fingerprint(),
                              slot.bits >> Slot::kStampShift & 0xffff, hint_text(slot.size_hint()),
                              slot.expires() ? ", expires" : "", slot.buffer().value);
  if (entry.fault != nullptr) {
    part.damage(at.value, entry.fault);
    return part;
  }
  part.heading +=
      fmt::format("  {}: {}", records::in_quotes(entry.key), bytes_text(entry.lengths.value_bytes));
  part.hidden("version", entry.stamp);
  Part key;
  key.bytes("key", std::as_bytes(std::span(entry.key)));
  for (Field& field : key.fields) {
    field.text.clear();
    part.fields.push_back(std::move(field));
  }
  part.hidden("value_bytes", entry.lengths.value_bytes);
  if (entry.lengths.is_pending()) part.heading += ", pending";
  part.hidden("pending", entry.lengths.is_pending());
  if (const char* const fault = steady_trailer_fault(at)) part.damage(slot.buffer().value, fault);
  switch (words_.standing_of(entry.hash, bucket)) {
    case SpaceWords::Standing::kRight:
      break;
    case SpaceWords::Standing::kMoving:
      part.heading += "  (moving to the last bucket)";
      break;
    case SpaceWords::Standing::kWrong:
      part.damage(at.value, "the entry stands in a bucket that is not its key's");
      break;
  }
  return part;
}

Part TableLook::line(Offset at, uint64_t index, uint64_t number, uint64_t& used) {
  Part part{.kind = number == 0 ? "line" : "overflow_line"};
  uint64_t here = 0;
  for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
    part.parts.push_back(slot(at.plus(i * sizeof(Slot)), index, i, here));
  }
  part.heading =
      fmt::format("{} at {:#x}: {} of {} slots {}", number == 0 ? "line" : "overflow line", at.value, here,
                  kv::kSlotsPerBucket, bar(here, kv::kSlotsPerBucket, kv::kSlotsPerBucket));
  part.hidden("offset", at.value).hidden("slots_used", here);
  used += here;
  return part;
}

Part TableLook::bucket(uint64_t index) {
  Part part{.kind = "bucket"};
  const uint64_t count = words_.bucket_count();
  part.hidden("bucket", index).hidden("buckets", count);
  if (index >= count) {
    part.heading = fmt::format("there is no bucket {}: the table has {}", index, count);
    part.is_nothing = true;
    return part;
  }
  Offset at = words_.bucket_at(index);
  if (!at) {
    part.heading = fmt::format("bucket {} of {}", index, count);
    part.damage(words_.directory_word_at(index).value, "the directory's word names no chunk of buckets");
    return part;
  }
  part.hidden("offset", at.value);
  part.heading = fmt::format("bucket {} of {} at {:#x}, ", index, count, at.value);
  uint64_t used = 0;
  uint64_t lines = 0;
  RingFinder ring;
  (void)ring.was_at(at);
  while (at) {
    part.parts.push_back(line(at, index, lines++, used));
    const uint64_t word_at = at.plus(kv::kOverflowWord * sizeof(Slot)).value;
    bool is_sound = false;
    at = words_.line_after(at, is_sound);
    if (!is_sound)
      part.damage(word_at, fmt::format("the chain continues at {:#x}, which is no line", at.value));
    const bool is_ring = is_sound && at && ring.was_at(at);
    if (is_ring) part.damage(word_at, "the chain does not end");
    if (!is_sound || is_ring) break;
  }
  part.heading += fmt::format("{} {} in {} {}", used, used == 1 ? "entry" : "entries", lines,
                              lines == 1 ? "line" : "lines");
  return part;
}

Part TableLook::buffer_content(Part part, Offset at, uint64_t room) {
  const uint64_t stamp = words_.observe(at);
  const Lengths lengths = Lengths::from_word(words_.observe(at.plus(offsetof(kv::BufferHeader, lengths))));
  part.offset("offset", at.value).number("stamp", stamp);
  if (stamp == 0) part.heading += ", being written or never used";
  const bool is_sound = lengths.is_sound() && lengths.total_bytes() <= room;
  const uint64_t shown = std::min({kHexBytes, room, is_sound ? lengths.total_bytes() : kHexBytes});
  const std::vector<std::byte> start = words_.copy(at, shown);
  if (!is_sound) {
    // A buffer that was never used has no lengths, and nothing is wrong with that.
    if (stamp != 0) part.damage(at.value + 8, "the lengths are impossible for this place");
    part.picture = records::hex_lines(start, at.value);
    return part;
  }
  part.number("key_bytes", lengths.key_bytes).number("value_bytes", lengths.value_bytes);
  part.number("buffer_bytes", lengths.total_bytes());
  if ((lengths.flags & Lengths::kExpires) != 0) {
    part.number("expires_ns", words_.observe(at.plus(kv::kExpiryAt)));
  }
  if ((lengths.flags & Lengths::kIdentified) != 0) {
    part.text("writer", hex(words_.observe(at.plus(lengths.identity_at()))));
    part.number("writer_sequence", words_.observe(at.plus(lengths.identity_at() + 8)));
  }
  if ((lengths.flags & Lengths::kBatch) != 0) {
    const Offset trailer = at.plus(lengths.trailer_at());
    const uint64_t number = words_.observe(trailer.plus(offsetof(kv::Trailer, number)));
    const uint64_t decided = words_.observe(kv::kDecisionAt);
    part.number("batch", number);
    part.text("replaced", hex(words_.observe(trailer.plus(offsetof(kv::Trailer, replaced)))));
    const kv::DecisionPlace place{words_.observe(trailer.plus(offsetof(kv::Trailer, decision_at)))};
    if (lengths.is_pending() && place.is_word()) {
      part.text("pending", text_of(words_, place));
    } else if (lengths.is_pending()) {
      part.text("pending", decided == kv::Decision::committed(number).bits
                               ? "the batch has happened"
                               : "the key's entry is what this one replaces");
    }
  }
  const std::vector<std::byte> key = words_.copy(at.plus(lengths.key_at()), lengths.key_bytes);
  const std::vector<std::byte> value =
      words_.copy(at.plus(lengths.value_at()), std::min<uint64_t>(lengths.value_bytes, kValueBytesShown));
  part.bytes("key", key).bytes(value.size() < lengths.value_bytes ? "value_start" : "value", value);
  const uint64_t hash = hash_key(key, words_.hash_seed());
  const Named named = find(hash, [at](Offset, Slot one) { return one.buffer() == at; });
  if (named && named.slot.names(stamp)) {
    part.text("named_by", fmt::format("slot {:#x}", named.slot_at.value));
  } else {
    part.text("named_by", "no slot: it was replaced, erased, or is on its way");
  }
  part.picture = records::hex_lines(start, at.value);
  return part;
}

Part TableLook::buffer(Offset at) {
  const ChunkWord chunk = words_.chunk_of(at);
  Part part{.kind = "buffer"};
  std::optional<Part> far;
  (void)each_far(words_, [&](const FarLook& look) {
    if (look.at == at) far = far_part_of(look);
  });
  if (far) return *std::move(far);
  const uint64_t left = words_.bytes() - at.value;
  if (chunk.kind() == ChunkKind::kExtent) {
    part.heading = fmt::format("extent at {:#x} (chunk {})", at.value, at.value / kChunkBytes);
    return buffer_content(std::move(part), at, left);
  }
  if (!chunk.is_sound() || chunk.kind() != ChunkKind::kSlab)
    return raw_bytes({words_.at({0}), words_.bytes()}, at.value);
  const uint64_t room = kClassBytes[chunk.size_class()];
  part.heading = fmt::format("buffer at {:#x}: number {} of chunk {}, whose buffers have {} bytes", at.value,
                             at.value % kChunkBytes / room, at.value / kChunkBytes, room);
  return buffer_content(std::move(part), at, std::min(room, left));
}

Part TableLook::key(std::string_view key, bool& found) {
  const uint64_t hash = hash_key(std::as_bytes(std::span(key)), words_.hash_seed());
  const uint64_t count = words_.bucket_count();
  Part part{.kind = "key"};
  part.heading = fmt::format("key {}", records::in_quotes(key));
  part.text("hash", fmt::format("{:#018x}", hash));
  if (count == 0) return part.damage(kv::kBucketCountAt.value, "the table has no buckets");
  const uint64_t index = kv::bucket_index(hash, count);
  part.number("bucket", index).number("buckets", count);
  const Named named = find(hash, [&](Offset at, Slot slot) {
    if (slot.fingerprint() != Slot::fingerprint_of(hash)) return false;
    const SpaceWords::Entry entry = steady_entry(at, slot);
    return entry.fault == nullptr && entry.key == key;
  });
  found = static_cast<bool>(named);
  if (const Offset at = words_.bucket_at(index)) part.offset("bucket_at", at.value);
  if (named) {
    part.offset("slot_at", named.slot_at.value);
    part.text("slot_word", fmt::format("{:#018x}", named.slot.bits));
    part.offset("buffer_at", named.slot.buffer().value);
  } else {
    part.heading += ": not found";
  }
  part.parts.push_back(bucket(index));
  if (named) part.parts.push_back(buffer(named.slot.buffer()));
  return part;
}

// A list that a server changes meanwhile may look broken for a moment.
void TableLook::far_parts(Part& part) {
  std::vector<Part> parts;
  std::optional<Damage> broken;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) pause_();
    parts.clear();
    broken = each_far(words_, [&parts](const FarLook& one) { parts.push_back(far_part_of(one)); });
    if (!broken || !pause_) break;
  }
  if (parts.empty() && !broken) return;
  Part all{.kind = "far_parts", .heading = "parts of transactions that other nodes decide"};
  if (broken) all.damage(broken->offset, std::move(broken->what));
  all.parts = std::move(parts);
  part.parts.push_back(std::move(all));
}

Part TableLook::header_place(uint64_t at) {
  if (at < sizeof(SpaceHeader)) {
    Part part = raw_bytes({words_.at({0}), words_.bytes()}, at / 16 * 16);
    part.heading = "the space's header; " + part.heading;
    return part;
  }
  const uint64_t table = words_.chunk_word_at(0).value;
  const uint64_t directory = words_.directory_word_at(0).value;
  Part part{.kind = "word"};
  part.offset("offset", at / 8 * 8);
  const ChunkWord word{words_.observe({at / 8 * 8})};
  if (at < directory) {
    part.heading = fmt::format("the word of chunk {}", (at - table) / 8);
    part.number("chunk_kind", static_cast<uint64_t>(word.kind())).number("size_class", word.size_class());
    if (!word.is_sound()) part.damage(at / 8 * 8, "the word is none that a heap wrote");
  } else if (at < directory + words_.chunks_max() * 8) {
    const uint64_t first = (at - directory) / 8 * kv::kBucketsPerChunk;
    part.heading = fmt::format("the directory's word for the buckets from {} on", first);
    part.offset("chunk_at", word.bits);
  } else if (at < directory + kv::table_area_bytes(words_.chunks_max())) {
    const kv::Decision decision{word.bits};
    part.heading = fmt::format("decision word {}", (at - directory) / 8 - words_.chunks_max());
    part.number("number", decision.number());
    part.text("says", text_of(decision));
    if (const char* const fault = fault_of_word(words_, decision)) part.damage(at / 8 * 8, fault);
  } else {
    return raw_bytes({words_.at({0}), words_.bytes()}, at / 16 * 16);
  }
  return part;
}

Part TableLook::bucket_place(uint64_t at) {
  const uint64_t chunk = at / kChunkBytes * kChunkBytes;
  const uint64_t count = words_.bucket_count();
  for (uint64_t first = 0; first < count; first += kv::kBucketsPerChunk) {
    if (words_.observe(words_.directory_word_at(first)) != chunk) continue;
    const uint64_t index = first + (at - chunk) / kLineBytes;
    if (index < count) return bucket(index);
  }
  Part part = raw_bytes({words_.at({0}), words_.bytes()}, at / kLineBytes * kLineBytes);
  part.heading = "a bucket that the table does not have yet; " + part.heading;
  return part;
}

Part TableLook::slab_place(uint64_t at, ChunkWord chunk) {
  const uint64_t start = at / kChunkBytes * kChunkBytes;
  const uint64_t bytes = kClassBytes[chunk.size_class()];
  const Offset first{start + (at - start) / bytes * bytes};
  if (first.value + bytes > start + kChunkBytes) {
    Part part = raw_bytes({words_.at({0}), words_.bytes()}, at / 16 * 16);
    part.heading = "behind the chunk's last whole buffer; " + part.heading;
    return part;
  }
  return buffer(first);
}

Part TableLook::place(uint64_t at) {
  const std::span<const std::byte> all(words_.at({0}), words_.bytes());
  if (!words_.is_inside({at == 0 ? 1 : at}, 1) || at / kChunkBytes >= words_.chunks()) {
    return raw_bytes({words_.at({0}), words_.bytes()}, at);
  }
  const ChunkWord chunk = words_.chunk_of({at});
  if (!chunk.is_sound()) {
    Part part = raw_bytes(all, at / 16 * 16);
    return part.damage(words_.chunk_word_at(at / kChunkBytes).value,
                       "the chunk's word is none that a heap wrote");
  }
  switch (chunk.kind()) {
    case ChunkKind::kHeader:
      return header_place(at);
    case ChunkKind::kBuckets:
      return bucket_place(at);
    case ChunkKind::kSlab:
      return slab_place(at, chunk);
    case ChunkKind::kExtent: {
      Part part = buffer({at / kExtentGranuleBytes * kExtentGranuleBytes});
      part.heading += ", if an entry begins in this granule";
      return part;
    }
    case ChunkKind::kLines: {
      uint64_t used = 0;
      Part part{.kind = "place",
                .heading = fmt::format("{:#x} lies in a line that buckets overflow into", at)};
      uint64_t bucket = 0;
      const Offset line_at{at / kLineBytes * kLineBytes};
      bool is_named = false;
      for (uint64_t index = 0; index < words_.bucket_count() && !is_named; ++index) {
        walk(index, [&](Offset slot_at, Slot) {
          is_named = slot_at.value / kLineBytes == line_at.value / kLineBytes;
          bucket = index;
          return !is_named;
        });
      }
      if (is_named) {
        part.number("bucket", bucket);
        part.parts.push_back(line(line_at, bucket, 1, used));
      } else {
        part.text("bucket", "none: the line is free");
      }
      return part;
    }
    case ChunkKind::kFree:
      break;
  }
  Part part = raw_bytes(all, at / 16 * 16);
  part.heading = fmt::format("a free chunk ({}); ", at / kChunkBytes) + part.heading;
  return part;
}

}  // namespace refract::inspect
