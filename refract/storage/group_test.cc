// SPDX-License-Identifier: Apache-2.0
// A group comes back with all its changes, at its own place, or not at all; in a ring one store publishes it.
#include "refract/storage/group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/hash.h"
#include "refract/base/prng.h"
#include "refract/base/testing/golden.h"
#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/testing/test_ring.h"

namespace refract::storage::group_test {
namespace {

constexpr uint64_t kKeyOfLog = 0x1122334455667788;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Record change(uint64_t stamp, std::string_view key, std::string_view value) {
  return {.stamp = stamp, .key = bytes_of(key), .value = bytes_of(value), .value_bytes = value.size()};
}

// What the page shows.
std::vector<Record> sample() {
  Record put = change(0x0a0b0c0e, "user:7", "hello");
  put.expires_wall_ns = 1'700'000'000'000'000'000;
  put.client = 0xc11e;
  put.sequence = 7;
  Record erase = change(0x0a0b0c0f, "cart", "");
  erase.kind = RecordKind::kErase;
  return {put, erase};
}

std::vector<std::byte> encoded(std::span<const Record> changes, uint64_t number = 0x0a0b0c0d) {
  std::vector<std::byte> bytes(group_bytes(changes), std::byte{0xee});
  const GroupPlace place{.position = 4096, .number = number, .synced_position = 2048};
  EXPECT_EQ(encode_group(place, changes, kKeyOfLog, bytes.data()), bytes.size());
  return bytes;
}

std::vector<Record> changes_in(const Record& group) {
  std::vector<Record> changes;
  GroupReader reader(group);
  while (const auto one = reader.next()) changes.push_back(*one);
  EXPECT_TRUE(reader.is_complete());
  return changes;
}

TEST(Group, comes_back_with_every_field_at_many_lengths) {
  Prng chance(1);
  const std::string letters(700, 'x');
  for (int round = 0; round < 300; ++round) {
    std::vector<Record> changes;
    uint64_t bytes = 0;
    const uint64_t number = 1 + chance.below(100);
    const uint64_t identified = chance.below(6);
    for (uint64_t i = 0; i < 1 + chance.below(6); ++i) {
      Record one = change(number + 1 + 2 * i, std::string_view(letters).substr(0, 1 + chance.below(40)),
                          std::string_view(letters).substr(0, chance.below(600)));
      one.expires_wall_ns = chance.chance(0.5) ? chance.next() : 0;
      if (i == identified) one.client = 3;
      if (i == identified) one.sequence = 4;
      bytes += one.key.size() + one.value.size();
      changes.push_back(one);
    }
    const std::vector<std::byte> group = encoded(changes, number);
    ASSERT_EQ(group.size() % kRecordUnit, 0U);
    ASSERT_LE(group.size(), group_bytes_max(changes.size(), bytes));
    Record found;
    ASSERT_EQ(decode_record(group, 4096, kKeyOfLog, found), RecordFault::kNone);
    EXPECT_EQ(group.size(), log_bytes(found.key.size(), found.value_bytes));
    EXPECT_EQ(found.stamp, number);
    EXPECT_EQ(last_stamp_of(found), changes.back().stamp);
    const std::vector<Record> back = changes_in(found);
    ASSERT_EQ(back.size(), changes.size());
    for (size_t i = 0; i < back.size(); ++i) {
      EXPECT_EQ(back[i].kind, changes[i].kind);
      EXPECT_EQ(back[i].stamp, changes[i].stamp);
      EXPECT_EQ(back[i].expires_wall_ns, changes[i].expires_wall_ns);
      EXPECT_EQ(back[i].client, changes[i].client);
      EXPECT_EQ(back[i].sequence, changes[i].sequence);
      EXPECT_TRUE(std::ranges::equal(back[i].key, changes[i].key));
      EXPECT_TRUE(std::ranges::equal(back[i].value, changes[i].value));
      EXPECT_EQ(back[i].synced_position, 2048U);
    }
  }
}

TEST(Group, with_any_bit_flipped_is_none) {
  const std::vector<std::byte> sound = encoded(sample());
  for (size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::vector<std::byte> bytes = sound;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    Record found;
    EXPECT_NE(decode_record(bytes, 4096, kKeyOfLog, found), RecordFault::kNone) << "bit " << bit;
  }
}

// Under a right checksum: each field of a change, as none is ever written.
TEST(Group, whose_changes_make_no_sense_is_none) {
  const auto fault_of = [](std::vector<std::byte> bytes) {
    seal_record(bytes.data(), bytes.size(), kKeyOfLog);
    Record found;
    return decode_record(bytes, 4096, kKeyOfLog, found);
  };
  const std::vector<std::byte> sound = encoded(sample());
  EXPECT_EQ(fault_of(sound), RecordFault::kNone);
  constexpr size_t kFirst = sizeof(RecordHeader);
  const size_t second = kFirst + group_change_bytes(6, 5);
  struct Wrong {
    size_t at;
    uint8_t byte;
  };
  const Wrong all[] = {
      {kFirst + offsetof(GroupChange, stamp), 0x0d},        // The group's own.
      {kFirst + offsetof(GroupChange, stamp), 0x0f},        // The second one's.
      {second + offsetof(GroupChange, stamp), 0x10},        // Another than the record says.
      {kFirst + offsetof(GroupChange, value_bytes), 0xff},  // Too long.
      {kFirst + offsetof(GroupChange, value_bytes), 0},     // The second one stands elsewhere.
      {kFirst + offsetof(GroupChange, key_bytes), 0},
      {kFirst + offsetof(GroupChange, kind), 4},
      {kFirst + offsetof(GroupChange, kind), 2},  // An erasure has no value.
      {kFirst + offsetof(GroupChange, identified), 2},
      {second + offsetof(GroupChange, identified), 1},  // Two of them.
      {offsetof(RecordHeader, key_bytes), 1},
      {offsetof(RecordHeader, form), 3},
      {offsetof(RecordHeader, expires_wall_ns), 0x0d},
  };
  for (const Wrong& wrong : all) {
    std::vector<std::byte> bytes = sound;
    bytes[wrong.at] = std::byte{wrong.byte};
    EXPECT_EQ(fault_of(bytes), RecordFault::kFields) << wrong.at << " " << int{wrong.byte};
  }
  std::vector<std::byte> empty(sound.begin(), sound.begin() + kFirst);
  constexpr uint32_t kNothing = 0;
  std::memcpy(empty.data() + offsetof(RecordHeader, value_bytes), &kNothing, sizeof(kNothing));
  EXPECT_EQ(fault_of(empty), RecordFault::kFields) << "a group of nothing";
}

TEST(Group, lies_as_the_page_shows) {
  const std::vector<golden::Line> lines =
      golden::lines_of(std::string(REFRACT_SOURCE_DIR) + "/docs/formats/log.md", "## A group in hex");
  const std::vector<std::byte> bytes = encoded(sample());
  std::string shown;
  for (const std::byte byte : bytes) {
    char text[4];
    std::snprintf(text, sizeof(text), "%02x ", std::to_integer<unsigned>(byte));
    shown += text;
  }
  EXPECT_EQ(golden::image_of(lines, bytes.size()), bytes) << shown;
}

class GroupInRing : public testing::Test {
 protected:
  // The server's part, until it dies.
  template <typename Appends>
  void server(Appends&& appends) {
    Ring ring = test::needed(Ring::open(*kept_.file()));
    if (!ring.is_in_use()) {
      ring.begin(4096);
      ring.set_in_use();
    }
    appends(ring);
  }
  [[nodiscard]] Ring next_server() {
    EXPECT_TRUE(kept_.take_up_again());
    return test::needed(Ring::open(*kept_.file()));
  }
  [[nodiscard]] RingHeader header() {
    RingHeader header = {};
    std::ifstream(kept_.path(), std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof(header));
    return header;
  }
  void write(uint64_t at, std::span<const std::byte> bytes) {
    std::fstream file(kept_.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  static void append_group(Ring& ring, uint64_t number) {
    std::vector<Record> changes;
    for (uint64_t i = 1; i <= 3; ++i) changes.push_back(change(number + i, "key", "value"));
    ASSERT_TRUE(ring.has_room(group_bytes(changes)));
    ring.append_group({.position = ring.log_end(), .number = number, .synced_position = 0}, changes);
  }

  test::Folder folder_;
  KeptRing kept_{folder_.path(), {std::byte{7}}, 3};
};

// The server dies between the stores of an append: behind `last`, behind any of the group's bytes, behind
// `appended`.
TEST_F(GroupInRing, a_death_in_its_append_leaves_nothing_of_it_and_then_all) {
  server([](Ring& ring) { ring.append({.position = 4096, .stamp = 1, .key = bytes_of("key")}); });
  const RingHeader before = header();
  server([](Ring& ring) { append_group(ring, 2); });
  const RingHeader after = header();
  EXPECT_EQ(after.last, before.appended);
  std::vector<std::byte> group(after.appended - before.appended);
  std::ifstream file(kept_.path(), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(4096 + before.appended));
  file.read(reinterpret_cast<char*>(group.data()), static_cast<std::streamsize>(group.size()));
  for (size_t written = 0; written <= group.size(); written += kRecordUnit) {
    std::vector<std::byte> some = group;
    std::fill(some.begin() + static_cast<ptrdiff_t>(written), some.end(), std::byte{0});
    write(4096 + before.appended, some);
    write(offsetof(RingHeader, appended), std::as_bytes(std::span(&before.appended, 1)));
    const Ring ring = next_server();
    EXPECT_FALSE(ring.last_record()) << "the one before had been dealt with";
    EXPECT_EQ(ring.appended(), before.appended);
  }
  write(offsetof(RingHeader, appended), std::as_bytes(std::span(&after.appended, 1)));
  const Ring ring = next_server();
  EXPECT_EQ(changes_in(test::needed(ring.last_record())).size(), 3U);
}

TEST_F(GroupInRing, groups_go_through_many_rounds_of_its_memory) {
  server([](Ring& ring) {
    const std::string value(9'000, 'v');
    uint64_t taken = 0;
    for (uint64_t number = 1; number <= 2'000; number += 4) {
      std::vector<Record> changes;
      for (uint64_t i = 1; i <= 3; ++i) {
        changes.push_back(change(number + i, "key", std::string_view(value).substr(0, (number * i) % 9'000)));
      }
      while (!ring.has_room(group_bytes(changes))) {
        const RingMark mark = ring.mark();
        Record group;
        ASSERT_EQ(decode_record(ring.bytes_at(mark.taken, ring.observe_appended() - mark.taken),
                                mark.log_position, ring.key_of_log(), group),
                  RecordFault::kNone);
        for (const Record& one : changes_in(group)) {
          ASSERT_EQ(one.stamp, taken % 4 == 0 ? taken + 2 : taken + 1);
          taken = one.stamp;
        }
        const uint64_t bytes = log_bytes(0, group.value_bytes);
        ring.take({.taken = mark.taken + bytes, .log_position = mark.log_position + bytes});
      }
      ring.append_group({.position = ring.log_end(), .number = number, .synced_position = 0}, changes);
    }
    EXPECT_GT(ring.appended(), 2 * ring.bytes()) << "or nothing has wrapped";
  });
}

}  // namespace
}  // namespace refract::storage::group_test
