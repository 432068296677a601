// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/shard_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/log.h"
#include "refract/memory/space.h"
#include "refract/node/durable/log_stands.h"
#include "refract/node/durable/shard_fill.h"

namespace refract::node {
namespace {

constexpr Offset kFillStateAt{offsetof(SpaceHeader, fill_state)};
constexpr Offset kFloorStampAt{offsetof(SpaceHeader, floor_stamp)};

storage::LogOptions log_options(const NodeConfig& config) {
  return {.durability = log_durability(config)};
}

storage::GroupRole role_of(storage::RecordKind kind, const kv::TransactionName& name) noexcept {
  return {.kind = kind, .place = name.place.bits, .number = name.number};
}

Code code_of(storage::ShardLog::Room room) noexcept {
  switch (room) {
    case storage::ShardLog::Room::kYes:
      return Code::kOk;
    case storage::ShardLog::Room::kLater:
      return Code::kOverloaded;
    case storage::ShardLog::Room::kNoSpace:
    case storage::ShardLog::Room::kFailed:
      return Code::kReadOnly;
    case storage::ShardLog::Room::kTooLarge:
      return Code::kTooLarge;
  }
  return Code::kReadOnly;
}

}  // namespace

storage::Durability log_durability(const NodeConfig& config) noexcept {
  return config.durability == Durability::kAlways ? storage::Durability::kAlways
                                                  : storage::Durability::kEverySecond;
}

Reported<std::unique_ptr<storage::ShardLog>> ShardStorage::open_log(bool empties_ring) {
  return storage::ShardLog::open({.log = parts_.log,
                                  .options = log_options(parts_.config),
                                  .ring = &parts_.ring,
                                  .empties_ring = empties_ring,
                                  .disk = &parts_.disk,
                                  .values = this,
                                  .clock = &system_clock()});
}

Reported<std::unique_ptr<ShardStorage>> ShardStorage::open(Parts parts) {
  std::unique_ptr<ShardStorage> storage(new ShardStorage(std::move(parts)));
  const Parts& with = storage->parts_;
  if (with.writer.load(kFillStateAt) == kFillBegun) {
    if (auto emptied = with.space.empty(); !emptied) return report(emptied.error());
  }
  auto log = storage->open_log(false);
  if (!log && log.error().code == Code::kCorrupt && !storage->is_memory_new()) {
    log_error("{}{}", with.name, log.error().what);
    log = storage->open_log(true);
  }
  if (!log) return report(std::move(log).error());
  storage->log_ = std::move(*log);
  return storage;
}

ShardStorage::~ShardStorage() {
  if (parts_.stands != nullptr && log_) parts_.stands->leave(parts_.log.shard);
  if (on_progress_) parts_.shard.remove(*this);
}

bool ShardStorage::is_memory_new() const noexcept {
  return parts_.writer.load(kFillStateAt) != kFillComplete;
}

void ShardStorage::set_fill_state(uint64_t state) noexcept {
  parts_.writer.publish(kFillStateAt, state);
}

Reported<> ShardStorage::fill(Heap& heap, const Growth& growth) {
  heap_ = &heap;
  set_fill_state(kFillBegun);
  if (log_->has_lost_ring()) {
    return report(Code::kCorrupt,
                  fmt::format("{}what {} held is lost, and with it changes that were acknowledged",
                              parts_.name, parts_.ring.path()),
                  salvage_advice(parts_.disk));
  }
  const auto filling = hosted_.first().begin_filling(growth.now);
  auto filled = fill_shard({.disk = parts_.disk,
                            .log = *log_,
                            .log_id = parts_.log,
                            .filling = *filling,
                            .heap = heap,
                            .grow = growth.now,
                            .grow_ahead = growth.ahead,
                            .name = parts_.name,
                            .hosted = hosted_,
                            .together = parts_.together});
  if (!filled) return report(filled.error());
  if (auto begun = log_->begin(filled->reading); !begun) return begun;
  reading_ = std::move(filled->reading);
  if (auto told = tell_settled(filled->settled, heap, filled->any_settled); !told) return told;
  parts_.writer.publish(kFloorStampAt, reading_.end.stamp);
  set_fill_state(kFillComplete);
  if (parts_.together != nullptr) parts_.together->wait_until_filled();
  if (parts_.stands != nullptr) parts_.stands->join(parts_.log.shard, *log_);
  return {};
}

// Before anything else is: later changes of the same keys stand behind it, and its home forgets it. What it
// follows from, and where logs were cut, comes to the disk first, of all shards.
Reported<> ShardStorage::tell_settled(const std::vector<storage::LogParts::Settled>& settled, Heap& heap,
                                      bool is_anything_open) {
  if (parts_.together == nullptr && !is_anything_open) return {};
  const bool is_synced = log_->drain() && log_->has_begun();
  // Without room the node serves what it has, and no shard takes a change before all logs have begun.
  const bool may_wait = !is_anything_open && log_->state() == storage::LogState::kStalled;
  if (is_synced || may_wait) {
    if (parts_.together != nullptr) parts_.together->wait_until_synced();
    if (!is_anything_open) return {};
  }
  bool is_told = is_synced;
  for (const storage::LogParts::Settled& one : settled) {
    is_told = is_told && log_->room_for(0, 0) == storage::ShardLog::Room::kYes;
    if (is_told) log_->append_settled(heap.next_stamp(), one.name, one.has_happened);
  }
  if (is_told && log_->drain()) return {};
  return report(
      Code::kNoSpace, fmt::format("{}the log cannot be written: {}", parts_.name, log_->trouble()),
      "what the death of all processes has left has to be written first: give the disk room, or mend "
      "it, and start again; nothing was lost");
}

// A server that died before its log had begun, for want of room, has appended nothing.
Reported<> ShardStorage::begin_behind(Heap& heap) {
  auto reading = log_->read({}, [](const storage::Record&) {});
  if (!reading) return report(std::move(reading).error());
  reading->end.stamp = std::max(reading->end.stamp, heap.next_stamp());
  return log_->begin(*reading);
}

Reported<> ShardStorage::go_on(Heap& heap) {
  heap_ = &heap;
  if (auto taken = take_up_ring(heap); !taken) return taken;
  if (parts_.stands != nullptr) parts_.stands->join(parts_.log.shard, *log_);
  return {};
}

Reported<> ShardStorage::take_up_ring(Heap& heap) {
  if (log_->has_lost_ring()) {
    log_error(
        "{}the log's ring is lost; the memory has all that it had, and writes are refused until a "
        "snapshot has it, too",
        parts_.name);
    return log_->begin_failed();
  }
  if (!log_->has_ring()) return begin_behind(heap);
  // A full disk may have kept the floor of this memory's stamps from being written so far.
  storage::LogReading known;
  known.end.stamp = parts_.writer.load(kFloorStampAt);
  if (auto begun = log_->begin(known); !begun) return begun;
  // Large values lie in buffers that no slot may name any more: they are read before anything is reused.
  // Where the disk does not take them now, a younger record of the key stands behind each that is gone.
  (void)log_->drain();
  return {};
}

Reported<> ShardStorage::start(std::function<size_t()> on_progress) {
  // Whatever its thread confirms is news: what was waited for when all was taken up, too.
  told_ = log_->progress();
  if (auto started = log_->start([this] { parts_.shard.wake(); }); !started) return started;
  on_progress_ = std::move(on_progress);
  const auto begin = [this](const StoreSnapshot::Options& options) {
    return hosted_.first().begin_snapshot(options);
  };
  snapshots_.emplace(ShardSnapshots::Parts{.job = {.begin = begin,
                                                   .clock = system_clock(),
                                                   .disk = parts_.disk,
                                                   .store = parts_.log.store,
                                                   .hosted = &hosted_,
                                                   .stands = parts_.stands},
                                           .shard = parts_.shard,
                                           .log = *log_,
                                           .heap = *heap_,
                                           .every_ns = parts_.config.snapshot_every_ns,
                                           .bytes_a_second = parts_.config.snapshot_bytes_a_second,
                                           .name = parts_.name,
                                           .shard_index = parts_.log.shard});
  rung_at_ = log_->appended();
  // A log that was taken up may have failed already, which is news to the rest.
  told_.state = storage::LogState::kRunning;
  parts_.shard.add(*this);
  return {};
}

void ShardStorage::note_appended() noexcept {
  if (parts_.stands != nullptr) parts_.stands->note(parts_.log.shard, *log_);
}

// With room for what a record of a transaction over several shards says of the others' logs.
Code ShardStorage::room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept {
  if (parts_.stands == nullptr) return code_of(log_->room_for(key_bytes, value_bytes));
  if (parts_.stands->is_any_stuck()) return Code::kReadOnly;
  return code_of(log_->room_for(key_bytes + storage::needs_bytes(1), value_bytes));
}

void ShardStorage::append(const kv::ChangeLog::Change& change) noexcept {
  log_->append(log_change_of(change));
  note_appended();
}

Code ShardStorage::room_for_group(uint64_t changes, uint64_t bytes) const noexcept {
  if (parts_.stands == nullptr) return code_of(log_->room_for_group(changes, bytes));
  if (parts_.stands->is_any_stuck()) return Code::kReadOnly;
  return code_of(log_->room_for_group(changes, bytes + storage::needs_bytes(parts_.stands->shards())));
}

void ShardStorage::append_group(uint64_t number, std::span<const kv::ChangeLog::Change> changes) noexcept {
  append_as({}, number, changes);
}

void ShardStorage::append_as(const storage::GroupRole& role, uint64_t number,
                             std::span<const kv::ChangeLog::Change> changes) noexcept {
  std::vector<storage::Record> records;
  records.reserve(changes.size());
  std::ranges::transform(changes, std::back_inserter(records), record_of);
  log_->append_group(number, records, role);
  note_appended();
}

void ShardStorage::append_prepared(const kv::TransactionName& name, uint64_t number,
                                   std::span<const kv::ChangeLog::Change> changes) noexcept {
  append_as(role_of(storage::RecordKind::kPrepared, name), number, changes);
}

void ShardStorage::append_decided(const kv::TransactionName& name, uint64_t number,
                                  std::span<const kv::ChangeLog::Change> changes) noexcept {
  storage::GroupRole role = role_of(storage::RecordKind::kDecided, name);
  std::vector<std::byte> needs;
  if (parts_.stands != nullptr && parts_.stands->are_needed()) {
    needs = storage::encode_needs(parts_.stands->all());
    role.needs = needs;
  }
  append_as(role, number, changes);
}

void ShardStorage::append_settled(const kv::TransactionName& name, uint64_t stamp,
                                  bool has_happened) noexcept {
  storage::GroupRole role = role_of(storage::RecordKind::kSettled, name);
  std::vector<std::byte> needs;
  // Another node's log has the decision, or this one's own.
  const bool is_near = !name.place.is_far();
  if (is_near && parts_.stands != nullptr && parts_.stands->are_needed() && has_happened) {
    const storage::LogStand home = parts_.stands->of(name.place.shard());
    needs = storage::encode_needs({&home, 1});
    role.needs = needs;
  }
  log_->append_settled(stamp, role, has_happened);
  note_appended();
}

void ShardStorage::append_hosted(const HostedChange& change) noexcept {
  REFRACT_CHECK(change.key.size() + change.value.size() <= kHostedChangeBytesMax);
  log_->append({.kind = storage::RecordKind::kHosted,
                .stamp = change.stamp,
                .key = change.key,
                .value = change.value,
                .store = change.store});
  note_appended();
}

Code ShardStorage::failure() const noexcept {
  return log_->state() == storage::LogState::kFailed ? Code::kIndeterminate : Code::kOk;
}

std::optional<std::span<const std::byte>> ShardStorage::value_of(const storage::Record& record) noexcept {
  return parts_.value_of(parts_.writer, record);
}

size_t ShardStorage::poll() noexcept {
  if (const uint64_t appended = log_->appended(); appended != rung_at_) {
    rung_at_ = appended;
    log_->ring_bell();
  }
  if (parts_.stands != nullptr && parts_.stands->is_any_stuck()) {
    parts_.stands->note_state(parts_.log.shard, *log_);
  }
  const storage::ShardLog::Progress progress = log_->progress();
  if (progress == told_) return 0;
  const bool is_another_state = progress.state != told_.state;
  told_ = progress;
  if (is_another_state) {
    note_state();
    if (parts_.stands != nullptr) parts_.stands->note_state(parts_.log.shard, *log_);
  }
  snapshots_->look_at_log();
  return on_progress_();
}

bool ShardStorage::prepare_sleep() noexcept {
  log_->want_progress();
  return log_->progress() == told_;
}

void ShardStorage::note_state() noexcept {
  switch (told_.state) {
    case storage::LogState::kRunning:
      log_info("{}the log continues, and so do writes", parts_.name);
      return;
    case storage::LogState::kStalled:
      log_error("{}the log waits for the disk: {}; writes{} are refused{}, reads go on", parts_.name,
                log_->trouble(), parts_.stands != nullptr ? " of all shards" : "",
                parts_.stands != nullptr ? "" : " once its ring is full");
      return;
    case storage::LogState::kFailed:
      log_error("{}the log has failed: {}; writes are refused, reads go on", parts_.name, log_->trouble());
      log_error("mend the disk: a snapshot, which is tried again and again, brings everything there again");
      return;
  }
}

namespace {

class ValuesOf final : public storage::ValueSource {
 public:
  explicit ValuesOf(const SettleParts& parts) noexcept : writer_(parts.space), value_of_(parts.value_of) {}
  [[nodiscard]] std::optional<std::span<const std::byte>> value_of(
      const storage::Record& record) noexcept override {
    return value_of_(writer_, record);
  }

 private:
  Writer writer_;
  ValueOf value_of_;
};

}  // namespace

Reported<> settle_log(const SettleParts& parts) {
  ValuesOf values(parts);
  auto opened = storage::ShardLog::open({.log = parts.log,
                                         .options = log_options(parts.config),
                                         .ring = &parts.ring,
                                         .disk = &parts.disk,
                                         .values = &values,
                                         .clock = &system_clock()});
  if (!opened) return report(std::move(opened).error());
  if (!(*opened)->has_ring()) return {};
  if (auto begun = (*opened)->begin({}); !begun) return begun;
  if ((*opened)->drain()) return {};
  return report(Code::kSystem, fmt::format("the last changes are not on the disk: {}", (*opened)->trouble()),
                parts.ring.is_in_folder()
                    ? fmt::format("they are in {}, until this host stops: mend the disk, then start the node "
                                  "again",
                                  parts.ring.path())
                    : std::string("they were in memory alone, and are lost: mend the disk before the next "
                                  "start"));
}

}  // namespace refract::node
