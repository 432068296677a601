// SPDX-License-Identifier: Apache-2.0
// Whatever a direct reader returns was the entry's value at a moment within the call, however its loads fall
// between the owner's stores.
//
// Method: the stores of an operation are recorded; then the read is executed once for every way in which they
// can become visible between its loads, in program order as x86-64 makes them. What is right at each number
// of visible stores is read from the quiet image, and checked against what the operations mean. The tests
// named "found" break one rule of layout.h on purpose and demand that some schedule shows it: they prove that
// the method has teeth.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "refract/base/testing/keys_of_hash.h"
#include "refract/kv/testing/test_trial.h"

namespace refract::kv::table_interleaving_test {
namespace {

using test::bytes_of;
using test::LongBucket;
using test::Trial;

using States = std::vector<std::string>;

TEST(TableInterleaving, a_put_is_seen_whole_or_not_at_all) {
  Trial trial;
  trial.record([&] { trial.put("key", "the new value"); });
  EXPECT_EQ(trial.history("key"), (States{"not_found", "the new value"}));
  EXPECT_EQ(trial.first_wrong("key"), std::nullopt);
}

TEST(TableInterleaving, an_overwrite_is_seen_whole_or_not_at_all) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] { trial.put("key", "a second value"); });
  EXPECT_EQ(trial.history("key"), (States{"the first value", "a second value"}));
  EXPECT_EQ(trial.first_wrong("key"), std::nullopt);
}

TEST(TableInterleaving, a_buffer_may_be_reused_for_the_same_key_while_it_is_read) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] {
    trial.put("key", "a second value");
    trial.reuse_now();
    trial.put("key", "3rd");
    trial.reuse_now();
    trial.put("key", "value number four");
  });
  EXPECT_EQ(trial.history("key"), (States{"the first value", "a second value", "3rd", "value number four"}));
  EXPECT_EQ(trial.first_wrong("key"), std::nullopt);
}

TEST(TableInterleaving, a_buffer_may_be_reused_for_another_key_while_it_is_read) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] {
    trial.erase("key");
    trial.reuse_now();
    trial.put("yek", "not for key at all");
  });
  EXPECT_EQ(trial.history("key"), (States{"the first value", "not_found"}));
  EXPECT_EQ(trial.history("yek"), (States{"not_found", "not for key at all"}));
  EXPECT_EQ(trial.first_wrong("key"), std::nullopt);
  EXPECT_EQ(trial.first_wrong("yek"), std::nullopt);
}

TEST(TableInterleaving, erase_and_put_again_are_both_seen) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] {
    trial.erase("key");
    trial.reuse_now();
    trial.put("key", "again");
  });
  EXPECT_EQ(trial.history("key"), (States{"the first value", "not_found", "again"}));
  EXPECT_EQ(trial.first_wrong("key"), std::nullopt);
}

std::string filler(int number) {
  return "filler " + std::to_string(number);
}

// Fills the table until the next insertion splits buckets, then records that insertion.
void record_split(Trial& trial) {
  int next = 0;
  for (; next < 84; ++next) trial.put(filler(next), "v" + std::to_string(next));
  ASSERT_EQ(trial.space().table().stats().buckets, 16U);
  trial.record([&] { trial.put(filler(next), "v" + std::to_string(next)); });
  ASSERT_EQ(trial.space().table().stats().buckets, 18U);
}

TEST(TableInterleaving, an_entry_is_found_throughout_a_split) {
  Trial trial;
  record_split(trial);
  int moving = 0;
  for (int number = 0; number < 84; ++number) {
    const std::string key = filler(number);
    const uint64_t hash = trial.space().table().hash(bytes_of(key));
    if (bucket_index(hash, 16) == bucket_index(hash, 18)) continue;
    ++moving;
    EXPECT_EQ(trial.history(key), (States{"v" + std::to_string(number)}));
    EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
  }
  EXPECT_GT(moving, 2);
}

// It comes forward with the second of the two splits.
LongBucket record_coming_forward(Trial& trial) {
  LongBucket keys(trial.space().table());
  trial.record([&] { trial.put("one more", "v"); });
  return keys;
}

TEST(TableInterleaving, an_entry_is_found_while_it_comes_forward_from_an_overflow_line) {
  Trial trial;
  const LongBucket keys = record_coming_forward(trial);
  ASSERT_EQ(trial.space().table().stats().buckets, 18U);
  std::vector<std::string> all = keys.staying;
  all.insert(all.end(), keys.leaving.begin(), keys.leaving.end());
  for (const std::string& key : all) {
    EXPECT_EQ(trial.history(key), (States{"here"}));
    EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
  }
}

TEST(TableInterleaving, an_old_place_cleared_before_the_count_is_found) {
  Trial trial;
  const LongBucket keys = record_coming_forward(trial);
  // (I3) broken: all that is seen of the second split comes before its count.
  auto& stores = trial.stores();
  const auto is_count = [](const sim::Store& store) { return store.at == kBucketCountAt; };
  const auto last = std::find_if(stores.rbegin(), stores.rend(), is_count);
  ASSERT_NE(last, stores.rend());
  std::rotate(last.base() - 1, last.base(), stores.end());
  bool found = false;
  for (const std::string& key : keys.coming) {
    // At no moment is it missing: only a reader that is on its way misses it.
    EXPECT_EQ(trial.history(key), (States{"here"}));
    found = found || trial.first_wrong(key).has_value();
  }
  EXPECT_TRUE(found);
}

