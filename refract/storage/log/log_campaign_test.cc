// SPDX-License-Identifier: Apache-2.0
// Whatever dies when, what the log has confirmed is found behind it, and nothing that was not appended.
//
// Method: a seed decides on appends, rounds, failures and deaths, on a disk that keeps no more than it must.
// A model knows what was appended and what was promised. After each death the log is read back and judged:
// what is handed out are the appended records, in order, without a hole, as many as were promised or more,
// and of each group all or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/log.h"
#include "refract/base/prng.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/testing/simulated_disk.h"
#include "refract/storage/testing/test_ring.h"

namespace refract::storage {
namespace {

constexpr uint64_t kReferenceBytes = 6000;
constexpr uint64_t kStampsSkipped = 1000;  // By a start whose memory was lost.

struct Entry {
  RecordKind kind = RecordKind::kPut;
  uint64_t stamp = 0;
  std::string key;
  std::vector<std::byte> value;
  uint64_t end = 0;    // Position.
  uint64_t group = 0;  // Its number; 0: it is alone.
  bool is_identified = true;
  bool may_be_absent = false;

  [[nodiscard]] bool is_apart() const noexcept { return group == 0 && value.size() >= kReferenceBytes; }
};

// The memory of a shard that has nothing but large values in it.
class Values final : public ValueSource {
 public:
  [[nodiscard]] std::optional<std::span<const std::byte>> value_of(const Record& record) noexcept override {
    const auto found = buffers.find(record.reference);
    if (found == buffers.end()) return std::nullopt;
    return found->second;
  }
  std::map<uint64_t, std::vector<std::byte>> buffers;
};

// What a disk may pretend; each of them must be found out.
struct Lies {
  bool syncs_nothing = false;
  bool syncs_no_folder = false;
  bool hides_failed_syncs = false;
  bool loses_spans = false;  // Now and then a write goes nowhere.
};

class LyingDisk final : public Disk {
 public:
  LyingDisk(SimulatedDisk& disk, Lies lies) : disk_(disk), lies_(lies) {}

  [[nodiscard]] Reported<std::unique_ptr<File>> open(std::string_view name, OpenMode mode) override {
    Reported<std::unique_ptr<File>> file = disk_.open(name, mode);
    if (!file) return file;
    return std::make_unique<LyingFile>(*std::move(file), *this);
  }
  [[nodiscard]] Reported<> rename(std::string_view from, std::string_view to) override {
    return disk_.rename(from, to);
  }
  [[nodiscard]] Reported<> remove(std::string_view name) override { return disk_.remove(name); }
  [[nodiscard]] Reported<> sync_folder() override {
    if (lies_.syncs_no_folder) return {};
    return disk_.sync_folder();
  }
  [[nodiscard]] Reported<std::vector<std::string>> list() override { return disk_.list(); }
  [[nodiscard]] Reported<std::unique_ptr<Lock>> lock(std::string_view name) override {
    return disk_.lock(name);
  }
  [[nodiscard]] std::string path_of(std::string_view name) const override { return disk_.path_of(name); }

 private:
  class LyingFile final : public File {
   public:
    LyingFile(std::unique_ptr<File> file, LyingDisk& disk) : file_(std::move(file)), disk_(disk) {}
    [[nodiscard]] Reported<> write(uint64_t offset, std::span<const std::byte> bytes) override {
      if (disk_.lies_.loses_spans && ++disk_.writes_ % 16 == 0) return {};
      return file_->write(offset, bytes);
    }
    [[nodiscard]] Reported<uint64_t> read(uint64_t offset, std::span<std::byte> bytes) override {
      return file_->read(offset, bytes);
    }
    [[nodiscard]] Reported<> sync() override {
      if (disk_.lies_.syncs_nothing) return {};
      const Reported<> synced = file_->sync();
      if (disk_.lies_.hides_failed_syncs) return {};
      return synced;
    }
    [[nodiscard]] Reported<> allocate(uint64_t bytes) override { return file_->allocate(bytes); }
    [[nodiscard]] Reported<> truncate(uint64_t bytes) override { return file_->truncate(bytes); }
    [[nodiscard]] Reported<uint64_t> bytes() override { return file_->bytes(); }
    void start_writeback(uint64_t offset, uint64_t bytes) override { file_->start_writeback(offset, bytes); }
    [[nodiscard]] Reported<> finish_writeback(uint64_t offset, uint64_t bytes) override {
      return file_->finish_writeback(offset, bytes);
    }
    void drop_cached(uint64_t offset, uint64_t bytes) override { file_->drop_cached(offset, bytes); }

