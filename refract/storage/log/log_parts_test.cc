// SPDX-License-Identifier: Apache-2.0
// What a log says of transactions over several shards comes back: when it is settled, or when all shards'
// logs have been read; from a snapshot's blocks too, wherever these are cut.
#include "refract/storage/log/log_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/golden.h"
#include "refract/storage/log/common_end.h"

namespace refract::storage::log_parts_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kKeyOfLog = 0x1122334455667788;
constexpr uint64_t kHome = uint64_t{1} << 48 | 0x2000;
// The same word, where other nodes have parts.
constexpr uint64_t kAfar = kHome | uint64_t{2} << 40;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
Record change(uint64_t stamp, std::string_view key, std::string_view value) {
  return {.stamp = stamp, .key = bytes_of(key), .value = bytes_of(value), .value_bytes = value.size()};
}

// A record as a log hands it out; the bytes are kept.
class Logged {
 public:
  uint64_t place = kHome;  // Of what comes next.
  const Record& group(RecordKind kind, uint64_t number, const std::vector<Record>& changes,
                      const std::vector<std::byte>& needs = {}) {
    const GroupPlace at{.position = 0,
                        .number = changes.empty() ? 1 : changes.front().stamp - 1,
                        .synced_position = 0,
                        .role = {.kind = kind, .place = place, .number = number, .needs = needs}};
    bytes_.resize(group_bytes(changes) + needs.size());
    encode_group(at, changes, kKeyOfLog, bytes_.data());
    return decode();
  }
  const Record& settled(uint64_t number, bool has_happened, const std::vector<std::byte>& needs = {}) {
    const Record record{.kind = RecordKind::kSettled,
                        .stamp = 99,
                        .client = place,
                        .sequence = number,
                        .key = needs,
                        .has_happened = has_happened};
    bytes_.resize(stored_bytes(RecordForm::kInline, needs.size(), 0));
    encode_record(record, kKeyOfLog, bytes_.data());
    return decode();
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  const Record& decode() {
    EXPECT_EQ(decode_record(bytes_, 0, kKeyOfLog, record_), RecordFault::kNone);
    return record_;
  }
  std::vector<std::byte> bytes_;
  Record record_;
};

class Parts : public testing::Test {
 protected:
  std::vector<std::string> made;
  LogParts parts{[this](const Record& one) {
    made.emplace_back(reinterpret_cast<const char*>(one.key.data()), one.key.size());
  }};
  Logged logged;
};

TEST_F(Parts, take_effect_where_the_log_says_that_they_are_settled) {
  parts.take(logged.group(RecordKind::kPrepared, 1, {change(5, "a", "1"), change(6, "b", "2")}));
  parts.take(logged.group(RecordKind::kPrepared, 2, {change(8, "c", "3")}));
  EXPECT_THAT(made, IsEmpty());
  parts.take(logged.settled(1, true));
  EXPECT_THAT(made, ElementsAre("a", "b"));
  parts.take(logged.settled(2, false));
  parts.take(logged.settled(1, true));
  EXPECT_THAT(made, ElementsAre("a", "b")) << "once, and no other";
  EXPECT_FALSE(parts.has_open());
}

TEST_F(Parts, that_are_open_take_effect_if_any_log_has_decided_them) {
  parts.take(logged.group(RecordKind::kPrepared, 1, {change(5, "a", "1")}));
  parts.take(logged.group(RecordKind::kPrepared, 2, {change(7, "b", "1")}));
  EXPECT_TRUE(parts.has_open());
  DecidedNumbers all;
  all.add(kHome, 1);
  all.add(kHome, 2);
  const auto settled = parts.settle(all);
  ASSERT_EQ(settled.size(), 2U);
  EXPECT_FALSE(settled[0].has_happened) << "the word has gone on, which it does when no part asks for it";
  EXPECT_TRUE(settled[1].has_happened);
  EXPECT_THAT(made, ElementsAre("b"));
}

TEST_F(Parts, a_decision_makes_the_homes_own_changes_which_may_be_none) {
  parts.take(logged.group(RecordKind::kDecided, 1, {change(5, "a", "1")}));
  parts.take(logged.group(RecordKind::kDecided, 2, {}));
  EXPECT_THAT(made, ElementsAre("a"));
  EXPECT_TRUE(parts.decided().has(kHome, 2));
  EXPECT_FALSE(parts.decided().has(kHome, 3));
}

TEST_F(Parts, come_back_from_a_snapshots_blocks_wherever_these_are_cut) {
  Prng chance(1);
  for (const size_t bytes_max : {1UL, 7UL, 64UL, 100UL, 4'096UL, 1UL << 20}) {
    PreparedStream stream;
    DecidedNumbers decided;
    size_t keys = 0;
    for (uint64_t number = 1; number <= 20; ++number) {
      std::vector<Record> changes;
      for (uint64_t i = 0; i <= chance.below(3); ++i, ++keys)
        changes.push_back(change(100 * number + i, "key", "value"));
      stream.add(kHome, number, changes);
      decided.add(kHome + 8 * number, number);
    }
    LogParts next([&](const Record&) { --keys; });
    for (const auto& block : decided.to_blocks(32)) EXPECT_TRUE(next.load(kSnapshotDecided, block));
    EXPECT_TRUE(next.is_complete());
    const auto blocks = stream.to_blocks(bytes_max);
    for (size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_LE(blocks[i].size(), bytes_max);
      ASSERT_TRUE(next.load(kSnapshotPrepared, blocks[i]));
    }
    EXPECT_TRUE(next.is_complete());
    for (uint64_t number = 1; number <= 20; ++number) {
      EXPECT_TRUE(next.decided().has(kHome + 8 * number, number));
      next.take(logged.settled(number, true));
    }
    EXPECT_EQ(keys, 0U);
  }
}

TEST_F(Parts, blocks_that_make_no_sense_are_refused) {
  PreparedStream stream;
  const std::vector<Record> changes{change(5, "key", "value")};
  stream.add(kHome, 1, changes);
  std::vector<std::byte> block = stream.to_blocks(1'000).front();
  EXPECT_TRUE(parts.load(kSnapshotPrepared, std::span(block).first(block.size() - 8)));
  EXPECT_FALSE(parts.is_complete()) << "the rest is missing";
  LogParts others([](const Record&) {});
  block.back() ^= std::byte{1};
  EXPECT_FALSE(others.load(kSnapshotPrepared, block));
  EXPECT_FALSE(others.load(kSnapshotDecided, std::span(block).first(24)));
  EXPECT_FALSE(others.load(kSnapshotDecided, {}));
}

TEST_F(Parts, lie_as_the_page_shows) {
  const auto expect_as_shown = [this](const char* title) {
    const std::string page = std::string(REFRACT_SOURCE_DIR) + "/docs/formats/log.md";
    std::string shown;
    for (const std::byte byte : logged.bytes()) {
      char text[4];
      std::snprintf(text, sizeof(text), "%02x ", std::to_integer<unsigned>(byte));
      shown += text;
    }
    EXPECT_EQ(golden::image_of(golden::lines_of(page, title), logged.bytes().size()), logged.bytes())
        << shown;
  };
  (void)logged.group(RecordKind::kPrepared, 0x0400'0001, {change(0x0a0b0c0e, "cart", "hi")});
  expect_as_shown("## A prepared part in hex");
  (void)logged.settled(0x0400'0001, true);
  expect_as_shown("## A settled part in hex");
  const LogStand stands[] = {{.position = 0x1100, .synced = 0x1000}, {.position = 0x2208, .synced = 0x2208}};
  const Record& decided = logged.group(RecordKind::kDecided, 0x0400'0001, {change(0x0a0b0c0e, "cart", "hi")},
                                       encode_needs(stands));
  EXPECT_EQ(decided.value.size(), 32U) << "the changes stand behind what it needs";
  expect_as_shown("## A decision that needs other logs in hex");
}

// What another node decides stays open when all shards' logs have been read; its marks change nothing.
TEST_F(Parts, of_other_nodes_stay_open_until_they_are_settled) {
  logged.place = kAfar;
  const std::vector<Record> changes = {change(5, "a", "1"),
                                       {.kind = RecordKind::kMark, .stamp = 6, .key = bytes_of("read")}};
  parts.take(logged.group(RecordKind::kPrepared, 1, changes));
  EXPECT_FALSE(parts.has_open());
  // This node has decided another one by the same word.
  DecidedNumbers decided;
  decided.add(place_at_home(kAfar), 1);
  EXPECT_THAT(parts.settle(decided), IsEmpty());
  EXPECT_THAT(made, IsEmpty());
  ASSERT_EQ(parts.open_afar().size(), 1U);
  GroupReader again(parts.open_afar().begin()->second.group);
  EXPECT_EQ(again.next()->kind, RecordKind::kPut);
  EXPECT_EQ(again.next()->kind, RecordKind::kMark);
  parts.take(logged.settled(1, true));
  EXPECT_THAT(made, ElementsAre("a"));
  EXPECT_TRUE(parts.open_afar().empty());
}

// The home's own shards look for it as one of their node; others may ask for it until the log says "settled".
TEST_F(Parts, that_other_nodes_may_ask_for_are_known_until_none_does) {
  logged.place = kAfar;
  parts.take(logged.group(RecordKind::kDecided, 7, {change(5, "a", "1")}));
  // By the same word, in another memory.
  parts.take(logged.group(RecordKind::kDecided, 3, {change(15, "b", "1")}));
  EXPECT_TRUE(parts.decided().has(place_at_home(kAfar), 7));
  EXPECT_THAT(parts.decided_afar(), ElementsAre(std::pair(kAfar, 3), std::pair(kAfar, 7)));
  DecidedNumbers snapshot;
  for (const auto& [place, number] : parts.decided_afar()) snapshot.add(place, number);
  LogParts next{[](const Record&) {}};
  for (const std::vector<std::byte>& block : snapshot.to_blocks(16)) {
    ASSERT_TRUE(next.load(kSnapshotDecided, block));
  }
  EXPECT_EQ(next.decided_afar(), parts.decided_afar());
  next.take(logged.settled(3, true));
  EXPECT_THAT(next.decided_afar(), ElementsAre(std::pair(kAfar, 7)));
}

// Each field as none is ever written, under a right checksum.
TEST_F(Parts, with_fields_that_are_never_written_are_no_records) {
  const auto fault_of = [](std::vector<std::byte> bytes, size_t at, uint8_t byte) {
    bytes[at] = std::byte{byte};
    seal_record(bytes.data(), bytes.size(), kKeyOfLog);
    Record found;
    return decode_record(bytes, 0, kKeyOfLog, found);
  };
  (void)logged.settled(7, true);
  EXPECT_EQ(fault_of(logged.bytes(), offsetof(RecordHeader, expires_wall_ns), 2), RecordFault::kNone);
  EXPECT_EQ(fault_of(logged.bytes(), offsetof(RecordHeader, expires_wall_ns), 3), RecordFault::kFields);
  EXPECT_EQ(fault_of(logged.bytes(), offsetof(RecordHeader, expires_wall_ns), 0), RecordFault::kFields);
  EXPECT_EQ(fault_of(logged.bytes(), offsetof(RecordHeader, form), 2), RecordFault::kFields);
  EXPECT_EQ(fault_of(logged.bytes(), offsetof(RecordHeader, kind), 6), RecordFault::kFields);
  EXPECT_EQ(fault_of(logged.bytes(), offsetof(RecordHeader, kind), 9), RecordFault::kFields);
  (void)logged.group(RecordKind::kPrepared, 7, {change(5, "a", "1")});
  EXPECT_EQ(fault_of(logged.bytes(), sizeof(RecordHeader) + offsetof(GroupChange, identified), 1),
            RecordFault::kFields)
      << "it has no identity";
}

}  // namespace
}  // namespace refract::storage::log_parts_test
