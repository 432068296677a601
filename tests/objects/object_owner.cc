// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/object_owner.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/runtime/fault.h"

namespace refract::campaign {
namespace {

constexpr uint64_t kChunks = 40;
constexpr uint64_t kChunksOfFull = 24;
constexpr uint64_t kLimit = 32 * kMiB;
constexpr uint64_t kLimitOfFull = 96 * kKiB;
constexpr size_t kNotices = 16;

class NobodyPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

[[nodiscard]] uint64_t chunks_of(const ObjectRun& run) {
  return run.evicts ? kChunksOfFull : kChunks;
}

// The beginning of a space with an empty table: its header and the first buckets.
[[nodiscard]] std::vector<std::byte> empty_table(const ObjectRun& run) {
  const uint64_t chunks = chunks_of(run);
  const Heap::Geometry geometry{.chunks_max = chunks,
                                .store_area_bytes = kv::Table::store_area_bytes(chunks),
                                .hash_seed = mix(run.seed)};
  const uint64_t bytes = Heap::format_bytes(geometry) + 2 * kChunkBytes;
  std::vector<std::byte> image(bytes);
  Writer writer(image.data());
  Heap::format(writer, geometry);
  NobodyPins pins;
  Heap heap(writer, pins);
  heap.add({0}, bytes);
  REFRACT_CHECK(kv::Table::format(writer, heap).has_value());
  return image;
}

}  // namespace

ObjectMemory::ObjectMemory(sim::Host& owner, const ObjectRun& run)
    : run_(run),
      visible_({.bytes = chunks_of(run) * kChunkBytes,
                .bytes_max = chunks_of(run) * kChunkBytes,
                .seed = mix(run.seed + 1)},
               empty_table(run)) {
  owner.attach(&visible_);
}

uint64_t ObjectMemory::limit() const noexcept {
  return run_.evicts ? kLimitOfFull : kLimit;
}

// A kill between this store and the one before it.
void ObjectOwner::DeadlyLog::stored(Offset at, std::span<const std::byte> bytes) noexcept {
  REFRACT_FAULT("objects.before_store");
  memory_.stored(at, bytes);
}

void ObjectOwner::ClientPins::collect(PinSet& pins) noexcept {
  if (memory_.run_.mutation == ObjectMutation::kIgnorePins) return;
  if (memory_.at_looks_) memory_.at_looks_();
  for (const PinTable& table : memory_.pin_tables_) collect_pins(table, pins);
  if (memory_.at_looks_) memory_.at_looks_();
}

void ObjectOwner::AnyUses::collect_uses(std::vector<uint64_t>& hashes) {
  for (uint64_t count = prng_.below(20); count > 0; --count)
    hashes.push_back(prng_.below(kChunks * kChunkBytes));
}

ObjectOwner::ObjectOwner(sim::Host& host, ObjectMemory& memory, ObjectOutcome& tally)
    : host_(host),
      memory_(memory),
      tally_(tally),
      log_(memory.visible(), memory.run_.mutation != ObjectMutation::kEarlyPins),
      writer_(memory.visible().owner(), &log_),
      client_pins_(memory),
      heap_(writer_, pins_, Heap::Borders::kCrossed),
      table_(writer_, heap_, host.clock()),
      uses_(mix(memory.run_.seed + host.crash_count())),
      store_({.writer = writer_, .heap = heap_, .table = table_, .uses = &uses_, .limit = memory.limit()}) {
  if (mutation() != ObjectMutation::kReleaseAtOnce) pins_.add(session_pins_);
  pins_.add(client_pins_);
  heap_.add({0}, chunks_of(memory.run_) * kChunkBytes);
  recover();
  if (damage_.empty()) serve();
}

ObjectOwner::~ObjectOwner() {
  tally_.evicted += store_.accounts().evicted_ever;
  if (service_) tally_.pulled += service_->pulls().counts().values;
}

// As a mutation: slots that name such records are empty.
void ObjectOwner::forget_records(object::KeyKind kind, size_t records_max) {
  kv::TableRoot root{};
  std::memcpy(&root, writer_.at(kv::kRootAt), sizeof(root));
  for (uint64_t index = 0; index < root.bucket_count && records_max > 0; ++index) {
    const Offset chunk{writer_.load(Offset{root.directory + index / kv::kBucketsPerChunk * 8})};
    const Offset bucket = chunk.plus(index % kv::kBucketsPerChunk * kLineBytes);
    for (uint64_t i = 0; i < kv::kSlotsPerBucket && records_max > 0; ++i) {
      const Offset at = bucket.plus(i * sizeof(kv::Slot));
      const kv::Slot slot{writer_.load(at)};
      if (!slot ||
          *writer_.at(slot.buffer().plus(sizeof(kv::BufferHeader))) != static_cast<std::byte>(kind)) {
        continue;
      }
      writer_.publish(at, 0);
      --records_max;
    }
  }
}

void ObjectOwner::recover() {
  if (mutation() == ObjectMutation::kForgetDeparted) forget_records(object::KeyKind::kDeparted, SIZE_MAX);
  if (mutation() == ObjectMutation::kLoseSealed) forget_records(object::KeyKind::kSealed, 1);
  kv::Table::Recovery recovery;
  heap_.begin_recovery();
  Result<> done = table_.mark_live(nullptr, recovery);
  if (done) done = store_.mark_live();
  if (done) {
    heap_.end_recovery();
    done = table_.finish_recovery(nullptr, recovery);
  }
  if (done) done = store_.finish_recovery();
  if (!done) {
    damage_ = fmt::format("recovery failed: {}", info(done.code()).text);
  } else if (const auto damage = table_.validate()) {
    damage_ = fmt::format("after recovery: {} (at {})", damage->what, damage->at.value);
  } else {
    damage_ = contradiction();
  }
}

std::string ObjectOwner::contradiction() {
  if (const auto damage = store_.damage()) {
    return fmt::format("{} (at {})", damage->what, damage->at.value);
  }
  uint64_t sealed = 0;
  uint64_t sealed_bytes = 0;
  uint64_t creations = 0;
  uint64_t creation_bytes = 0;
  uint64_t cursor = 0;
  do {
    cursor = store_.list(cursor, [&](const object::ObjectStore::Listed& listed) {
      ++(listed.is_sealed ? sealed : creations);
      (listed.is_sealed ? sealed_bytes : creation_bytes) += listed.object.parts.counted_bytes();
    });
  } while (cursor != 0);
  const object::ObjectAccounts& accounts = store_.accounts();
  if (sealed != accounts.objects || sealed_bytes != accounts.sealed_bytes ||
      creations != accounts.creations || creation_bytes != accounts.creation_bytes) {
    return fmt::format("{} objects of {} bytes and {} creations of {} are counted as {} of {} and {} of {}",
                       sealed, sealed_bytes, creations, creation_bytes, accounts.objects,
                       accounts.sealed_bytes, accounts.creations, accounts.creation_bytes);
  }
  if (table_.stats().entries != sealed + creations + accounts.departed) {
    return fmt::format("{} records name {} objects, {} creations and {} departed ones",
                       table_.stats().entries, sealed, creations, accounts.departed);
  }
  if (accounts.used() > accounts.limit) {
    return fmt::format("{} bytes are used of {}", accounts.used(), accounts.limit);
  }
  return {};
}

void ObjectOwner::serve() {
  fabric::Domain* domain = &host_.domain();
  if (mutation() == ObjectMutation::kEarlyReads) domain = &early_reads_.emplace(*domain);
  if (mutation() == ObjectMutation::kEarlyAborts) domain = &early_aborts_.emplace(*domain);
  windows_.emplace(*domain);
  service_.emplace(object::ObjectService::Parts{.store = store_,
                                                .heap = heap_,
                                                .writer = writer_,
                                                .pins = session_pins_,
                                                .growth = growth_,
                                                .shard = host_.shard(),
                                                .windows = &*windows_,
                                                .pull_piece_bytes = kKiB,
                                                .notices = kNotices});
  server_.emplace(*service_, host_.shard());
  service_->answer_through(&*server_);
  dispatcher_.emplace(*domain, host_.shard(), &*server_);
}

}  // namespace refract::campaign