   private:
    std::unique_ptr<File> file_;
    LyingDisk& disk_;
  };

  SimulatedDisk& disk_;
  Lies lies_;
  uint64_t writes_ = 0;
};

class Campaign {
 public:
  Campaign(uint64_t seed, const std::string& folder, Lies lies = {})
      : chance_(seed),
        disk_({.seed = mix(seed), .clock = &clock_, .sync_ns = 1000}),
        liar_(disk_, lies),
        ring_(folder, {std::byte{5}}, 2) {
    spec_.log = {.store = {std::byte{5}}, .shard = 2};
    spec_.options.durability = chance_.chance(0.5) ? Durability::kAlways : Durability::kEverySecond;
    spec_.options.segment_bytes = 16384;
    spec_.ring = ring_.file();
    spec_.ring_bytes = kRingBytesMin;
    spec_.disk = &liar_;
    spec_.values = &values_;
    spec_.clock = &clock_;
    spec_.reference_bytes = kReferenceBytes;
    clock_.set_now_ns(kSecond_ns * 100);
  }

  void run() {
    recover(/*host_died=*/true);
    for (int round = 0; round < 300 && contradiction.empty(); ++round) {
      turn(chance_.below(100));
      if (disk_.is_dead()) die(/*with_host=*/true);
    }
    if (contradiction.empty()) die(/*with_host=*/true);
    if (contradiction.empty()) die(/*with_host=*/false);
  }

  std::string contradiction;  // The first one; empty: there is none.
  uint64_t deaths = 0;
  uint64_t failures = 0;
  uint64_t torn = 0;
  uint64_t dropped = 0;
  uint64_t recycled = 0;
  uint64_t references = 0;
  uint64_t stalls = 0;
  uint64_t groups = 0;

