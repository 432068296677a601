// SPDX-License-Identifier: Apache-2.0
// Whatever dies when, what the log has confirmed is found behind it, and nothing that was not appended.
//
// Method: a seed decides on appends, rounds, failures and deaths, on a disk that keeps no more than it must.
// A model knows what was appended and what was promised. After each death the log is read back and judged:
// what is handed out are the appended records, in order, without a hole, as many as were promised or more.
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
#include "refract/memory/fake_system.h"
#include "refract/storage/shard_log.h"
#include "refract/storage/simulated_disk.h"

namespace refract::storage {
namespace {

constexpr uint64_t kReferenceBytes = 6000;

struct Entry {
  RecordKind kind = RecordKind::kPut;
  uint64_t stamp = 0;
  std::string key;
  std::vector<std::byte> value;
  uint64_t end = 0;  // Position.
  bool may_be_absent = false;
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

class Campaign {
 public:
  Campaign(uint64_t seed, const std::string& folder)
      : chance_(seed), disk_({.seed = mix(seed), .clock = &clock_, .sync_ns = 1000}) {
    spec_.log = {.store = {std::byte{5}}, .shard = 2};
    spec_.options.durability = chance_.chance(0.5) ? Durability::kAlways : Durability::kEverySecond;
    spec_.options.segment_bytes = 16384;
    spec_.ring_path = folder + "/ring";
    spec_.ring_bytes = kRingBytesMin;
    spec_.disk = &disk_;
    spec_.values = &values_;
    spec_.clock = &clock_;
    spec_.reference_bytes = kReferenceBytes;
    clock_.set_now_ns(kSecond_ns * 100);
  }

  void run() {
    recover(/*host_died=*/true);
    for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
      turn(chance_.below(100));
      if (disk_.is_dead()) die(/*with_host=*/true);
    }
    die(/*with_host=*/true);
    die(/*with_host=*/false);
  }

  uint64_t deaths = 0;
  uint64_t failures = 0;
  uint64_t torn = 0;
  uint64_t dropped = 0;
  uint64_t recycled = 0;
  uint64_t references = 0;
  uint64_t stalls = 0;

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

