// SPDX-License-Identifier: Apache-2.0
// The table's decoder: which question is asked, and the picture of a whole space.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/inspect/decoder.h"
#include "apps/inspect/table_look.h"
#include "apps/progress/progress.h"

namespace refract::inspect {
namespace {

using kv::Slot;
using progress::bytes_text;
using progress::count_text;

constexpr uint64_t kChunksPerRow = 64;
constexpr uint64_t kRowsMax = 64;
constexpr size_t kBarCells = 40;

// What all slots of the table say, without a look at the buffers.
struct Census {
  static constexpr size_t kFillMost = 8;  // Buckets that hold so many entries or more count as one row.
  std::array<uint64_t, kFillMost + 1> buckets_by_entries{};
  uint64_t entries = 0;
  uint64_t overflow_lines = 0;
  uint64_t outside = 0;  // Slots that lead nowhere.
  std::vector<uint64_t> entries_of_chunk;
};

Census take_census(SpaceWords& words, Part& part) {
  Census census;
  census.entries_of_chunk.resize(words.chunks());
  const uint64_t count = words.bucket_count();
  for (uint64_t index = 0; index < count; ++index) {
    Offset line = words.bucket_at(index);
    if (!line) {
      part.damage(words.directory_word_at(index).value,
                  fmt::format("the directory's word for the buckets from {} on names no chunk of buckets",
                              index / kv::kBucketsPerChunk * kv::kBucketsPerChunk));
      return census;
    }
    size_t entries = 0;
    RingFinder ring;
    for (bool is_first = true; line && !ring.was_at(line); is_first = false) {
      census.overflow_lines += is_first ? 0 : 1;
      for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
        const Slot slot{words.observe(line.plus(i * sizeof(Slot)))};
        if (!slot) continue;
        ++entries;
        const uint64_t chunk = slot.buffer().value / kChunkBytes;
        if (chunk >= census.entries_of_chunk.size()) {
          ++census.outside;
        } else {
          ++census.entries_of_chunk[chunk];
        }
      }
      bool is_sound = false;
      line = words.line_after(line, is_sound);
      if (!is_sound) break;
    }
    census.entries += entries;
    ++census.buckets_by_entries[std::min(entries, Census::kFillMost)];
  }
  return census;
}

// How full a slab is, in tenths: '0' is empty or nearly so, '9' more than nine tenths.
char letter_of(ChunkWord word, uint64_t entries) {
  if (!word.is_sound()) return '?';
  switch (word.kind()) {
    case ChunkKind::kFree:
      return '.';
    case ChunkKind::kHeader:
      return 'H';
    case ChunkKind::kBuckets:
      return 'B';
    case ChunkKind::kLines:
      return 'L';
    case ChunkKind::kExtent:
      return entries == 0 ? 'x' : 'X';
    case ChunkKind::kSlab:
      break;
  }
  const uint64_t room = kChunkBytes / kClassBytes[word.size_class()];
  return static_cast<char>('0' + std::min<uint64_t>(9, entries * 10 / room));
}

Part chunk_picture(SpaceWords& words, const Census& census) {
  Part part{.kind = "chunks"};
  const uint64_t chunks = census.entries_of_chunk.size();
  part.heading = fmt::format("chunks of {}, {} in a row", bytes_text(kChunkBytes), kChunksPerRow);
  std::string all;
  for (uint64_t index = 0; index < chunks; ++index) {
    const ChunkWord word{words.observe(words.chunk_word_at(index))};
    all.push_back(letter_of(word, census.entries_of_chunk[index]));
    if (!word.is_sound()) {
      part.damage(words.chunk_word_at(index).value,
                  fmt::format("the word of chunk {} is none that a heap wrote", index));
    }
  }
  part.hidden("picture", all);
  for (uint64_t row = 0; row * kChunksPerRow < chunks && row < kRowsMax; ++row) {
    part.picture.push_back(
        fmt::format("{:>6}  {}", row * kChunksPerRow, all.substr(row * kChunksPerRow, kChunksPerRow)));
  }
  if (chunks > kRowsMax * kChunksPerRow) {
    part.picture.push_back(fmt::format("and {} more", count_text(chunks - kRowsMax * kChunksPerRow)));
  }
  part.picture.emplace_back("H header  B buckets  L overflow lines  0-9 buffers, how full in tenths");
  part.picture.emplace_back("X large values  x none left in it  . free");
  return part;
}

Part class_summary(SpaceWords& words, const Census& census) {
  struct Row {
    uint64_t chunks = 0;
    uint64_t entries = 0;
  };
  std::array<Row, kSizeClasses> rows;
  for (uint64_t index = 0; index < census.entries_of_chunk.size(); ++index) {
    const ChunkWord word{words.observe(words.chunk_word_at(index))};
    if (!word.is_sound() || word.kind() != ChunkKind::kSlab) continue;
    rows[word.size_class()].chunks += 1;
    rows[word.size_class()].entries += census.entries_of_chunk[index];
  }
  Part part{.kind = "classes", .heading = "buffers by size"};
  part.picture.push_back(fmt::format("{:>8} {:>7} {:>11} {:>11}", "bytes", "chunks", "used", "of"));
  for (size_t index = 0; index < kSizeClasses; ++index) {
    const Row& row = rows[index];
    if (row.chunks == 0) continue;
    const uint64_t room = row.chunks * (kChunkBytes / kClassBytes[index]);
    part.picture.push_back(fmt::format("{:>8} {:>7} {:>11} {:>11}  {}", kClassBytes[index],
                                       count_text(row.chunks), count_text(row.entries), count_text(room),
                                       bar(std::min(row.entries, room), room, kBarCells)));
    Part one{.kind = "class"};
    one.hidden("bytes", kClassBytes[index]).hidden("chunks", row.chunks);
    one.hidden("used", row.entries).hidden("of", room);
    part.parts.push_back(std::move(one));
  }
  return part;
}

Part bucket_summary(const Census& census) {
  Part part{.kind = "buckets", .heading = "buckets by entries"};
  const uint64_t most = *std::ranges::max_element(census.buckets_by_entries);
  documents::Value filled = documents::Value::array();
  for (size_t entries = 0; entries <= Census::kFillMost; ++entries) {
    const uint64_t buckets = census.buckets_by_entries[entries];
    part.picture.push_back(fmt::format("{:>8}{} {:>11}  {}", entries,
                                       entries == Census::kFillMost ? "+" : " ", count_text(buckets),
                                       bar(buckets, most, kBarCells)));
    filled.push_back(buckets);
  }
  return part.hidden("by_entries", std::move(filled));
}

}  // namespace

