// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/memory_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/storage/log/segment.h"

namespace refract::campaign {
namespace {

// The longest group that it takes is a quarter.
constexpr uint64_t kRingBytes = 256 * kKiB;
// A start without a ring begins so far behind what any may have held.
constexpr uint64_t kFreshBytes = 2 * kRingBytes;

storage::Record record_of(const kv::ChangeLog::Change& change) noexcept {
  const bool is_put = change.kind == kv::ChangeLog::Kind::kPut;
  const bool is_mark = change.kind == kv::ChangeLog::Kind::kMark;
  return {.kind = is_mark  ? storage::RecordKind::kMark
                  : is_put ? storage::RecordKind::kPut
                           : storage::RecordKind::kErase,
          .stamp = change.stamp,
          .expires_wall_ns = change.expires_wall_ns,
          .client = change.request.client,
          .sequence = change.request.sequence,
          .key = change.key,
          .value = change.value,
          .value_bytes = change.value.size()};
}

std::vector<std::byte> encoded(const storage::Record& record) {
  std::vector<std::byte> bytes(storage::stored_bytes(record.form, record.key.size(), record.value.size()));
  (void)storage::encode_record(record, 0, bytes.data());
  return bytes;
}

storage::GroupRole role_of(storage::RecordKind kind, const kv::TransactionName& name) noexcept {
  return {.kind = kind, .place = name.place.bits, .number = name.number};
}

}  // namespace

MemoryLog::MemoryLog(sim::World& world, sim::Host& host, const Options& options)
    : world_(world), host_(host), options_(options), prng_(world.prng().next()) {
  base_ = highest_end_ = storage::kFirstPosition;
}

storage::Record MemoryLog::read(const Kept& kept) {
  storage::Record record;
  REFRACT_CHECK(storage::decode_record(kept.bytes, kept.position, 0, record) == storage::RecordFault::kNone);
  return record;
}

uint64_t MemoryLog::end_of(size_t count) const noexcept {
  return count == 0 ? base_ : std::max(base_, records_[count - 1].end());
}

void MemoryLog::forget_from(size_t count) {
  records_.resize(std::min(count, records_.size()));
  written_ = std::min(written_, records_.size());
  syncing_ = std::min(syncing_, records_.size());
  synced_ = std::min(synced_, records_.size());
}

void MemoryLog::process_died() {
  size_t kept = records_.size();
  while (memory_ != nullptr && kept > 0 && records_[kept - 1].process == process_ &&
         records_[kept - 1].store > memory_->position()) {
    --kept;
  }
  counts_.taken_back += records_.size() - kept;
  forget_from(kept);
  ++process_;
  memory_ = nullptr;
  is_full_ = false;
}

void MemoryLog::take_up(sim::VisibleMemory& memory) {
  memory_ = &memory;
  schedule();
}

const kv::ChangeLog::Change* MemoryLog::last_change() {
  if (records_.empty()) return nullptr;
  const storage::Record record = read(records_.back());
  switch (record.kind) {
    case storage::RecordKind::kPut:
    case storage::RecordKind::kErase:
      last_ = {.kind = record.kind == storage::RecordKind::kPut ? Kind::kPut : Kind::kErase,
               .stamp = record.stamp,
               .expires_wall_ns = record.expires_wall_ns,
               .request = {.client = record.client, .sequence = record.sequence},
               .key = record.key,
               .value = record.value};
      return &last_;
    case storage::RecordKind::kGroup: {
      last_group_.clear();
      storage::GroupReader changes(record);
      while (const auto change = changes.next()) last_group_.push_back(change->stamp);
      last_ = {.kind = Kind::kGroup, .stamp = record.stamp, .group = last_group_};
      return &last_;
    }
    default:
      return nullptr;
  }
}

std::optional<kv::TransactionName> MemoryLog::last_decided() const {
  if (records_.empty() || options_.mutation == Mutation::kForgetLastRecord) return std::nullopt;
  const storage::Record record = read(records_.back());
  if (record.kind != storage::RecordKind::kDecided) return std::nullopt;
  return kv::TransactionName{.place = {record.client}, .number = record.sequence};
}

void MemoryLog::lose_tail() {
  const size_t kept = synced_ + prng_.below(written_ - synced_ + 1);
  counts_.lost += records_.size() - kept;
  forget_from(kept);
}

storage::LogReading MemoryLog::reading() const {
  storage::LogReading reading;
  reading.end.position = appended();
  reading.gaps = gaps_;
  return reading;
}

void MemoryLog::cut_at(uint64_t position) {
  const auto is_behind = [position](const Kept& kept) { return kept.position >= position; };
  const auto kept = static_cast<size_t>(std::ranges::find_if(records_, is_behind) - records_.begin());
  counts_.cut += records_.size() - kept;
  forget_from(kept);
}

void MemoryLog::begin_again(bool is_cut) {
  const uint64_t end = appended();
  base_ = highest_end_ += kFreshBytes;
  gaps_.push_back({.end = end, .begin = base_, .is_cut = is_cut});
  sync_all();
}

void MemoryLog::tell_settled(const storage::GroupRole& name, uint64_t stamp, bool has_happened) {
  add(encoded({.kind = storage::RecordKind::kSettled,
               .position = appended(),
               .stamp = stamp,
               .client = name.place,
               .sequence = name.number,
               .key = name.needs,
               .has_happened = has_happened}));
}

void MemoryLog::sync_all() {
  written_ = syncing_ = synced_ = records_.size();
}

storage::LogStand MemoryLog::stand() const noexcept {
  size_t count = records_.size();
  while (memory_ != nullptr && count > 0 && records_[count - 1].process == process_ &&
         records_[count - 1].store > memory_->visible()) {
    --count;
  }
  return {.position = end_of(count), .synced = end_of(std::min(synced_, count))};
}

bool MemoryLog::has_progressed() {
  const Told now{.confirmed = confirmed(), .written = end_of(written_), .is_full = is_full_};
  if (now == told_) return false;
  told_ = now;
  return true;
}

Code MemoryLog::room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept {
  return room_for_group(1, key_bytes + value_bytes);
}

Code MemoryLog::room_for_group(uint64_t changes, uint64_t bytes) const noexcept {
  const uint64_t needs = storage::needs_bytes(options_.shards);
  const uint64_t wanted = storage::group_bytes_max(changes, bytes + needs);
  if (wanted > kRingBytes / 4) return Code::kTooLarge;
  if (!is_full_ && appended() - end_of(written_) + wanted <= kRingBytes) return Code::kOk;
  ++counts_.refused;
  return Code::kOverloaded;
}

void MemoryLog::append(const Change& change) noexcept {
  storage::Record record = record_of(change);
  record.position = appended();
  add(encoded(record));
}

void MemoryLog::append_group(uint64_t number, std::span<const Change> changes) noexcept {
  add_group({}, number, changes);
}

void MemoryLog::append_prepared(const kv::TransactionName& name, uint64_t number,
                                std::span<const Change> changes) noexcept {
  add_group(role_of(storage::RecordKind::kPrepared, name), number, changes);
}

void MemoryLog::append_decided(const kv::TransactionName& name, uint64_t number,
                               std::span<const Change> changes) noexcept {
  storage::GroupRole role = role_of(storage::RecordKind::kDecided, name);
  std::vector<std::byte> needs;
  if (options_.durability == Durability::kEverySecond && options_.mutation != Mutation::kNoNeeds) {
    needs = storage::encode_needs(options_.stands());
    role.needs = needs;
  }
  add_group(role, number, changes);
}

void MemoryLog::append_settled(const kv::TransactionName& name, uint64_t stamp, bool has_happened) noexcept {
  storage::GroupRole role = role_of(storage::RecordKind::kSettled, name);
  std::vector<std::byte> needs;
  const bool is_needed = options_.durability == Durability::kEverySecond && has_happened;
  if (is_needed && options_.mutation != Mutation::kNoNeedsOfSettled) {
    const storage::LogStand home = options_.stands()[name.place.shard()];
    needs = storage::encode_needs({&home, 1});
    role.needs = needs;
  }
  tell_settled(role, stamp, has_happened);
  confirms_next_ = options_.mutation == Mutation::kForgetEarly;
}

uint64_t MemoryLog::confirmed() const noexcept {
  if (std::exchange(confirms_next_, false)) return appended();
  if (options_.mutation == Mutation::kAnswerUnconfirmed) return appended();
  return options_.durability == Durability::kAlways ? end_of(synced_) : appended();
}

void MemoryLog::add_group(const storage::GroupRole& role, uint64_t number, std::span<const Change> changes) {
  std::vector<storage::Record> records;
  records.reserve(changes.size());
  std::ranges::transform(changes, std::back_inserter(records), record_of);
  std::vector<std::byte> bytes(storage::group_bytes(records) + role.needs.size());
  const storage::GroupPlace place{.position = appended(), .number = number, .role = role};
  (void)storage::encode_group(place, records, 0, bytes.data());
  add(std::move(bytes));
}

void MemoryLog::add(std::vector<std::byte> bytes) {
  Kept kept{.bytes = std::move(bytes), .position = appended(), .process = process_};
  kept.moment_ns = world_.now_ns();
  if (memory_ != nullptr) {
    // It changes nothing there.
    memory_->stored({0}, {memory_->owner(), sizeof(uint64_t)});
    kept.store = memory_->position();
  }
  highest_end_ = std::max(highest_end_, kept.end());
  records_.push_back(std::move(kept));
  ++counts_.records;
  schedule();
}

void MemoryLog::schedule() {
  if (is_scheduled_ || (synced_ == records_.size() && !is_full_)) return;
  is_scheduled_ = true;
  world_.after(1 + prng_.below(options_.pace_ns), [this] {
    is_scheduled_ = false;
    work();
    schedule();
  });
}

// The log's thread, and the disk: what was written when a sync began is synced when it ends.
void MemoryLog::work() {
  if (memory_ == nullptr || !host_.alive() || host_.paused()) return;
  is_full_ = prng_.chance(is_full_ ? 0.7 : 0.02);
  if (prng_.chance(options_.sync_chance)) {
    synced_ = std::max(synced_, syncing_);
    syncing_ = written_;
  }
  const size_t waiting = records_.size() - written_;
  if (waiting == 0 || is_full_) return;
  // Another thread sees the records; so what was stored before them has happened.
  const size_t end = written_ + 1 + prng_.below(waiting);
  const Kept& last = records_[end - 1];
  if (last.process == process_) memory_->make_visible(std::min(last.store, memory_->position()));
  if (last.process == process_ && last.store > memory_->visible()) return;
  written_ = end;
}

}  // namespace refract::campaign