  void append() {
    for (uint64_t count = chance_.below(8); count > 0; --count) {
      Entry entry;
      entry.stamp = stamp_ + 1 + chance_.below(3);
      entry.kind = chance_.chance(0.8) ? RecordKind::kPut : RecordKind::kErase;
      entry.key = std::string(1 + chance_.below(40), static_cast<char>('a' + chance_.below(26)));
      if (entry.kind == RecordKind::kPut) {
        const uint64_t size = chance_.chance(0.1) ? chance_.below(30'000) : chance_.below(1500);
        entry.value.resize(size);
        for (std::byte& byte : entry.value) byte = static_cast<std::byte>(chance_.next());
      }
      if (log_->room_for(entry.key.size(), entry.value.size()) != ShardLog::Room::kYes) return;
      stamp_ = entry.stamp;
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
    EXPECT_GE(log_->synced(), before);
    if (log_->state() == LogState::kStalled) {
      ++stalls;
      if (chance_.chance(0.3)) disk_.set_capacity(UINT64_MAX);
    }
    if (log_->state() != LogState::kFailed) return;
    ++failures;
    const uint64_t confirmed = log_->synced();
    EXPECT_EQ(log_->room_for(1, 1), ShardLog::Room::kFailed);
    (void)log_->step();
    EXPECT_EQ(log_->synced(), confirmed) << "confirmed behind a failure";
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
    base_ = std::max(base_, entries_[chance_.below(entries_.size())].stamp);
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
    ASSERT_TRUE(log_->has_ring());
    const std::optional<Record> last = log_->last_record();
    EXPECT_EQ(last ? last->stamp : stamp_, stamp_);
    // A buffer that nobody protected while no server ran.
    if (chance_.chance(0.3)) {
      values_.buffers.clear();
      for (Entry& entry : entries_) entry.may_be_absent |= entry.value.size() >= kReferenceBytes;
    }
    begin({});
    if (disk_.is_dead()) return;
    EXPECT_EQ(log_->appended(), end);
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
      std::filesystem::remove(spec_.ring_path);
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
    ASSERT_TRUE(reading) << reading.error().to_string();
    for (const LogDamage& damage : reading->damages) ADD_FAILURE() << damage.to_string();
    EXPECT_LE(reading->begins_after_stamp, base_);
    if (reading->torn_position != 0) ++torn;
    judge(found, host_died);
    begin(*reading);
  }

  [[nodiscard]] static Entry entry_of(const Record& record) {
    Entry entry;
    entry.kind = record.kind;
    entry.stamp = record.stamp;
    entry.key.assign(reinterpret_cast<const char*>(record.key.data()), record.key.size());
    entry.value.assign(record.value.begin(), record.value.end());
    EXPECT_EQ(record.client, 9);
    EXPECT_EQ(record.sequence, record.stamp);
    return entry;
  }

  // `found` must be the entries behind the base, up to the promised ones or further.
  void judge(const std::vector<Entry>& found, bool host_died) {
    size_t next = 0;
    std::vector<Entry> kept;
    for (Entry& entry : entries_) {
      const bool is_below = entry.stamp <= base_;
      const bool is_found = next < found.size() && found[next].stamp == entry.stamp;
      if (is_found) {
        ASSERT_EQ(found[next].key, entry.key);
        ASSERT_EQ(found[next].value, entry.value);
        ASSERT_EQ(found[next].kind, entry.kind);
        ++next;
      } else if (!is_below && next == found.size()) {
        // Behind the last one that was found: lost, which must not have been promised. A large value that
        // only the memory had is promised to nobody before it was written.
        const bool was_apart = entry.value.size() >= kReferenceBytes && !host_died;
        ASSERT_TRUE(entry.end > promised_ || entry.may_be_absent || was_apart)
            << "stamp " << entry.stamp << " was confirmed, and is lost";
        continue;
      } else if (!is_below) {
        const bool was_apart = entry.value.size() >= kReferenceBytes && !host_died;
        ASSERT_TRUE(entry.may_be_absent || was_apart) << "a hole at stamp " << entry.stamp;
        continue;
      }
      kept.push_back(std::move(entry));
    }
    ASSERT_EQ(next, found.size()) << "found what was never appended, or out of order";
    entries_ = std::move(kept);
  }

  void count() {
    const LogCounters counters = log_->counters();
    dropped += counters.segments_dropped;
    recycled += counters.segments_recycled;
  }

  void reopen() {
    Reported<std::unique_ptr<ShardLog>> log = ShardLog::open(spec_);
    ASSERT_TRUE(log) << log.error().to_string();
    log_ = *std::move(log);
  }

  // A disk that dies meanwhile, or that is full, is brought up again.
  void begin(LogReading reading) {
    reading.end.stamp = std::max(reading.end.stamp, stamp_);
    disk_.set_capacity(UINT64_MAX);
    // A log that begins on a disk which fails at once does not begin, rightly.
    if (!log_->has_ring()) disk_.fail_next_syncs(0);
    const Reported<> begun = log_->begin(reading);
    if (begun) return;
    ASSERT_TRUE(disk_.is_dead()) << begun.error().to_string();
    log_.reset();
    disk_.crash();
    std::filesystem::remove(spec_.ring_path);
    values_.buffers.clear();
    recover(/*host_died=*/true);
  }

  Prng chance_;
  ManualClock clock_;
  SimulatedDisk disk_;
  Values values_;
  ShardLogSpec spec_;
  std::unique_ptr<ShardLog> log_;
  std::vector<Entry> entries_;
  uint64_t stamp_ = 0;
  uint64_t base_ = 0;      // A snapshot has everything up to this stamp.
  uint64_t promised_ = 0;  // Position: what ends there or before must be found.
};

TEST(LogCampaign, what_was_confirmed_is_found_behind_any_death_and_nothing_else_is) {
  set_log_level(LogLevel::kError);
  const char* const one = std::getenv("REFRACT_SEED");
  const char* const many = std::getenv("REFRACT_SEEDS");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t count = one != nullptr ? 1 : many != nullptr ? std::strtoull(many, nullptr, 10) : 120;
  const test::Folder folder;
  uint64_t totals[7] = {};
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("REFRACT_SEED=" + std::to_string(seed));
    Campaign campaign(seed, folder.path());
    campaign.run();
    if (testing::Test::HasFailure()) return;
    const uint64_t seen[] = {campaign.deaths,   campaign.failures,   campaign.torn,  campaign.dropped,
                             campaign.recycled, campaign.references, campaign.stalls};
    for (size_t i = 0; i < std::size(seen); ++i) totals[i] += seen[i];
  }
  if (one != nullptr) return;
  for (const uint64_t total : totals) EXPECT_GT(total, count / 10) << "something that was to happen did not";
}

}  // namespace
}  // namespace refract::storage
