// SPDX-License-Identifier: Apache-2.0
// Whatever bytes are given as a region, every decoder ends and stays inside, and says what it found.
//
// The first 16 bytes are questions; of the rest each decoder gets a copy of exactly that length, once as it
// is and once behind a beginning that it recognises.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "apps/inspect/decoder.h"

#include "refract/kv/designs/pilaf/layout.h"
#include "refract/kv/designs/prism/layout.h"
#include "refract/memory/heap.h"

namespace {

using namespace refract;
using namespace refract::inspect;

void ask_everything(std::span<const std::byte> region, uint64_t at, uint64_t bucket, const std::string& key) {
  for (const Decoder& decoder : decoders()) {
    bool found = false;
    for (const Question& question :
         {Question{}, Question{.at = at}, Question{.key = key}, Question{.bucket = bucket}}) {
      const Part part = decoder.decode({.bytes = region}, question, found);
      if (text_of(part).empty() || json_of(part).empty()) {
        std::fprintf(stderr, "inspect_fuzz: a decoder is silent\n");
        std::abort();
      }
    }
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
// A whole space takes a chunk; the input lies scattered over what leads on. The memory is used again and
// again, since nothing but those places ever changes.
std::span<const std::byte> table_of(std::span<const std::byte> input) {
  static std::vector<std::byte> region(3 * kChunkBytes);
  constexpr size_t kChangedBytes = 8192;
  for (const uint64_t at : {uint64_t{0}, kChunkBytes, 2 * kChunkBytes}) {
    std::memset(region.data() + at, 0, kChangedBytes);
  }
  Writer writer(region.data());
  Heap::format(writer, {.chunks_max = 4, .store_area_bytes = 64, .hash_seed = 42});
  const uint64_t places[] = {4096, kv::kRootAt.value, 4096 + 32, kChunkBytes, 2 * kChunkBytes};
  for (size_t i = 0; i * 64 < input.size(); ++i) {
    const auto piece = input.subspan(i * 64, std::min<size_t>(64, input.size() - i * 64));
    std::memcpy(region.data() + places[i % 5] + i / 5 * 64, piece.data(), piece.size());
  }
  return region;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kInputMax = 4096;
  if (size < 16 || size > kInputMax) return 0;
  uint64_t at = 0;
  uint64_t bucket = 0;
  std::memcpy(&at, data, 8);
  std::memcpy(&bucket, data + 8, 8);
  const auto input = std::as_bytes(std::span(data + 16, size - 16));
  const std::string key(reinterpret_cast<const char*>(data), 1 + data[0] % 16);
  std::vector<std::byte> region(input.begin(), input.end());
  // A mapping ends with a whole word.
  region.resize(region.size() / 8 * 8);
  ask_everything(region, at, bucket, key);
  ask_everything(region, at % 4096, bucket % 16, key);
  std::vector<std::byte> design = region;
  begin_prism_kv(design);
  ask_everything(design, at % 4096, bucket % 32, key);
  design = region;
  begin_pilaf(design);
  ask_everything(design, at % 4096, bucket % 8, key);
  const std::span<const std::byte> table = table_of(input);
  ask_everything(table, at % table.size(), bucket % 64, key);
  return 0;
}