TEST(TableInterleaving, an_entry_is_found_while_it_moves_and_is_overwritten) {
  Trial trial;
  for (int number = 0; number < 84; ++number) trial.put(filler(number), "old");
  std::string key;
  for (int number = 0; number < 84; ++number) {
    const uint64_t hash = trial.space().table().hash(bytes_of(filler(number)));
    if (bucket_index(hash, 16) != bucket_index(hash, 18)) key = filler(number);
  }
  trial.record([&] {
    trial.put("one more", "v");
    trial.put(key, "new");
  });
  EXPECT_EQ(trial.history(key), (States{"old", "new"}));
  EXPECT_EQ(trial.first_wrong(key), std::nullopt);
}

// Keys that all fall into one bucket of sixteen.
std::vector<std::string> crowd(Trial& trial, uint64_t bucket, size_t count) {
  return test::keys_of_bucket(trial.space().table(), bucket, 16, count);
}

TEST(TableInterleaving, a_line_may_be_unlinked_and_linked_elsewhere_while_its_chain_is_read) {
  Trial trial;
  const auto keys = crowd(trial, 3, 15);
  const auto others = crowd(trial, 5, 8);
  for (const std::string& key : keys) trial.put(key, "here");
  for (size_t i = 0; i < 7; ++i) trial.put(others[i], "there");
  ASSERT_EQ(trial.space().table().stats().overflow_lines, 2U);
  // The last line of the first chain goes, and becomes the second chain's; the entries before it stay.
  trial.record([&] {
    trial.erase(keys[14]);
    trial.put(others[7], "there too");
  });
  EXPECT_EQ(trial.history(keys[14]), (States{"here", "not_found"}));
  EXPECT_EQ(trial.history(others[7]), (States{"not_found", "there too"}));
  for (const std::string& key : {keys[0], keys[7], keys[13], keys[14], others[6], others[7]}) {
    EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
  }
}

const std::string kAskOwner(text(Code::kInvalidated));

TEST(TableInterleaving, a_chain_may_become_too_long_for_a_reader_while_it_is_read) {
  Trial trial;
  trial.leaves_to_owner = true;
  const auto keys = crowd(trial, 3, 58);
  for (size_t i = 0; i < 56; ++i) trial.put(keys[i], "here");
  ASSERT_EQ(trial.space().table().stats().overflow_lines, 7U);
  trial.record([&] {
    trial.put(keys[56], "behind all lines");
    trial.erase(keys[20]);
    trial.put(keys[57], "in front");
  });
  EXPECT_EQ(trial.history(keys[0]), (States{"here"}));
  EXPECT_EQ(trial.history(keys[55]), (States{"here"}));
  EXPECT_EQ(trial.history(keys[56]), (States{"not_found", kAskOwner}));
  EXPECT_EQ(trial.history(keys[20]), (States{"here", kAskOwner}));
  EXPECT_EQ(trial.history(keys[57]), (States{"not_found", kAskOwner, "in front"}));
  for (const std::string& key : {keys[0], keys[55], keys[56], keys[57], keys[20]}) {
    EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
  }
}

TEST(TableInterleaving, a_line_that_no_reader_follows_may_be_linked_elsewhere_while_its_chain_is_read) {
  Trial trial;
  trial.leaves_to_owner = true;
  const auto keys = crowd(trial, 3, 57);
  const auto others = crowd(trial, 5, 8);
  for (const std::string& key : keys) trial.put(key, "here");
  for (size_t i = 0; i < 7; ++i) trial.put(others[i], "there");
  ASSERT_EQ(trial.space().table().stats().overflow_lines, 8U);
  trial.record([&] {
    trial.erase(keys[56]);
    trial.put(others[7], "there too");
  });
  EXPECT_EQ(trial.history(keys[56]), (States{kAskOwner, "not_found"}));
  for (const std::string& key : {keys[0], keys[55], keys[56], others[7]}) {
    EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
  }
}

TEST(TableInterleaving, an_entry_of_a_crowded_bucket_is_found_throughout_a_split_or_left_to_the_owner) {
  Trial trial;
  trial.leaves_to_owner = true;
  const refract::test::KeysOfHash key_of(42);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 60; ++i) keys.push_back(key_of((i << 40) | (i % 29 == 0 ? 16 : 0)));
  for (const std::string& key : keys) trial.put(key, "v");
  for (int number = 60; number < 84; ++number) trial.put(filler(number), "v");
  ASSERT_EQ(trial.space().table().stats().buckets, 16U);
  ASSERT_EQ(trial.space().table().crowds()->count(), 1U);
  trial.record([&] { trial.put("one more", "v"); });
  ASSERT_EQ(trial.space().table().stats().buckets, 18U);
  // Those that go, in front and behind the lines that readers follow, and some that stay.
  for (const size_t i : {0U, 29U, 58U, 2U, 31U, 57U}) {
    EXPECT_EQ(trial.first_wrong(keys[i]), std::nullopt) << i;
    const std::vector<std::string> states = trial.history(keys[i]);
    EXPECT_EQ(std::ranges::count(states, "not_found"), 0) << i;
  }
}

