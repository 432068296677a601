// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <bit>
#include <memory>
#include <utility>

#include "bench/bars/bars.h"
#include "bench/load/entry.h"
#include "bench/measure/anonymous_memory.h"
#include "bench/sides/private_node.h"

#include "refract/base/clock.h"
#include "refract/kv/layout/slot_match.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"

namespace refract::bench::bar_unsettled {
namespace {

constexpr uint64_t kEntryBytesMax = 200;  // With its share of the table.

class NoPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

// A table of the store in memory of its own, as its owner has it.
class OwnTable {
 public:
  // With the first entries of entry.h.
  [[nodiscard]] static Reported<std::unique_ptr<OwnTable>> with(uint64_t entries, uint64_t hash_seed);

  // Whether the first slot of the first line that can name the key is another's: a reader of it takes a
  // longer way.
  [[nodiscard]] bool is_unsettled(const Key& key) const noexcept;

 private:
  OwnTable(AnonymousMemory&& memory, uint64_t chunks, uint64_t hash_seed);

  AnonymousMemory memory_;
  ManualClock clock_;
  NoPins pins_;
  Writer writer_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<kv::Table> table_;
};

OwnTable::OwnTable(AnonymousMemory&& memory, uint64_t chunks, uint64_t hash_seed)
    : memory_(std::move(memory)), writer_(memory_.data()) {
  Heap::format(writer_, {.chunks_max = chunks,
                         .store_area_bytes = kv::Table::store_area_bytes(chunks),
                         .hash_seed = hash_seed});
  heap_ = std::make_unique<Heap>(writer_, pins_);
  heap_->add({0}, chunks * kChunkBytes);
}

Reported<std::unique_ptr<OwnTable>> OwnTable::with(uint64_t entries, uint64_t hash_seed) {
  const uint64_t chunks = entries * kEntryBytesMax / kChunkBytes + 16;
  Reported<AnonymousMemory> memory = AnonymousMemory::create(chunks * kChunkBytes, Pages::kTransparent);
  if (!memory) return report(memory.error());
  std::unique_ptr<OwnTable> own(new OwnTable(std::move(*memory), chunks, hash_seed));
  if (const Result<> done = kv::Table::format(own->writer_, *own->heap_); !done) {
    return failed("the table", done.code());
  }
  own->table_ = std::make_unique<kv::Table>(own->writer_, *own->heap_, own->clock_);
  if (const Result<> done = own->table_->recover(); !done) return failed("the table", done.code());
  for (uint64_t i = 0; i < entries; ++i) {
    const Key key = Key::of(i);
    const Value value = Value::of(i);
    const auto put = own->table_->put(key.bytes(), std::as_bytes(std::span(value.words)), {});
    if (!put) return failed("put", put.code());
  }
  return own;
}

bool OwnTable::is_unsettled(const Key& key) const noexcept {
  const kv::Table::HashedKey hashed = table_->hashed(key.bytes());
  const uint64_t bucket = kv::bucket_index(hashed.hash, writer_.load(kv::kBucketCountAt));
  const Offset directory{writer_.view<kv::TableRoot>(kv::kRootAt).directory};
  const Offset chunk{writer_.load(directory.plus(bucket / kv::kBucketsPerChunk * sizeof(uint64_t)))};
  const Offset line = chunk.plus(bucket % kv::kBucketsPerChunk * kLineBytes);
  const uint32_t hits = kv::match_slots(writer_.at(line), kv::Slot::fingerprint_of(hashed.hash));
  if (hits == 0) return true;
  const Offset first = line.plus(static_cast<uint64_t>(std::countr_zero(hits)) * sizeof(kv::Slot));
  return table_->standing(hashed).slot_at != first;
}

// Counts depend on the keys and the hash's seed only, so one run says as much as many.
Reported<Outcome> share_of(uint64_t entries) {
  constexpr uint64_t kSeeds = 3;
  Outcome outcome;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto own = OwnTable::with(entries, seed);
    if (!own) return report(own.error());
    uint64_t unsettled = 0;
    for (uint64_t i = 0; i < entries; ++i) unsettled += (*own)->is_unsettled(Key::of(i)) ? 1 : 0;
    outcome.samples.push_back(100 * static_cast<double>(unsettled) / static_cast<double>(entries));
  }
  outcome.note = fmt::format("{} entries, of each of {} tables with other hashes", entries, kSeeds);
  return outcome;
}

const BarRows kRows = {
    {"unsettled", "keys that their first slot does not settle, of a million", "at most 3 %", Sense::kAtMost,
     3, "%", [](BarRun& run) { return share_of(run.options.entries); }},
    {"unsettled-many", "the same, of ten million", "at most 5.5 %", Sense::kAtMost, 5.5, "%",
     [](BarRun& run) { return share_of(run.options.many_entries); }},
};

}  // namespace
}  // namespace refract::bench::bar_unsettled
