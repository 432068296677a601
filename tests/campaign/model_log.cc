// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/model_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/table/replay.h"

namespace refract::campaign {
namespace {

// Longer values are not copied into the ring.
constexpr uint64_t kReferenceBytes = 3'000;
// Of records that are not yet written: a few, so that there is no room now and then.
constexpr uint64_t kRingBytes = 4'000;
constexpr uint64_t kRecordBytes = 64;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint64_t word_at(const std::byte* base, Offset at) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, base + at.value, sizeof(word));
  return word;
}

}  // namespace

void ModelLog::Counts::add(const Counts& other) noexcept {
  records += other.records;
  by_reference += other.by_reference;
  taken_back += other.taken_back;
  redone += other.redone;
  lost += other.lost;
  refused += other.refused;
  failures += other.failures;
  held += other.held;
}

ModelLog::ModelLog(sim::World& world, sim::Host& server, const Options& options)
    : world_(world), server_(server), options_(options), prng_(world.prng().next()) {
  work();
}

kv::ChangeLog::Change ModelLog::change_of(const Record& record) {
  return {.kind = record.kind,
          .stamp = record.stamp,
          .expires_wall_ns = record.expires_wall_ns,
          .request = record.request,
          .key = std::as_bytes(std::span(record.key)),
          .value = std::as_bytes(std::span(record.value))};
}

void ModelLog::server_restarted(sim::VisibleMemory& memory) {
  if (&memory == memory_) {
    const uint64_t crashed_at = memory.position();
    while (!records_.empty() && records_.size() > written_) {
      const uint64_t store_position = records_.back().store_position;
      if (records_.back().server != servers_ || store_position < crashed_at) break;
      // Between two stores: before or behind the record.
      if (store_position == crashed_at && prng_.chance(0.5)) break;
      while (splits_group(records_.size() - 1)) records_.pop_back();
      records_.pop_back();
      ++counts_.taken_back;
    }
  }
  memory_ = &memory;
  ++servers_;
  // What the failed one had not got is in the ring; the next one begins a new segment with it.
  failed_ = false;
}

std::vector<ModelLog::Lost> ModelLog::host_crashed() {
  size_t kept = synced_ + prng_.below(written_ - synced_ + 1);
  while (splits_group(kept)) --kept;
  std::vector<Lost> lost;
  for (size_t i = kept; i < records_.size(); ++i) {
    const Record& record = records_[i];
    lost.push_back({.key = record.key,
                    .stamp = record.stamp,
                    .erases = record.kind == Kind::kErase,
                    .appended = record.moment});
  }
  counts_.lost += lost.size();
  base_ = appended();
  records_.resize(kept);
  written_ = synced_ = kept;
  replayed_ = 0;
  failed_ = false;
  memory_ = nullptr;
  return lost;
}

const kv::ChangeLog::Change* ModelLog::last_change() {
  if (records_.empty() || options_.mutation == Mutation::kNoRedo) return nullptr;
  const Record& record = records_.back();
  last_ = change_of(record);
  if (record.group != 0) {
    last_group_.clear();
    for (const Record& each : records_) {
      if (each.group == record.group) last_group_.push_back(each.stamp);
    }
    last_ = {.kind = Kind::kGroup, .stamp = record.group, .group = last_group_};
  }
  if (record.is_reference) {
    last_.buffer = record.buffer;
    last_.value = {};
  }
  return record.is_void ? nullptr : &last_;
}

void ModelLog::count_redone(uint64_t version_before) noexcept {
  if (last_.kind == Kind::kGroup) return;
  const bool is_made = last_.kind == Kind::kErase ? version_before == 0 : version_before == last_.stamp;
  counts_.redone += is_made ? 0 : 1;
}

bool ModelLog::replay_into(kv::Table& table, Heap& heap) {
  kv::Replay replay(table, heap);
  std::vector<Change> batch;
  while (replayed_ < records_.size()) {
    batch.clear();
    for (size_t i = replayed_; i < records_.size() && batch.size() < 64; ++i) {
      batch.push_back(change_of(records_[i]));
      // Without effect: what takes its place stands behind it.
      if (records_[i].is_void) batch.back().stamp = 0;
      if (records_[i].is_void) batch.back().kind = Kind::kErase;
    }
    const size_t taken = replay.apply(batch);
    replayed_ += taken;
    if (taken < batch.size()) return false;
  }
  for (const Record& record : records_) replay.know_stamp(record.stamp);
  replay.know_stamp(first_stamp_);
  if (options_.mutation == Mutation::kStampsComeBack) {
    heap.skip_stamps_below(replay.stats().highest_stamp + 1);
  } else {
    first_stamp_ = replay.finish();
  }
  return true;
}

