// SPDX-License-Identifier: Apache-2.0
#include "tests/disk/logged_shard.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/node/durable/shard_fill.h"
#include "refract/node/hosted_kv/kv_contents.h"

namespace refract::test {
namespace {

using kv::test::bytes_of;
using kv::test::Model;
using kv::test::ModelEntry;
using kv::test::text_of;

constexpr uint64_t kSpaceChunks = 12;
constexpr uint64_t kReferenceBytes = 12'000;

// Most are small; some are larger than reference_bytes, a few than a segment.
uint64_t some_value_bytes(Prng& prng) {
  const uint64_t draw = prng.below(100);
  return draw < 60 ? prng.below(40) : draw < 95 ? 900 : draw < 99 ? 14'000 : 50'000;
}

}  // namespace

storage::ShardLogSpec log_spec(storage::Disk& disk, uint32_t shard, storage::Durability durability,
                               storage::ValueSource* values) {
  return {.log = {.store = kLoggedStore, .shard = shard},
          .options = {.durability = durability,
                      .segment_bytes = 32 * kKiB,
                      .sync_every_ns = 10 * kMillisecond_ns},
          .ring_bytes = storage::kRingBytesMin,
          .disk = &disk,
          .values = values,
          .clock = &system_clock(),
          .reference_bytes = kReferenceBytes};
}

LoggedShard::LoggedShard(storage::Disk& disk, uint32_t shard, storage::Durability durability, uint64_t seed)
    : disk_(disk),
      shard_(shard),
      durability_(durability),
      prng_(seed),
      space_({.chunks = kSpaceChunks,
              .chunks_max = kSpaceChunks,
              .shard_index = shard,
              .shard_count = kLoggedShards}) {}

LoggedShard::~LoggedShard() {
  // Its thread reads the space and the disk.
  job_.reset();
  log_.reset();
}

Reported<> LoggedShard::recover() {
  const storage::ShardLogSpec spec = log_spec(disk_, shard_, durability_, this);
  auto log = storage::ShardLog::open(spec);
  if (!log) return report(std::move(log).error());
  log_ = *std::move(log);
  const node::Grow grow = [](uint64_t) { return false; };
  node::KvFilling filling(space_.table(), space_.heap(), grow);
  const auto filled = node::fill_shard({.disk = disk_,
                                        .log = *log_,
                                        .log_id = spec.log,
                                        .filling = filling,
                                        .heap = space_.heap(),
                                        .grow = grow,
                                        .name = fmt::format("shard {}: ", shard_),
                                        .hosted = {}});
  if (!filled) return report(filled.error());
  if (auto begun = log_->begin(filled->reading); !begun) return begun;
  if (const auto damage = space_.table().validate()) {
    return report(Code::kCorrupt, "the table is damaged after the recovery");
  }
  space_.table().log_to(this);
  return {};
}

Reported<> LoggedShard::start() {
  return log_->start([] {});
}

ModelEntry LoggedShard::some_entry() {
  ModelEntry entry;
  entry.value.assign(some_value_bytes(prng_), '\0');
  for (char& letter : entry.value) letter = static_cast<char>(prng_.next() >> 56);
  // So far away that nothing expires here.
  if (prng_.chance(0.2)) entry.expires_wall_ns = (uint64_t{1} << 62) + prng_.below(1'000);
  if (prng_.chance(0.3)) entry.request = {.client = 1 + prng_.below(9), .sequence = ++sequence_};
  return entry;
}

// Several keys at one moment: in the log they stand together, or not at all.
void LoggedShard::change_some() {
  std::map<std::string, std::optional<ModelEntry>> wanted;
  for (uint64_t count = 2 + prng_.below(4); count > 0; --count) {
    auto& entry = wanted[fmt::format("key {}", prng_.below(kLoggedKeys))];
    if (prng_.chance(0.7)) entry = some_entry();
  }
  std::vector<kv::BatchWrite> writes;
  kv::RequestId request;
  ModelEntry* first = nullptr;
  for (auto& [key, entry] : wanted) {
    kv::BatchWrite write{.key = space_.table().hashed(bytes_of(key)), .kind = kv::WriteKind::kErase};
    if (entry) {
      write.kind = kv::WriteKind::kPut;
      write.value = bytes_of(entry->value);
      write.expires_wall_ns = entry->expires_wall_ns;
      if (first == nullptr) first = &*entry;
      request = entry->request;
      entry->request = {};
    }
    writes.push_back(write);
  }
  // The first entry says which batch made it.
  if (first != nullptr) first->request = request;
  kv::TableBatch batch{
      .conditions = {}, .writes = writes, .request = first == nullptr ? kv::RequestId{} : request};
  if (!space_.table().change_at_once(batch)) return;
  const kv::BatchWrite* write = writes.data();
  for (auto& [key, entry] : wanted) {
    if (entry) entry->stamp = write->version;
    // An erasure of nothing leaves nothing in the log.
    if (write++->version != 0) {
      changes_.push_back({.key = key, .entry = std::move(entry), .end = log_->appended()});
    }
  }
  log_->ring_bell();
}

void LoggedShard::change() {
  if (prng_.chance(0.06)) return change_some();
  const std::string key = fmt::format("key {}", prng_.below(kLoggedKeys));
  if (prng_.chance(0.2)) {
    const auto erased = space_.table().erase(bytes_of(key), 0);
    if (erased) changes_.push_back({.key = key, .entry = {}, .end = log_->appended()});
    if (erased) log_->ring_bell();
    return;
  }
  ModelEntry entry = some_entry();
  const auto version =
      space_.table().put(bytes_of(key), bytes_of(entry.value),
                         {.expires_wall_ns = entry.expires_wall_ns, .request = entry.request});
  if (!version) return;
  entry.stamp = *version;
  changes_.push_back({.key = key, .entry = std::move(entry), .end = log_->appended()});
  log_->ring_bell();
}

void LoggedShard::begin_snapshot() {
  if (job_) return;
  const node::KvSnapshot::Parts parts{
      .table = space_.table(), .heap = space_.heap(), .writer = space_.writer(), .clock = space_.clock()};
  const auto begin = [&](auto options) { return std::make_unique<node::KvSnapshot>(parts, options); };
  auto job = node::SnapshotJob::start(
      {.begin = begin, .clock = system_clock(), .disk = disk_, .store = kLoggedStore}, {.replaces = true});
  REFRACT_CHECK(job.has_value());
  job_ = *std::move(job);
}

void LoggedShard::poll() {
  (void)space_.table().release_held_back();
  if (!job_ || job_->poll()) return;
  if (job_->outcome()) {
    ++snapshots_;
    log_->drop_up_to(job_->facts().stamp);
  }
  job_.reset();
}

Model LoggedShard::content() {
  Model model;
  for (uint64_t number = 0; number < kLoggedKeys; ++number) {
    const std::string key = fmt::format("key {}", number);
    const auto found = space_.table().find(bytes_of(key));
    if (!found) continue;
    model[key] = {.stamp = found->version,
                  .expires_wall_ns = found->expires_wall_ns,
                  .request = found->request,
                  .value = text_of(found->value)};
  }
  // A key that was not written would be one too many.
  REFRACT_CHECK(model.size() == space_.table().stats().entries);
  return model;
}

Code LoggedShard::room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept {
  return log_->room_for(key_bytes, value_bytes) == storage::ShardLog::Room::kYes ? Code::kOk
                                                                                 : Code::kOverloaded;
}

void LoggedShard::append(const Change& change) noexcept {
  log_->append(node::log_change_of(change));
}

Code LoggedShard::room_for_group(uint64_t changes, uint64_t bytes) const noexcept {
  return log_->room_for_group(changes, bytes) == storage::ShardLog::Room::kYes ? Code::kOk
                                                                               : Code::kOverloaded;
}

void LoggedShard::append_group(uint64_t number, std::span<const Change> changes) noexcept {
  std::vector<storage::Record> records;
  for (const Change& change : changes) records.push_back(node::record_of(change));
  log_->append_group(number, records);
}

std::optional<std::span<const std::byte>> LoggedShard::value_of(const storage::Record& record) noexcept {
  return node::value_in_table(space_.writer(), record);
}

}  // namespace refract::test
