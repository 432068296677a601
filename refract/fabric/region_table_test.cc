// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/region_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "refract/base/units.h"

namespace refract::fabric {
namespace {

using Refusal = RegionTable::Refusal;

constexpr uint64_t kBytes = 4096;
constexpr RemoteKey kKey{0x1234567890abcdef};

struct alignas(64) Memory {
  std::array<std::byte, kBytes> bytes{};
};

class RegionTableTest : public testing::Test {
 protected:
  void serve(uint16_t region, Rights rights, RemoteKey key = kKey) {
    ASSERT_TRUE(table_.add({.region = region, .base = base(), .bytes = kBytes, .rights = rights}, key));
  }
  [[nodiscard]] std::byte* base() { return memory_.bytes.data(); }
  [[nodiscard]] static RegionTable::Access at(uint16_t region, uint64_t offset, uint64_t bytes) {
    return {.address = RemotePointer::at(region, offset), .key = kKey, .bytes = bytes};
  }
  [[nodiscard]] Refusal refusal(const RegionTable::Access& place,
                                bool Rights::* right = &Rights::read) const {
    const RegionTable::Located found = table_.look_up(place, right);
    EXPECT_EQ(found.bytes == nullptr, found.refusal != Refusal::kNone);
    return found.refusal;
  }

