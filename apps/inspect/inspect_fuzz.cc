// SPDX-License-Identifier: Apache-2.0
// Whatever bytes are given as a region, every decoder ends and stays inside, and says what it found.
//
// Input: what the rest is (1 byte), an offset (8) and a bucket (8) to ask for, the rest. The rest is a region
// of exactly that length, which all decoders are asked about; or one behind the beginning of a store of
// PRISM-KV or Pilaf; or edits of a sound table's space, 11 bytes each: in which chunk (1), which word (2),
// what is changed in it (8). Where the topmost bit of the first byte is set, offset and bucket are asked for
// as they are, else brought near; where the next one is, the key asked for is made of them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "apps/inspect/decoder.h"

#include "refract/kv/designs/pilaf/layout.h"
#include "refract/kv/designs/prism/layout.h"
#include "refract/kv/testing/test_space.h"

namespace {

using namespace refract;
using namespace refract::inspect;

using Bytes = std::span<const std::byte>;

// One question of four, and one form of two, for each input: it is printing that takes the time.
struct Asked {
  uint64_t at = 0;
  uint64_t bucket = 0;
  std::string key;
  uint8_t which = 0;

  [[nodiscard]] Question question() const {
    switch (which % 4) {
      case 0:
        return {};
      case 1:
        return {.at = at};
      case 2:
        return {.key = key};
      default:
        return {.bucket = bucket};
    }
  }
  [[nodiscard]] std::string form_of(const Part& part) const {
    return which / 4 % 2 == 0 ? text_of(part) : json_of(part);
  }
};

void ask(const Decoder& decoder, Bytes region, const Asked& asked) {
  bool found = false;
  const Part part = decoder.decode({.bytes = region}, asked.question(), found);
  if (asked.form_of(part).empty()) {
    std::fprintf(stderr, "inspect_fuzz: a decoder is silent\n");
    std::abort();
  }
}

// The beginning of an index of so many places, as the design's own code writes it.
void begin_prism_kv(std::vector<std::byte>& region) {
  const kv::prism_kv::Root root = kv::prism_kv::root_for({.keys_max = 8}, 42);
  if (region.size() >= sizeof(root)) std::memcpy(region.data(), &root, sizeof(root));
}
void begin_pilaf(std::vector<std::byte>& region) {
  kv::pilaf::Root root{};
  root.state = kv::pilaf::Root::kMagic;
  root.entries = kv::pilaf::kRootAt + sizeof(root);
  root.entry_count = 4;
  root.crc = kv::pilaf::crc_of(root);
  if (region.size() < root.entries + root.entry_count * sizeof(kv::pilaf::Entry)) return;
  std::memcpy(region.data() + kv::pilaf::kRootAt, &root, sizeof(root));
  // Entries that verify lead further than those that do not.
  for (uint64_t i = 0; i < root.entry_count; ++i) {
    std::byte* at = region.data() + root.entries + i * sizeof(kv::pilaf::Entry);
    kv::pilaf::Entry entry;
    std::memcpy(&entry, at, sizeof(entry));
    entry.crc = kv::pilaf::crc_of(entry);
    std::memcpy(at, &entry, sizeof(entry));
  }
}

// A table in six chunks: header, buckets, buffers of two sizes, an extent, and a free one. It is made once;
// each input's edits are taken back behind it.
class EditedTable {
 public:
  EditedTable() {
    const auto put = [&](std::string_view key, std::string_view value, const kv::PutOptions& options) {
      if (!space_.table().put(kv::test::bytes_of(key), kv::test::bytes_of(value), options)) std::abort();
    };
    put("key", "value", {});
    put("k", "v", {.expires_wall_ns = 1});
    put("once", "", {.request = {.client = 1, .sequence = 1}});
    put("large", std::string(100'000, 'l'), {});
  }

  void ask_with(Bytes edits, const Asked& asked) {
    apply(edits);
    const uint64_t count = word(kv::kBucketCountAt.value);
    // Walking through all buckets that six chunks could hold takes long and shows nothing new.
    const bool is_long = count > kBucketsMost && count <= kChunks * kv::kBucketsPerChunk;
    if (is_long) set_word(kv::kBucketCountAt.value, 1 + count % kBucketsMost);
    ask(*decoder_named("table"), {space_.base(), space_.bytes()}, asked);
    if (is_long) set_word(kv::kBucketCountAt.value, count);
    apply(edits);
  }
  [[nodiscard]] uint64_t bytes() const { return space_.bytes(); }

 private:
  static constexpr uint64_t kChunks = 6;
  static constexpr uint64_t kBucketsMost = 64;
  static constexpr size_t kEditBytes = 1 + 2 + 8;
  static constexpr uint64_t kEditableWords = 8192 / sizeof(uint64_t);  // At the beginning of each chunk.

  [[nodiscard]] uint64_t word(uint64_t at) const {
    uint64_t value = 0;
    std::memcpy(&value, space_.base() + at, sizeof(value));
    return value;
  }
  void set_word(uint64_t at, uint64_t value) { std::memcpy(space_.base() + at, &value, sizeof(value)); }

  // Its own inverse.
  void apply(Bytes edits) {
    for (; edits.size() >= kEditBytes; edits = edits.subspan(kEditBytes)) {
      const uint64_t chunk = std::to_integer<uint64_t>(edits[0]) % kChunks;
      uint16_t place = 0;
      uint64_t change = 0;
      std::memcpy(&place, edits.data() + 1, sizeof(place));
      std::memcpy(&change, edits.data() + 3, sizeof(change));
      const uint64_t at = chunk * kChunkBytes + place % kEditableWords * sizeof(uint64_t);
      set_word(at, word(at) ^ change);
    }
  }

  kv::test::Space space_{{.chunks = kChunks, .chunks_max = kChunks, .hash_seed = 42}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kFrontBytes = 17;
  constexpr size_t kInputMax = 4096;
  if (size < kFrontBytes || size > kInputMax) return 0;
  static EditedTable table;
  const bool is_table = data[0] % 4 == 3;
  Asked asked{.key = "key", .which = static_cast<uint8_t>(data[0] >> 2)};
  std::memcpy(&asked.at, data + 1, sizeof(asked.at));
  std::memcpy(&asked.bucket, data + 9, sizeof(asked.bucket));
  // Now and then one that the table has.
  if ((data[0] & 0x40) != 0) asked.key.assign(reinterpret_cast<const char*>(data + 1), 1 + data[1] % 16);
  if ((data[0] & 0x80) == 0) {
    asked.at %= is_table ? table.bytes() : size;
    asked.bucket %= 32;
  }
  const Bytes input = std::as_bytes(std::span(data + kFrontBytes, size - kFrontBytes));
  if (is_table) {
    table.ask_with(input, asked);
    return 0;
  }
  std::vector<std::byte> region(input.begin(), input.end());
  // A mapping ends with a whole word.
  region.resize(region.size() / 8 * 8);
  switch (data[0] % 4) {
    case 1:
      begin_prism_kv(region);
      ask(*decoder_named("prism-kv"), region, asked);
      break;
    case 2:
      begin_pilaf(region);
      ask(*decoder_named("pilaf"), region, asked);
      break;
    default:
      for (const Decoder& decoder : decoders()) ask(decoder, region, asked);
  }
  return 0;
}