Part TableLook::space() {
  Part part{.kind = "table"};
  const Census census = take_census(words_, part);
  part.heading = fmt::format("a table of Refract, {} in {} chunks", bytes_text(words_.bytes()),
                             count_text(words_.chunks()));
  const uint64_t shard = words_.observe({offsetof(SpaceHeader, shard_index)});
  const uint64_t shards = std::max<uint64_t>(shard >> 32, 1);
  part.hidden("shard", shard & 0xffff'ffff).hidden("shards", shards);
  part.fields.push_back({"shard", fmt::format("{} of {}", shard & 0xffff'ffff, shards)});
  part.hidden("bytes", words_.bytes());
  part.number("chunks", words_.chunks()).number("chunks_max", words_.chunks_max());
  part.offset("chunk_table", words_.chunk_word_at(0).value);
  part.offset("directory", words_.directory_word_at(0).value);
  part.number("stamps_below", words_.observe({offsetof(SpaceHeader, stamp_limit)}));
  part.number("buckets", words_.bucket_count());
  part.number("overflow_lines", census.overflow_lines);
  part.number("entries", census.entries);
  if (census.outside > 0) {
    part.damage(0, fmt::format("{} slots lead outside the space", count_text(census.outside)));
  }
  part.parts.push_back(chunk_picture(words_, census));
  part.parts.push_back(class_summary(words_, census));
  part.parts.push_back(bucket_summary(census));
  far_parts(part);
  return part;
}

bool is_table(std::span<const std::byte> region) {
  if (region.size() < sizeof(SpaceHeader)) return false;
  return observe_u64(region.data()) == kSpaceMagic;
}

Part decode_table(const Region& region, const Question& question, bool& found) {
  found = true;
  SpaceWords words(region.bytes, region.grown);
  if (auto damaged = words.read_header()) {
    Part part = raw_bytes(region.bytes, question.at.value_or(0));
    part.heading = "a table of Refract whose beginning is damaged; " + part.heading;
    return part.damage(damaged->offset, std::move(damaged->what));
  }
  TableLook look(words, region.pause);
  if (question.key) return look.key(*question.key, found);
  if (question.bucket) return look.bucket(*question.bucket);
  if (question.at) return look.place(*question.at);
  return look.space();
}

}  // namespace refract::inspect
