// SPDX-License-Identifier: Apache-2.0
// Logs end together where no record needs what another one has lost, and no earlier than that: against all
// ends that there are, and through real files, which are cut, continued and cut again.
#include "refract/storage/log/common_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/base/testing/turns.h"
#include "refract/base/units.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::storage::common_end_test {
namespace {

using refract::test::turns;
using test::needed;
using testing::ElementsAre;

constexpr uint64_t kPlaceOfFirst = uint64_t{1} << 48 | 0x2000;  // A word of shard 0.

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// --- The search, on logs of which only the needs matter. ---

constexpr size_t kShards = 3;

struct ModelRecord {
  std::vector<uint64_t> needs;  // Empty: nothing.
  bool is_settled = false;      // It needs shard 0's log alone.
};
using ModelLog = std::vector<ModelRecord>;  // A record takes one position.
using Ends = std::vector<uint64_t>;

LogNeeds needs_of(const ModelLog& log, uint64_t end) {
  LogNeeds needs;
  for (size_t at = 0; at < end; ++at) {
    const ModelRecord& record = log[at];
    std::vector<LogStand> stands;
    for (const uint64_t need : record.needs) stands.push_back({.position = need});
    const std::vector<std::byte> key = encode_needs(stands);
    needs.take({.kind = record.is_settled ? RecordKind::kSettled : RecordKind::kDecided,
                .position = at,
                .client = kPlaceOfFirst,
                .key = key});
  }
  needs.end_with({.end = {.position = end}}, false, 0);
  return needs;
}

bool is_closed(const std::vector<ModelLog>& logs, const Ends& ends) {
  for (size_t shard = 0; shard < kShards; ++shard) {
    for (size_t at = 0; at < ends[shard]; ++at) {
      for (size_t i = 0; i < logs[shard][at].needs.size(); ++i) {
        if (logs[shard][at].needs[i] > ends[i]) return false;
      }
    }
  }
  return true;
}

// Of two sets of ends without an unmet need the larger of each is another one: so there is a largest.
Ends largest_closed(const std::vector<ModelLog>& logs, const Ends& have) {
  Ends best(kShards, 0);
  for (uint64_t a = 0; a <= have[0]; ++a) {
    for (uint64_t b = 0; b <= have[1]; ++b) {
      for (uint64_t c = 0; c <= have[2]; ++c) {
        const Ends ends{a, b, c};
        if (!is_closed(logs, ends)) continue;
        for (size_t i = 0; i < kShards; ++i) best[i] = std::max(best[i], ends[i]);
      }
    }
  }
  return best;
}

TEST(CommonEnds, are_the_latest_without_an_unmet_need) {
  Prng chance(7);
  uint64_t cut = 0;
  for (uint64_t turn = 0; turn < turns(4'000, 800); ++turn) {
    std::vector<ModelLog> logs(kShards);
    for (int made = 0; made < 14; ++made) {
      const size_t shard = chance.below(kShards);
      ModelRecord record;
      const uint64_t kind = chance.below(3);
      // More than there is now as well: no order is taken for granted.
      const auto some = [&](size_t i) { return chance.below(logs[i].size() + 2); };
      if (kind == 1) record = {.needs = {some(0), some(1), some(2)}};
      if (kind == 2) record = {.needs = {some(0)}, .is_settled = true};
      logs[shard].push_back(std::move(record));
    }
    Ends have;
    std::vector<LogNeeds> needs;
    for (const ModelLog& log : logs) {
      have.push_back(log.size() - std::min(log.size(), chance.below(4)));
      needs.push_back(needs_of(log, have.back()));
    }
    const Ends found = common_ends(needs).ends;
    ASSERT_EQ(found, largest_closed(logs, have)) << "turn " << turn;
    if (found != have) ++cut;
  }
  EXPECT_GT(cut, turns(1'000, 200));
}

TEST(CommonEnds, of_a_log_that_has_lost_nothing_are_open) {
  std::vector<LogNeeds> logs(2);
  logs[0] = needs_of({{.needs = {0, 5}}}, 1);
  logs[1].end_with({.end = {.position = 3}}, true, 0);
  EXPECT_THAT(common_ends(logs).ends, ElementsAre(1, UINT64_MAX));
}

TEST(CommonEnds, heed_no_shard_that_is_not_there) {
  std::vector<LogNeeds> logs(1);
  logs[0] = needs_of({{.needs = {0, 5, 9}}}, 1);
  EXPECT_THAT(common_ends(logs).ends, ElementsAre(1));
}

// Positions between the end of a file and the begin of the next one are lost, wherever the log ends now; but
// not what a snapshot has.
TEST(CommonEnds, are_in_front_of_what_a_gap_or_a_snapshot_decides) {
  const auto end_of_first = [](uint64_t need, uint64_t snapshot_position) {
    std::vector<LogNeeds> logs(2);
    logs[0] = needs_of({{.needs = {0, need}}}, 1);
    logs[1].end_with({.end = {.position = 95}, .gaps = {{60, 90, false}}}, false, snapshot_position);
    return common_ends(logs).ends[0];
  };
  EXPECT_EQ(end_of_first(60, 0), 1U);
  EXPECT_EQ(end_of_first(61, 0), 0U);
  EXPECT_EQ(end_of_first(89, 0), 0U);
  EXPECT_EQ(end_of_first(90, 0), 1U);
  EXPECT_EQ(end_of_first(96, 0), 0U);
  EXPECT_EQ(end_of_first(70, 69), 0U);
  EXPECT_EQ(end_of_first(70, 70), 1U);
  EXPECT_EQ(end_of_first(100, 120), 1U) << "a snapshot may have more than its log";
}

// What another log says to have been on the disk no crash takes.
TEST(CommonEnds, are_none_where_files_are_missing) {
  const auto lost = [](uint64_t synced, std::vector<LogGap> gaps, uint64_t end) {
    std::vector<LogNeeds> logs(2);
    const LogStand stands[] = {{}, {.position = 1'000, .synced = synced}};
    const std::vector<std::byte> key = encode_needs(stands);
    logs[0].take({.kind = RecordKind::kDecided, .position = 0, .client = kPlaceOfFirst, .key = key});
    logs[0].end_with({.end = {.position = 1}}, false, 0);
    logs[1].end_with({.end = {.position = end}, .gaps = std::move(gaps)}, false, 0);
    return common_ends(logs).shard_with_loss;
  };
  EXPECT_EQ(lost(64, {}, 64), std::nullopt);
  EXPECT_EQ(lost(72, {}, 64), 1U);
  EXPECT_EQ(lost(72, {{64, 96, false}}, 96), 1U);
  EXPECT_EQ(lost(72, {{64, 96, true}}, 96), std::nullopt) << "it was cut away by a start";
}

// --- A log that is cut. ---

class CutLog : public testing::Test {
 protected:
  CutLog() { clock_.set_now_ns(kSecond_ns); }

  void open() {
    log_.reset();
    ShardLogSpec spec{.log = {.store = {std::byte{9}}, .shard_count = 1},
                      .ring_bytes = kRingBytesMin,
                      .disk = &disk_,
                      .clock = &clock_};
    spec.options = {.durability = Durability::kAlways, .segment_bytes = 2 * kPageBytes};
    log_ = needed(ShardLog::open(spec));
  }
  // What a start finds that is to end there; the log continues.
  std::vector<uint64_t> start(uint64_t end_position = UINT64_MAX) {
    open();
    const std::vector<uint64_t> stamps = read(end_position);
    REFRACT_CHECK(log_->begin(reading_).has_value());
    return stamps;
  }
  std::vector<uint64_t> read(uint64_t end_position = UINT64_MAX, bool salvage = false) {
    std::vector<uint64_t> stamps;
    reading_ = needed(log_->read({.salvage = salvage, .end_position = end_position},
                                 [&](const Record& record) { stamps.push_back(record.stamp); }));
    EXPECT_TRUE(reading_.damages.empty()) << reading_.damages.front().to_string();
    return stamps;
  }
  // Returns where it begins.
  uint64_t put(size_t value_bytes = 8) {
    const uint64_t at = log_->appended();
    const std::string value(value_bytes, 'v');
    stamp_ = std::max(stamp_, reading_.end.stamp) + 1;
    log_->append({.stamp = stamp_, .key = bytes_of("key"), .value = bytes_of(value)});
    REFRACT_CHECK(log_->drain());
    return at;
  }
  [[nodiscard]] size_t segments() {
    return needed(find_log_files(disk_, {.store = {std::byte{9}}})).segments.size();
  }

  SimulatedDisk disk_{{}};
  ManualClock clock_;
  std::unique_ptr<ShardLog> log_;
  LogReading reading_;
  uint64_t stamp_ = 0;
};

TEST_F(CutLog, has_what_stands_in_front_of_the_cut_and_what_came_since) {
  start();
  put();
  put();
  const uint64_t end = put();
  put();
  EXPECT_THAT(start(end), ElementsAre(1, 2));
  EXPECT_TRUE(reading_.end.is_cut);
  EXPECT_GE(reading_.end.stamp, 2);
  stamp_ = 100;
  put();
  EXPECT_THAT(start(), ElementsAre(1, 2, 101));
  EXPECT_FALSE(reading_.end.is_cut);
}

TEST_F(CutLog, leaves_out_whole_segments_too_also_in_a_salvage) {
  start();
  put();
  const uint64_t end = put();
  for (int i = 0; i < 12; ++i) put(2'000);
  const size_t before = segments();
  ASSERT_GT(before, 3U);
  EXPECT_THAT(start(end), ElementsAre(1));
  stamp_ = 100;
  put();
  open();
  EXPECT_THAT(read(UINT64_MAX, true), ElementsAre(1, 101));
  EXPECT_THAT(read(), ElementsAre(1, 101));
  EXPECT_EQ(reading_.segments.size(), segments()) << "each file is told of";
}

TEST_F(CutLog, may_have_nothing_left) {
  start();
  const uint64_t end = put();
  for (int i = 0; i < 12; ++i) put(2'000);
  EXPECT_THAT(start(end), ElementsAre());
  stamp_ = 100;
  put();
  EXPECT_THAT(start(), ElementsAre(101));
  EXPECT_EQ(reading_.begins_after_stamp, 0U) << "nothing is missing in front of it";
}

TEST_F(CutLog, is_found_as_it_was_where_the_cut_was_not_begun) {
  start();
  put();
  const uint64_t end = put();
  put();
  open();
  EXPECT_THAT(read(end), ElementsAre(1));
  EXPECT_THAT(start(), ElementsAre(1, 2, 3));
}

TEST_F(CutLog, can_be_cut_again_in_front_of_the_cut_and_behind_it) {
  start();
  const uint64_t first = put();
  for (int i = 0; i < 6; ++i) put(2'000);
  const uint64_t second = put();
  put();
  EXPECT_EQ(start(second).size(), 7U);
  stamp_ = 100;
  put();
  const uint64_t third = put();
  put();
  EXPECT_EQ(start(third).size(), 8U);
  EXPECT_THAT(start(first), ElementsAre());
  stamp_ = 200;
  put();
  EXPECT_THAT(start(), ElementsAre(201));
}

// A snapshot lets the log drop what it has, cut away or not.
TEST_F(CutLog, drops_what_was_cut_with_what_is_older_than_a_snapshot) {
  start();
  put();
  const uint64_t end = put();
  for (int i = 0; i < 12; ++i) put(2'000);
  start(end);
  stamp_ = 100;
  put();
  log_->drop_up_to(stamp_);
  put();
  EXPECT_LE(segments(), 2U);
  open();
  EXPECT_THAT(read(), ElementsAre(101, 102));
}

}  // namespace
}  // namespace refract::storage::common_end_test