std::string ModelLog::compare(kv::Table& table, const Clock& clock) const {
  std::map<std::string, const Record*> last;
  for (const Record& record : records_) {
    if (!record.is_void) last[record.key] = &record;
  }
  for (const auto& [key, record] : last) {
    const auto entry = table.find(std::as_bytes(std::span(key)));
    const bool is_there = record->kind == Kind::kPut &&
                          (record->expires_wall_ns == 0 || clock.wall_ns() < record->expires_wall_ns);
    if (is_there != entry.has_value()) {
      return fmt::format("{} is {}in the table and {}in the log", key, entry ? "" : "not ",
                         is_there ? "" : "not ");
    }
    if (!entry) continue;
    const bool is_same = entry->version == record->stamp && entry->request == record->request &&
                         entry->expires_wall_ns == record->expires_wall_ns &&
                         entry->value.size() == record->value_bytes;
    if (!is_same) {
      return fmt::format("{} has version {} in the table and {} in the log", key, entry->version,
                         record->stamp);
    }
  }
  return "";
}

Code ModelLog::room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept {
  if (failed_) return Code::kReadOnly;
  const uint64_t copied = value_bytes < kReferenceBytes ? value_bytes : 0;
  const uint64_t waiting = appended() - end_of(written_);
  if (waiting + kRecordBytes + key_bytes + copied <= kRingBytes) return Code::kOk;
  ++counts_.refused;
  return Code::kOverloaded;
}

void ModelLog::append(const Change& change) noexcept {
  Record record{.kind = change.kind,
                .stamp = change.stamp,
                .expires_wall_ns = change.expires_wall_ns,
                .request = change.request,
                .key = text_of(change.key),
                .value = {},
                .buffer = change.buffer,
                .value_bytes = change.value.size()};
  record.is_reference = change.value.size() >= kReferenceBytes;
  if (!record.is_reference) record.value = text_of(change.value);
  record.end = appended() + kRecordBytes + record.key.size() + record.value.size();
  record.store_position = memory_->position();
  record.server = servers_;
  record.moment = options_.moment();
  if (options_.mutation == Mutation::kPublishFirst) ++record.store_position;
  if (options_.mutation == Mutation::kEraseUnstamped && record.kind == Kind::kErase) record.stamp = 0;
  counts_.by_reference += record.is_reference ? 1 : 0;
  ++counts_.records;
  records_.push_back(std::move(record));
}

Code ModelLog::room_for_group(uint64_t changes, uint64_t bytes) const noexcept {
  const uint64_t wanted = changes * kRecordBytes + bytes;
  if (wanted > kRingBytes / 4) return Code::kTooLarge;
  if (failed_) return Code::kReadOnly;
  if (appended() - end_of(written_) + wanted <= kRingBytes) return Code::kOk;
  ++counts_.refused;
  return Code::kOverloaded;
}

// One store for all of them.
void ModelLog::append_group(uint64_t number, std::span<const Change> changes) noexcept {
  for (const Change& change : changes) {
    append(change);
    records_.back().group = number;
  }
}

uint64_t ModelLog::confirmed() const noexcept {
  if (options_.mutation == Mutation::kAnswerUnconfirmed) return appended();
  if (options_.durability == Durability::kAlways) return end_of(synced_);
  size_t count = written_;
  while (count < records_.size() && !records_[count].is_reference) ++count;
  return end_of(count);
}

uint64_t ModelLog::needed_until(Offset buffer) const noexcept {
  if (options_.mutation == Mutation::kReuseNeeded) return 0;
  for (size_t i = records_.size(); i-- > written_;) {
    if (!records_[i].is_reference || records_[i].buffer != buffer) continue;
    ++counts_.held;
    return records_[i].end;
  }
  return 0;
}

void ModelLog::write_some(size_t count) {
  size_t end = written_ + count;
  while (splits_group(end)) ++end;
  // Another thread sees the records; so what was stored before them has happened.
  memory_->make_visible(std::min(records_[end - 1].store_position, memory_->position()));
  for (; written_ < end; ++written_) {
    Record& record = records_[written_];
    // The server is dying, and had not come as far.
    if (record.store_position > memory_->visible()) return;
    if (!record.is_reference) continue;
    const bool is_there = word_at(memory_->image(), record.buffer) == record.stamp;
    if (!is_there && record.server == servers_) {
      options_.complain(fmt::format("the buffer of {} was reused before the log had read it", record.key));
    }
    record.is_void = !is_there;
    record.is_reference = false;
    if (!is_there) continue;
    const auto lengths =
        kv::Lengths::from_word(word_at(memory_->image(), record.buffer.plus(sizeof(uint64_t))));
    record.value = text_of({memory_->image() + record.buffer.value + lengths.value_at(), record.value_bytes});
  }
}

// The log's own thread, and the disk's: now and then they get on a little.
void ModelLog::work() {
  world_.after(prng_.below(150'000), [this] {
    const bool runs = memory_ != nullptr && server_.alive() && !server_.paused();
    if (runs && !failed_) {
      if (prng_.chance(0.5)) synced_ = written_;
      const size_t waiting = records_.size() - written_;
      if (waiting > 0) write_some(1 + prng_.below(waiting));
      if (prng_.chance(0.3)) synced_ = written_;
      if (synced_ < records_.size() && prng_.chance(0.002)) {
        failed_ = true;
        ++counts_.failures;
      }
    } else if (runs && prng_.chance(0.05)) {
      // A snapshot has been written and synced: everything is durable again.
      if (records_.size() > written_) write_some(records_.size() - written_);
      synced_ = written_;
      failed_ = false;
    }
    work();
  });
}

}  // namespace refract::campaign