  Memory memory_;
  RegionTable table_;
};

TEST_F(RegionTableTest, a_place_inside_a_region_is_found_at_its_offset) {
  serve(3, {.read = true});
  EXPECT_EQ(table_.look_up(at(3, 0, kBytes), &Rights::read).bytes, base());
  EXPECT_EQ(table_.look_up(at(3, 100, 28), &Rights::read).bytes, base() + 100);
  EXPECT_EQ(table_.look_up(at(3, kBytes, 0), &Rights::read).bytes, base() + kBytes);
}

TEST_F(RegionTableTest, each_cause_has_its_refusal) {
  serve(3, {.read = true});
  EXPECT_EQ(refusal(at(2, 0, 1)), Refusal::kUnknownRegion);
  EXPECT_EQ(refusal(at(4, 0, 1)), Refusal::kUnknownRegion);
  EXPECT_EQ(refusal(at(UINT16_MAX, 0, 1)), Refusal::kUnknownRegion);
  RegionTable::Access place = at(3, 0, 1);
  place.key.bits ^= 1;
  EXPECT_EQ(refusal(place), Refusal::kWrongKey);
  EXPECT_EQ(refusal(at(3, 0, 1), &Rights::write), Refusal::kRightMissing);
  EXPECT_EQ(refusal(at(3, 0, 1), &Rights::atomic), Refusal::kRightMissing);
  EXPECT_EQ(refusal(at(3, 0, 1)), Refusal::kNone);
}

TEST_F(RegionTableTest, bounds_hold_also_where_sums_would_overflow) {
  serve(0, {.read = true});
  EXPECT_EQ(refusal(at(0, 0, kBytes + 1)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(0, kBytes, 1)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(0, kBytes + 1, 0)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(0, RemotePointer::kOffsetMask, 1)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(0, 8, UINT64_MAX)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(0, 8, UINT64_MAX - 7)), Refusal::kOutOfBounds);
}

TEST_F(RegionTableTest, a_region_that_begins_inside_of_a_page_is_served_from_there_on) {
  constexpr uint64_t kFirst = 64;
  ASSERT_TRUE(table_.add(
      {.region = 5, .base = base(), .bytes = kBytes, .rights = {.read = true}, .first = kFirst}, kKey));
  EXPECT_EQ(table_.look_up(at(5, kFirst, kBytes), &Rights::read).bytes, base());
  EXPECT_EQ(table_.look_up(at(5, kFirst + kBytes, 0), &Rights::read).bytes, base() + kBytes);
  EXPECT_EQ(refusal(at(5, kFirst - 1, 1)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(5, 0, kBytes)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(5, kFirst + 1, kBytes)), Refusal::kOutOfBounds);
  EXPECT_EQ(refusal(at(5, RemotePointer::kOffsetMask, 1)), Refusal::kOutOfBounds);
  EXPECT_FALSE(table_.add(
      {.region = 6, .base = base(), .bytes = kBytes, .rights = {.read = true}, .first = kPageBytes}, kKey));
}

TEST_F(RegionTableTest, who_has_not_the_key_learns_neither_rights_nor_bounds) {
  serve(0, {.read = true});
  RegionTable::Access place = at(0, kBytes, kBytes);
  place.key = {};
  EXPECT_EQ(refusal(place, &Rights::write), Refusal::kWrongKey);
}

TEST_F(RegionTableTest, regions_come_and_go_in_any_order) {
  constexpr std::array<uint16_t, 4> kIds = {7, 0, 65535, 12};
  for (const uint16_t region : kIds) serve(region, {.read = true}, {region + uint64_t{1}});
  const auto place = [](uint16_t region) {
    return RegionTable::Access{
        .address = RemotePointer::at(region, 0), .key = {region + uint64_t{1}}, .bytes = 1};
  };
  table_.remove(0);
  table_.remove(0);
  table_.remove(5);
  EXPECT_EQ(refusal(place(0)), Refusal::kUnknownRegion);
  for (const uint16_t region : {kIds[0], kIds[2], kIds[3]}) EXPECT_EQ(refusal(place(region)), Refusal::kNone);
  table_.remove(12);
  table_.remove(7);
  EXPECT_EQ(refusal(place(65535)), Refusal::kNone);
  serve(0, {.read = true}, {1});
  EXPECT_EQ(refusal(place(0)), Refusal::kNone);
  EXPECT_EQ(refusal(place(12)), Refusal::kUnknownRegion);
}

TEST_F(RegionTableTest, a_region_that_cannot_be_served_is_refused_with_a_reason) {
  serve(1, {.read = true});
  const Domain::RegionSpec good{.region = 1, .base = base(), .bytes = kBytes, .rights = {}};
  EXPECT_EQ(table_.add(good, kKey).error().code, Code::kInvalidArgument);
  Domain::RegionSpec spec = good;
  spec.region = 2;
  EXPECT_EQ(table_.add(spec, {}).error().code, Code::kInvalidArgument);
  spec.bytes = 0;
  EXPECT_EQ(table_.add(spec, kKey).error().code, Code::kInvalidArgument);
  spec.bytes = RemotePointer::kOffsetMask + 1;
  EXPECT_EQ(table_.add(spec, kKey).error().code, Code::kInvalidArgument);
  spec = good;
  spec.region = 2;
  spec.base = nullptr;
  EXPECT_EQ(table_.add(spec, kKey).error().code, Code::kInvalidArgument);
  EXPECT_EQ(refusal(at(2, 0, 0)), Refusal::kUnknownRegion);
}

TEST_F(RegionTableTest, reads_and_writes_move_no_more_than_the_place_has) {
  serve(0, {.read = true, .write = true});
  std::array<std::byte, 16> bytes{};
  bytes.fill(std::byte{7});
  EXPECT_EQ(table_.write(at(0, 32, 8), bytes), Code::kAccessDenied);
  EXPECT_EQ(memory_.bytes[32], std::byte{0});
  EXPECT_EQ(table_.write(at(0, 32, 16), bytes), Code::kOk);
  EXPECT_EQ(std::memcmp(base() + 32, bytes.data(), bytes.size()), 0);
  std::array<std::byte, 16> back{};
  EXPECT_EQ(table_.read(at(0, 32, 8), back), Code::kAccessDenied);
  EXPECT_EQ(table_.read(at(0, kBytes - 8, 16), back), Code::kAccessDenied);
  EXPECT_EQ(back[0], std::byte{0});
  EXPECT_EQ(table_.read(at(0, 32, 16), back), Code::kOk);
  EXPECT_EQ(back, bytes);
}

TEST_F(RegionTableTest, what_is_written_is_counted_for_each_life_of_a_region) {
  serve(0, {.write = true});
  serve(1, {.write = true});
  const std::array<std::byte, 24> bytes{};
  EXPECT_EQ(table_.write(at(0, 0, 24), bytes), Code::kOk);
  EXPECT_EQ(table_.write(at(0, 8, 8), std::span(bytes).first(8)), Code::kOk);
  EXPECT_EQ(table_.write(at(0, kBytes, 24), bytes), Code::kAccessDenied);
  table_.count_written(1, 1000);
  table_.count_written(2, 1000);
  EXPECT_EQ(table_.remove(0), 32U);
  EXPECT_EQ(table_.remove(1), 1000U);
  serve(0, {.write = true});
  EXPECT_EQ(table_.remove(0), 0U);
}

TEST_F(RegionTableTest, atomics_answer_with_the_old_word_and_need_alignment_and_all_eight_bytes) {
  serve(0, {.atomic = true});
  uint64_t value = 0;
  EXPECT_EQ(table_.fetch_add(at(0, 8, 0), 5, value), Code::kOk);
  EXPECT_EQ(value, 0U);
  EXPECT_EQ(table_.compare_swap(at(0, 8, 0), {.compare = 4, .operand = 9}, value), Code::kOk);
  EXPECT_EQ(value, 5U);
  EXPECT_EQ(table_.compare_swap(at(0, 8, 0), {.compare = 5, .operand = 9}, value), Code::kOk);
  EXPECT_EQ(value, 5U);
  EXPECT_EQ(table_.fetch_add(at(0, 8, 0), 0, value), Code::kOk);
  EXPECT_EQ(value, 9U);
  EXPECT_EQ(table_.fetch_add(at(0, 12, 0), 1, value), Code::kInvalidArgument);
  EXPECT_EQ(table_.fetch_add(at(0, kBytes - 4, 0), 1, value), Code::kAccessDenied);
  EXPECT_EQ(table_.read(at(0, 8, 8), std::span(memory_.bytes).first(8)), Code::kAccessDenied);
}

}  // namespace
}  // namespace refract::fabric