// A reader that takes every stamp for the right one.
class StampBlindMemory : public SimReaderMemory {
 public:
  explicit StampBlindMemory(sim::ReaderMemory& memory) : SimReaderMemory(memory) {}
  [[nodiscard]] uint64_t observe(Offset at) noexcept {
    const uint64_t word = SimReaderMemory::observe(at);
    // A bucket's word is remembered; the first word of the buffer it names is then whatever it should be.
    if (at == slot_.buffer()) return (slot_.bits >> Slot::kStampShift & 0xffff) | 0x10000;
    if (at.value / kChunkBytes == kBucketChunk) slot_ = Slot{word};
    return word;
  }

 private:
  static constexpr uint64_t kBucketChunk = 1;  // Behind the header's.
  Slot slot_;
};

// The slot keeps 16 bits of the stamp, so after 65,536 writes the very same word may name the very same
// buffer with other bytes. A slow reader's last look at the slot says nothing then; only the whole stamp
// does.
void record_return_of_a_slot_word(Trial& trial) {
  const uint64_t first = trial.put("key", "the first value");
  trial.record([&] {
    trial.put("key", "a second value");
    trial.reuse_now();
    while ((trial.space().heap().next_stamp() + 1) % 65'536 != first % 65'536) {
    }
    trial.put("key", "THE THIRD VALUE");
  });
  EXPECT_EQ(trial.history("key"), (States{"the first value", "a second value", "THE THIRD VALUE"}));
}

TEST(TableInterleaving, a_slot_word_may_come_back_while_its_buffer_is_read) {
  Trial trial;
  record_return_of_a_slot_word(trial);
  EXPECT_EQ(trial.first_wrong("key"), std::nullopt);
}

TEST(TableInterleaving, a_reader_that_ignores_stamps_is_found) {
  Trial trial;
  record_return_of_a_slot_word(trial);
  EXPECT_NE(trial.first_wrong<StampBlindMemory>("key"), std::nullopt);
}

TEST(TableInterleaving, a_stamp_stored_before_its_bytes_is_found) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] {
    trial.put("key", "a second value");
    trial.reuse_now();
    trial.put("key", "the third value");
  });
  // (I2) broken: the last buffer's stamp, stored just before its slot, moves in front of its bytes, and the
  // zero goes.
  auto& stores = trial.stores();
  const size_t stamp = stores.size() - 2;
  const auto is_zero_of_it = [&](const sim::Store& store) {
    return store.at == stores[stamp].at && store.word == 0;
  };
  const auto zero = std::find_if(stores.begin(), stores.end(), is_zero_of_it);
  ASSERT_NE(zero, stores.end());
  std::rotate(zero, stores.begin() + static_cast<ptrdiff_t>(stamp),
              stores.begin() + static_cast<ptrdiff_t>(stamp) + 1);
  stores.erase(zero + 1);
  // The slot of the first value is what a slow reader still holds: it carries other stamp bits, so such a
  // reader is safe even then. One that reads the bytes while they are written needs the slot published early,
  // too.
  std::rotate(stores.begin() + static_cast<ptrdiff_t>(stores.size()) - 5, stores.end() - 1, stores.end());
  EXPECT_NE(trial.first_wrong("key"), std::nullopt);
}

TEST(TableInterleaving, a_buffer_overwritten_while_it_is_published_is_found) {
  Trial trial;
  trial.put("key", "the first value");
  const Offset buffer = trial.space().table().find(bytes_of("key"))->buffer;
  // Reuse too early: the bytes change under the slot that names them, without a new stamp.
  trial.record([&] { trial.space().writer().copy(buffer.plus(16), bytes_of("keyTHE FIRST VALUE")); });
  EXPECT_NE(trial.first_wrong("key"), std::nullopt);
}

TEST(TableInterleaving, a_split_without_the_second_place_is_found) {
  Trial trial;
  record_split(trial);
  // (I3) broken: the old slots are cleared before the count is published.
  auto& stores = trial.stores();
  std::vector<sim::Store> late;
  for (const sim::Store& store : stores) {
    if (store.at == kBucketCountAt) late.push_back(store);
  }
  std::erase_if(stores, [](const sim::Store& store) { return store.at == kBucketCountAt; });
  stores.insert(stores.end(), late.begin(), late.end());
  bool found = false;
  for (int number = 0; number < 84; ++number) {
    const std::string key = filler(number);
    const uint64_t hash = trial.space().table().hash(bytes_of(key));
    if (bucket_index(hash, 16) == bucket_index(hash, 18)) continue;
    // What is right is "found throughout", not what the broken image says.
    found = found || trial.history(key).size() > 1;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace refract::kv::table_interleaving_test
