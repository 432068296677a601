// SPDX-License-Identifier: Apache-2.0
// A table is filled from what a disk says, in a memory that may be too small; and a value that the log only
// refers to is read where it lies, or not at all.
#include "refract/node/hosted_kv/kv_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/kv/testing/test_space.h"

namespace refract::node {
namespace {

using kv::test::bytes_of;
using kv::test::Space;
using kv::test::text_of;
using test::needed;
using testing::ElementsAre;
using testing::SizeIs;

storage::Record put_of(const std::string& key, const std::string& value, uint64_t stamp) {
  return {.stamp = stamp, .key = bytes_of(key), .value = bytes_of(value), .value_bytes = value.size()};
}

TEST(KvFilling, changes_are_made_in_their_order_whatever_their_length) {
  Space space;
  const Grow no_growth = [](uint64_t) { return false; };
  KvFilling filling(space.table(), space.heap(), no_growth);
  // Some are larger than all that is kept back, some stand in front of them and behind.
  const std::string large(5 * kMiB, 'l');
  filling.replay(put_of("a", "1", 1));
  filling.replay(put_of("a", large, 2));
  filling.replay(put_of("b", "2", 3));
  filling.replay({.kind = storage::RecordKind::kErase, .stamp = 4, .key = bytes_of("b")});
  filling.replay(put_of("a", "3", 5));
  filling.replay(put_of("a", "old", 2));
  EXPECT_EQ(filling.flush(), Code::kOk);
  EXPECT_EQ(filling.entries(), 1U);
  EXPECT_EQ(text_of(needed(space.table().find(bytes_of("a"))).value), "3");
}

TEST(KvFilling, a_change_is_there_only_behind_flush_and_its_bytes_are_kept_until_then) {
  Space space;
  const Grow no_growth = [](uint64_t) { return false; };
  KvFilling filling(space.table(), space.heap(), no_growth);
  std::string value = "as it was";
  filling.replay(put_of("a", value, 1));
  value = "overwritten";
  EXPECT_EQ(filling.flush(), Code::kOk);
  EXPECT_EQ(text_of(needed(space.table().find(bytes_of("a"))).value), "as it was");
}

TEST(KvFilling, memory_is_asked_for_as_long_as_it_comes_and_not_after_a_refusal) {
  Space space({.chunks = 4, .chunks_max = 64});
  std::vector<uint64_t> asked;
  const Grow two_steps = [&](uint64_t bytes) {
    asked.push_back(bytes);
    if (asked.size() > 2) return false;
    space.add_chunks(3);
    return true;
  };
  KvFilling filling(space.table(), space.heap(), two_steps);
  const std::string value(900 * kKiB, 'v');
  for (uint64_t i = 1; i <= 20; ++i) filling.replay(put_of(std::to_string(i % 10) + "k", value + "k", i));
  EXPECT_EQ(filling.flush(), Code::kNoSpace);
  EXPECT_THAT(asked, SizeIs(3)) << "the third was refused";
  EXPECT_EQ(asked.front(), 2 + value.size() + 1) << "key and value";
  const uint64_t entries = filling.entries();
  filling.replay(put_of("later", "small", 99));
  EXPECT_EQ(filling.flush(), Code::kNoSpace);
  EXPECT_EQ(filling.entries(), entries) << "a gap in the order would be worse than an end";
}

TEST(KvFilling, new_changes_have_stamps_far_above_all_that_is_known) {
  Space space;
  const Grow no_growth = [](uint64_t) { return false; };
  KvFilling filling(space.table(), space.heap(), no_growth);
  filling.replay(put_of("a", "1", 1'000));
  EXPECT_EQ(filling.flush(), Code::kOk);
  constexpr uint64_t kKnown = uint64_t{1} << 40;
  const uint64_t first = filling.finish(kKnown);
  EXPECT_GT(first, kKnown + (uint64_t{1} << 31));
  EXPECT_GE(space.heap().next_stamp(), first);
}

TEST(KvFilling, what_is_no_block_is_refused_and_pieces_that_are_missing_are_noticed) {
  Space space;
  const Grow no_growth = [](uint64_t) { return false; };
  KvFilling filling(space.table(), space.heap(), no_growth);
  EXPECT_TRUE(filling.is_complete()) << "nothing has begun";
  EXPECT_EQ(filling.load({.kind = 1, .entries = 1, .payload = bytes_of("no entry")}), Code::kMalformed);
  EXPECT_EQ(filling.load({.kind = 99, .entries = 1, .payload = bytes_of("of no kind")}), Code::kMalformed);
  EXPECT_EQ(filling.entries(), 0U);
}

class ValueInTable : public testing::Test {
 protected:
  ValueInTable() {
    const std::string value(100'000, 'v');
    const uint64_t stamp = needed(space_.table().put(bytes_of("key"), bytes_of(value), {}));
    const uint64_t at = needed(space_.table().find(bytes_of("key"))).buffer.value;
    record_ = {.form = storage::RecordForm::kReference,
               .stamp = stamp,
               .value_bytes = value.size(),
               .reference = at};
  }
  [[nodiscard]] std::optional<std::span<const std::byte>> find(const storage::Record& record) {
    return value_in_table(space_.writer(), record);
  }

  Space space_;
  storage::Record record_;
};

TEST_F(ValueInTable, is_found_while_its_buffer_has_the_records_stamp) {
  const auto found = find(record_);
  ASSERT_TRUE(found);
  EXPECT_EQ(text_of(*found), std::string(100'000, 'v'));
  storage::Record younger = record_;
  ++younger.stamp;
  EXPECT_FALSE(find(younger)) << "the buffer was used again";
}

TEST_F(ValueInTable, a_reference_that_leads_nowhere_is_nothing_and_reads_nothing) {
  for (const uint64_t at : {uint64_t{0}, record_.reference + 1, 64 * kChunkBytes, UINT64_MAX - 7}) {
    storage::Record strange = record_;
    strange.reference = at;
    EXPECT_FALSE(find(strange)) << at;
  }
  storage::Record longer = record_;
  ++longer.value_bytes;
  EXPECT_FALSE(find(longer)) << "of another length than the buffer says";
}

}  // namespace
}  // namespace refract::node