 private:
  void turn(uint64_t dice) {
    if (dice < 45) return append();
    if (dice < 75) return advance();
    if (dice < 80) return snapshot();
    if (dice < 82) return die(/*with_host=*/true);
    if (dice < 84) return die(/*with_host=*/false);
    if (dice < 86) return warm_restart();
    if (dice < 88) return disk_.die_at(1 + chance_.below(30));
    if (dice < 90) return disk_.fail_next_syncs(1);
    if (dice < 92) return disk_.set_capacity(chance_.chance(0.5) ? 40'000 : UINT64_MAX);
    if (dice < 94) log_->want_progress();
    advance();
  }

  [[nodiscard]] Entry some_entry(uint64_t stamp) {
    Entry entry;
    entry.stamp = stamp;
    entry.kind = chance_.chance(0.8) ? RecordKind::kPut : RecordKind::kErase;
    entry.key = std::string(1 + chance_.below(40), static_cast<char>('a' + chance_.below(26)));
    if (entry.kind == RecordKind::kPut) {
      const uint64_t size = chance_.chance(0.1) ? chance_.below(30'000) : chance_.below(1500);
      entry.value.resize(size);
      for (std::byte& byte : entry.value) byte = static_cast<std::byte>(chance_.next());
    }
    return entry;
  }

  void append_group() {
    std::vector<Entry> group;
    uint64_t bytes = 0;
    const uint64_t number = stamp_ + 1;
    for (uint64_t count = 1 + chance_.below(5); count > 0; --count) {
      group.push_back(some_entry(number + group.size() + 1));
      group.back().group = number;
      group.back().is_identified = group.size() == 1;
      bytes += group.back().key.size() + group.back().value.size();
    }
    if (log_->room_for_group(group.size(), bytes) != ShardLog::Room::kYes) return;
    std::vector<Record> records;
    for (const Entry& entry : group) {
      records.push_back({.kind = entry.kind,
                         .stamp = entry.stamp,
                         .client = entry.is_identified ? 9U : 0U,
                         .sequence = entry.is_identified ? entry.stamp : 0,
                         .key = std::as_bytes(std::span(entry.key)),
                         .value = entry.value,
                         .value_bytes = entry.value.size()});
    }
    log_->append_group(number, records);
    appended_stamp_ = stamp_ = group.back().stamp;
    may_have_given_ = true;
    ++groups;
    for (Entry& entry : group) {
      entry.end = log_->appended();
      entries_.push_back(std::move(entry));
    }
  }

  void append() {
    if (chance_.chance(0.3)) append_group();
    for (uint64_t count = chance_.below(8); count > 0; --count) {
      Entry entry = some_entry(stamp_ + 1 + chance_.below(3));
      if (log_->room_for(entry.key.size(), entry.value.size()) != ShardLog::Room::kYes) return;
      stamp_ = entry.stamp;
      appended_stamp_ = stamp_;
      may_have_given_ = true;
      const uint64_t buffer = 64 * stamp_;
      if (entry.value.size() >= kReferenceBytes) {
        values_.buffers[buffer] = entry.value;
        ++references;
      }
      log_->append({.kind = entry.kind,
                    .stamp = entry.stamp,
                    .client = 9,
                    .sequence = entry.stamp,
                    .key = std::as_bytes(std::span(entry.key)),
                    .value = entry.value,
                    .buffer = buffer});
      entry.end = log_->appended();
      entries_.push_back(std::move(entry));
    }
    // What the log has read may be reused, and is.
    std::erase_if(values_.buffers, [&](const auto& one) { return log_->needed_until(one.first) == 0; });
  }

  void advance() {
    clock_.advance_ns(chance_.below(kSecond_ns));
    const uint64_t before = log_->synced();
    (void)log_->step();
    expect(log_->synced() >= before, "what was synced is not so any more");
    if (log_->state() == LogState::kStalled) {
      ++stalls;
      if (chance_.chance(0.3)) disk_.set_capacity(UINT64_MAX);
    }
    if (log_->state() != LogState::kFailed) return;
    ++failures;
    const uint64_t confirmed = log_->synced();
    expect(log_->room_for(1, 1) == ShardLog::Room::kFailed, "a failed log takes changes");
    (void)log_->step();
    expect(log_->synced() == confirmed, "confirmed behind a failure");
    if (chance_.chance(0.5)) restart();
  }

  // A snapshot with everything is on the disk: what the failed log had is not needed any more.
  void restart() {
    if (disk_.is_dead()) return;
    base_ = stamp_;
    log_->restart(base_);
    (void)log_->step();
  }

  void snapshot() {
    if (entries_.empty() || log_->state() == LogState::kFailed) return;
    // A moment lies between two turns.
    size_t last = chance_.below(entries_.size());
    while (is_within(last + 1)) ++last;
    base_ = std::max(base_, entries_[last].stamp);
    log_->drop_up_to(base_);
    (void)log_->step();
  }

  // The server dies; its memory and the ring stay.
  void warm_restart() {
    count();
    const uint64_t end = log_->appended();
    log_.reset();
    reopen();
    if (disk_.is_dead() || log_ == nullptr) return;
    const std::optional<Record> last = log_->last_record();
    expect(log_->has_ring() && (!last || last_stamp_of(*last) == appended_stamp_),
           "the ring has forgotten its last record");
    if (!contradiction.empty()) return;
    // A buffer that was not protected while no server ran.
    if (chance_.chance(0.3)) {
      values_.buffers.clear();
      for (Entry& entry : entries_) entry.may_be_absent |= entry.is_apart();
    }
    begin({}, floor_);
    if (disk_.is_dead() || !contradiction.empty()) return;
    expect(log_->appended() == end, "the ring ends elsewhere");
  }

  void die(bool with_host) {
    ++deaths;
    count();
    const bool failed = log_->state() == LogState::kFailed;
    promised_ = log_->synced();
    // The ring outlives all processes, and with it everything; but what only the page cache had of a file
    // whose sync failed is the kernel's to forget.
    if (!with_host && !failed) promised_ = log_->appended();
    log_.reset();
    if (with_host) {
      disk_.crash();
      ring_.lose();
    } else if (disk_.is_dead()) {
      return;
    }
    values_.buffers.clear();
    recover(with_host);
  }

  void recover(bool host_died) {
    reopen();
    if (log_ == nullptr) return;
    std::vector<Entry> found;
    const Reported<LogReading> reading =
        log_->read({.after_stamp = base_}, [&](const Record& record) { found.push_back(entry_of(record)); });
    expect(reading.has_value(), reading ? "" : reading.error().to_string());
    if (!reading) return;
    for (const LogDamage& damage : reading->damages) expect(false, damage.to_string());
    expect(reading->begins_after_stamp <= base_, "the log begins behind the snapshot");
    if (reading->torn_position != 0) ++torn;
    judge(found, host_died);
    // Stamps above the floor may have been seen, though no disk has them.
    if (may_have_given_) expect(reading->end.stamp >= floor_, "the floor of the stamps is forgotten");
    if (!contradiction.empty()) return;
    const bool is_first_start =
        reading->end.stamp == 0 && (log_->has_ring() || reading->fresh_position == kFirstPosition);
    floor_ = is_first_start ? 0 : std::max(reading->end.stamp, stamp_) + kStampsSkipped;
    stamp_ = std::max(stamp_, floor_);
    may_have_given_ = false;
    begin(*reading, floor_);
  }

  void expect(bool holds, const std::string& what) {
    if (!holds && contradiction.empty()) contradiction = what;
  }

  [[nodiscard]] Entry entry_of(const Record& record) {
    Entry entry;
    entry.kind = record.kind;
    entry.stamp = record.stamp;
    entry.key.assign(reinterpret_cast<const char*>(record.key.data()), record.key.size());
    entry.value.assign(record.value.begin(), record.value.end());
    entry.is_identified = record.client != 0;
    expect(!entry.is_identified || (record.client == 9 && record.sequence == record.stamp),
           "an identity is another's");
    return entry;
  }

  // Whether the entry is of the group that the one before it is of, too.
  [[nodiscard]] bool is_within(size_t index) const noexcept {
    return index < entries_.size() && entries_[index].group != 0 &&
           entries_[index].group == entries_[index - 1].group;
  }

  void expect_whole_groups(const std::vector<Entry>& found) {
    std::map<uint64_t, size_t> sizes;
    for (const Entry& entry : entries_) sizes[entry.group] += entry.stamp > base_ ? 1 : 0;
    std::map<uint64_t, uint64_t> group_of;
    for (const Entry& entry : entries_) group_of[entry.stamp] = entry.group;
    std::map<uint64_t, size_t> seen;
    for (const Entry& entry : found) ++seen[group_of[entry.stamp]];
    for (const auto& [group, count] : seen) {
      expect(group == 0 || count == sizes[group], "half of the group " + std::to_string(group));
    }
  }

  // `found` must be the entries behind the base, up to the promised ones or further.
  void judge(const std::vector<Entry>& found, bool host_died) {
    expect_whole_groups(found);
    size_t next = 0;
    std::vector<Entry> kept;
    for (Entry& entry : entries_) {
      const bool is_below = entry.stamp <= base_;
      const bool is_found = next < found.size() && found[next].stamp == entry.stamp;
      if (is_found) {
        const Entry& same = found[next];
        expect(same.key == entry.key && same.value == entry.value && same.kind == entry.kind &&
                   same.is_identified == entry.is_identified,
               "another record at stamp " + std::to_string(entry.stamp));
        ++next;
      } else if (!is_below && next == found.size()) {
        // Behind the last one that was found: lost, which must not have been promised. A large value that
        // only the memory had is not promised before it was written.
        const bool was_apart = entry.is_apart() && !host_died;
        expect(entry.end > promised_ || entry.may_be_absent || was_apart,
               "confirmed and lost: stamp " + std::to_string(entry.stamp));
        continue;
      } else if (!is_below) {
        const bool was_apart = entry.is_apart() && !host_died;
        expect(entry.may_be_absent || was_apart, "a hole at stamp " + std::to_string(entry.stamp));
        continue;
      }
      kept.push_back(std::move(entry));
    }
    expect(next == found.size(), "found what was never appended, or out of order");
    entries_ = std::move(kept);
  }

  void count() {
    const LogCounters counters = log_->counters();
    dropped += counters.segments_dropped;
    recycled += counters.segments_recycled;
  }

  void reopen() {
    Reported<std::unique_ptr<ShardLog>> log = ShardLog::open(spec_);
    expect(log.has_value(), log ? "" : log.error().to_string());
    if (log) log_ = *std::move(log);
  }

  // A disk that dies meanwhile, or that is full, is brought up again.
  void begin(LogReading reading, uint64_t floor) {
    reading.end.stamp = floor;
    // Only a ring that is there lets a log that has nothing on the disk yet begin on a full one.
    if (!log_->has_ring() || chance_.chance(0.7)) disk_.set_capacity(UINT64_MAX);
    // A log that begins on a disk which fails at once does not begin, rightly.
    if (!log_->has_ring()) disk_.fail_next_syncs(0);
    const Reported<> begun = log_->begin(reading);
    if (begun) return;
    expect(disk_.is_dead(), begun.error().to_string());
    if (!contradiction.empty()) return;
    log_.reset();
    disk_.crash();
    ring_.lose();
    values_.buffers.clear();
    recover(/*host_died=*/true);
  }

  Prng chance_;
  ManualClock clock_;
  SimulatedDisk disk_;
  LyingDisk liar_;
  Values values_;
  KeptRing ring_;
  ShardLogSpec spec_;
  std::unique_ptr<ShardLog> log_;
  std::vector<Entry> entries_;
  uint64_t stamp_ = 0;
  uint64_t appended_stamp_ = 0;
  uint64_t floor_ = 0;           // What the memory's life began above.
  bool may_have_given_ = false;  // A stamp above the floor.
  uint64_t base_ = 0;            // A snapshot has everything up to this stamp.
  uint64_t promised_ = 0;        // Position: what ends there or before must be found.
};

TEST(LogCampaign, what_was_confirmed_is_found_behind_any_death_and_nothing_else_is) {
  set_log_level(LogLevel::kError);
  const char* const one = std::getenv("REFRACT_SEED");
  const char* const many = std::getenv("REFRACT_SEEDS");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t count = one != nullptr ? 1 : many != nullptr ? std::strtoull(many, nullptr, 10) : 60;
  const test::Folder folder;
  uint64_t totals[8] = {};
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Campaign campaign(seed, folder.path());
    campaign.run();
    ASSERT_EQ(campaign.contradiction, "") << "REFRACT_SEED=" << seed;
    const uint64_t seen[] = {campaign.deaths,   campaign.failures,   campaign.torn,   campaign.dropped,
                             campaign.recycled, campaign.references, campaign.stalls, campaign.groups};
    for (size_t i = 0; i < std::size(seen); ++i) totals[i] += seen[i];
  }
  if (one != nullptr) return;
  for (const uint64_t total : totals) EXPECT_GT(total, count / 10) << "something that was to happen did not";
}

// The method itself: rules broken on purpose are found.
TEST(LogCampaign, a_disk_that_lies_is_found_out) {
  set_log_level(LogLevel::kError);
  const test::Folder folder;
  const Lies all[] = {{.syncs_nothing = true},
                      {.syncs_no_folder = true},
                      {.hides_failed_syncs = true},
                      {.loses_spans = true}};
  for (const Lies& lies : all) {
    bool is_found = false;
    for (uint64_t seed = 1; seed <= 30 && !is_found; ++seed) {
      Campaign campaign(seed, folder.path(), lies);
      campaign.run();
      is_found = !campaign.contradiction.empty();
    }
    EXPECT_TRUE(is_found) << "the lie number " << &lies - all;
  }
}

}  // namespace
}  // namespace refract::storage
