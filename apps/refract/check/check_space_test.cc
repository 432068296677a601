// SPDX-License-Identifier: Apache-2.0
// A sound space passes; one wrong word in it is found and named by its offset.
#include "apps/refract/check/check_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "refract/base/prng.h"
#include "refract/base/testing/keys_of_hash.h"
#include "refract/base/testing/turns.h"
#include "refract/client/verified.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/far_part.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_space.h"

namespace refract::cli {
namespace {

using kv::Lengths;
using kv::Slot;
using kv::test::bytes_of;

constexpr uint64_t kEntries = 5'000;

class CheckSpace : public testing::Test {
 protected:
  CheckSpace() {
    for (uint64_t i = 0; i < kEntries; ++i) put("key " + std::to_string(i), "value " + std::to_string(i));
    put("large", std::string(100'000, 'l'));
  }

  void put(const std::string& key, const std::string& value) {
    EXPECT_TRUE(space_.table().put(bytes_of(key), bytes_of(value), {}).has_value());
  }
  [[nodiscard]] SpaceReport check() { return check_space({.space = {space_.base(), space_.bytes()}}); }

  [[nodiscard]] uint64_t word(Offset at) {
    uint64_t value;
    std::memcpy(&value, space_.base() + at.value, 8);
    return value;
  }
  void set_word(Offset at, uint64_t value) { std::memcpy(space_.base() + at.value, &value, 8); }

  [[nodiscard]] uint64_t count() { return word(kv::kBucketCountAt); }
  [[nodiscard]] Offset bucket_at(uint64_t index) {
    const uint64_t directory = word({kv::kRootAt.value + offsetof(kv::TableRoot, directory)});
    const uint64_t chunk = word({directory + index / kv::kBucketsPerChunk * 8});
    return {chunk + index % kv::kBucketsPerChunk * kLineBytes};
  }
  // The first slot in use from this bucket on.
  [[nodiscard]] Offset some_slot(uint64_t bucket = 0) {
    for (uint64_t index = bucket; index < count(); ++index) {
      for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
        const Offset at = bucket_at(index).plus(i * 8);
        if (word(at) != 0) return at;
      }
    }
    return {};
  }
  void expect_damage_at(Offset at) {
    const SpaceReport found = check();
    EXPECT_GT(found.damage_count, 0U);
    const auto named = std::ranges::find(found.damages, at.value, &Damage::offset);
    EXPECT_NE(named, found.damages.end()) << "no damage is named at " << at.value;
  }

  kv::test::Space space_;
};

TEST_F(CheckSpace, a_sound_space_has_no_damage_and_is_counted) {
  const SpaceReport found = check();
  EXPECT_EQ(found.damage_count, 0U) << (found.damages.empty() ? "" : found.damages[0].what);
  EXPECT_EQ(found.entries, kEntries + 1);
  EXPECT_EQ(found.buckets, count());
  EXPECT_GT(found.content_bytes, 100'000U);
}

TEST_F(CheckSpace, another_stamp_in_a_buffer_is_found) {
  const Offset buffer = Slot{word(some_slot())}.buffer();
  set_word(buffer, word(buffer) + 1);
  expect_damage_at(buffer);
}

TEST_F(CheckSpace, a_stamp_above_the_limit_is_found) {
  const Offset buffer = Slot{word(some_slot())}.buffer();
  set_word(buffer, word(buffer) + (uint64_t{1} << 40));
  expect_damage_at(buffer);
}

TEST_F(CheckSpace, impossible_lengths_are_found) {
  const Offset buffer = Slot{word(some_slot())}.buffer();
  Lengths lengths = Lengths::from_word(word(buffer.plus(8)));
  lengths.key_bytes = 0;
  set_word(buffer.plus(8), lengths.word());
  expect_damage_at(buffer);
}

TEST_F(CheckSpace, a_changed_key_is_found) {
  const Offset buffer = Slot{word(some_slot())}.buffer();
  set_word(buffer.plus(16), word(buffer.plus(16)) ^ 0x100);
  expect_damage_at(buffer);
}

TEST_F(CheckSpace, a_slot_that_points_outside_is_found) {
  const Offset at = some_slot();
  set_word(at, word(at) | Slot::kGranuleMask);
  expect_damage_at(at);
}

TEST_F(CheckSpace, two_slots_for_one_buffer_are_found) {
  for (uint64_t index = 0; index < count(); ++index) {
    Offset used;
    Offset unused;
    for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
      const Offset at = bucket_at(index).plus(i * 8);
      (word(at) != 0 ? used : unused) = at;
    }
    if (!used || !unused) continue;
    set_word(unused, word(used));
    return expect_damage_at(Slot{word(used)}.buffer());
  }
  FAIL() << "no bucket has a used and an unused slot";
}

TEST_F(CheckSpace, an_entry_in_a_foreign_bucket_is_found) {
  const Offset from = some_slot();
  const Offset to = some_slot(count() / 2);
  const uint64_t moved = word(from);
  set_word(from, 0);
  set_word(to, moved);
  expect_damage_at(Slot{moved}.buffer());
}

TEST_F(CheckSpace, a_chain_that_loops_or_leads_nowhere_is_found) {
  const Offset overflow = bucket_at(3).plus(kv::kOverflowWord * 8);
  const uint64_t before = word(overflow);
  set_word(overflow, space_.bytes() + kLineBytes);
  expect_damage_at(overflow);
  set_word(overflow, before);
  EXPECT_EQ(check().damage_count, 0U);
}

// Keys that were chosen to share a bucket are no damage, however many they are; a ring is, however long.
TEST_F(CheckSpace, a_chain_of_thousands_of_lines_is_sound_and_a_ring_is_not) {
  constexpr uint64_t kCrowd = 9'000;
  const test::KeysOfHash keys(word({offsetof(SpaceHeader, hash_seed)}));
  for (uint64_t i = 0; i < kCrowd; ++i) put(keys.of_bucket(i, 3, 24), "crowded");
  const SpaceReport sound = check();
  EXPECT_EQ(sound.damage_count, 0U);
  EXPECT_EQ(sound.entries, kEntries + 1 + kCrowd);
  EXPECT_GT(sound.overflow_lines, kCrowd / kv::kSlotsPerBucket - 2);
  Offset last = bucket_at(3);
  Offset middle;
  for (int lines = 0; word(last.plus(kv::kOverflowWord * 8)) != 0; ++lines) {
    last = {word(last.plus(kv::kOverflowWord * 8))};
    if (lines == 500) middle = last;
  }
  set_word(last.plus(kv::kOverflowWord * 8), middle.value);
  const SpaceReport ring = check();
  EXPECT_GT(ring.damage_count, 0U);
  EXPECT_NE(ring.damages.front().what.find("does not end"), std::string::npos) << ring.damages.front().what;
}

TEST_F(CheckSpace, a_wrong_directory_or_chunk_word_is_found) {
  const Offset directory{word({kv::kRootAt.value + offsetof(kv::TableRoot, directory)})};
  const uint64_t before = word(directory);
  set_word(directory, before + 8);
  expect_damage_at(directory);
  set_word(directory, before);
  const Offset chunk_word{word({offsetof(SpaceHeader, chunk_table)}) + 8};
  set_word(chunk_word, ~uint64_t{0});
  expect_damage_at(chunk_word);
}

TEST_F(CheckSpace, a_wrong_header_is_found) {
  set_word({0}, 0x1234);
  expect_damage_at({0});
}

TEST_F(CheckSpace, a_bucket_count_that_cannot_be_is_found) {
  set_word(kv::kBucketCountAt, 0);
  expect_damage_at(kv::kBucketCountAt);
  set_word(kv::kBucketCountAt, ~uint64_t{0});
  expect_damage_at(kv::kBucketCountAt);
}

// A server that was killed between publishing a split and clearing the old place.
TEST_F(CheckSpace, an_unfinished_split_is_no_damage) {
  const uint64_t last = count() - 1;
  const Offset old_bucket = bucket_at(kv::split_source(count()));
  const Offset moved = some_slot(last);
  ASSERT_EQ(moved.value / kLineBytes, bucket_at(last).value / kLineBytes) << "the last bucket is empty";
  for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
    if (word(old_bucket.plus(i * 8)) != 0) continue;
    set_word(old_bucket.plus(i * 8), word(moved));
    const SpaceReport found = check();
    EXPECT_EQ(found.damage_count, 0U);
    EXPECT_EQ(found.entries, kEntries + 1);
    return;
  }
  FAIL() << "the old bucket has no free slot to put the copy into";
}

// Or one that was killed between the two places of an entry that comes forward: named twice in this bucket,
// and in no other.
TEST_F(CheckSpace, an_entry_that_comes_forward_is_counted_once_and_no_damage) {
  const auto name_twice = [&](uint64_t bucket) {
    const Offset line = bucket_at(bucket);
    Offset used;
    Offset free;
    for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
      (word(line.plus(i * 8)) == 0 ? free : used) = line.plus(i * 8);
    }
    ASSERT_TRUE(used && free) << "bucket " << bucket << " is empty or full";
    set_word(free, word(used));
  };
  ASSERT_NO_FATAL_FAILURE(name_twice(kv::forwarded_bucket(count())));
  EXPECT_EQ(check().damage_count, 0U);
  EXPECT_EQ(check().entries, kEntries + 1);
  ASSERT_NO_FATAL_FAILURE(name_twice(kv::forwarded_bucket(count()) - 1));
  EXPECT_EQ(check().damage_count, 1U);
}

// Whatever the bytes are, the walk ends and stays inside: the sanitizers watch.
TEST_F(CheckSpace, random_damage_never_leads_outside) {
  Prng prng(7);
  const std::string sound(reinterpret_cast<const char*>(space_.base()), space_.bytes());
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 50; ++i) {
      // Half of it where the structure is, half anywhere.
      const uint64_t end = i % 2 == 0 ? 3 * kChunkBytes : space_.bytes();
      set_word({prng.next() % (end / 8) * 8}, i % 3 == 0 ? prng.next() : prng.next() % space_.bytes());
    }
    const SpaceReport found = check();
    EXPECT_LE(found.damages.size(), SpaceReport::kDamagesMax);
    std::memcpy(space_.base(), sound.data(), sound.size());
  }
  EXPECT_EQ(check().damage_count, 0U);
}

TEST_F(CheckSpace, what_changes_while_it_is_looked_at_is_no_damage) {
  const Offset at = some_slot();
  const Offset buffer = Slot{word(at)}.buffer();
  const uint64_t stamp = word(buffer);
  set_word(buffer, 0);
  int looks = 0;
  const SpaceReport found =
      check_space({.space = {space_.base(), space_.bytes()}, .is_live = true, .pause = [&] {
                     if (++looks == 3) set_word(buffer, stamp);
                   }});
  EXPECT_EQ(found.damage_count, 0U);
  EXPECT_EQ(found.looked_again, 1U);
  EXPECT_EQ(found.entries, kEntries + 1);
}

// A space in which two transactions are under way: one whose home is this shard, one that another node
// decides. A batch of two keys stands beside them, which has happened.
class CheckOpenSpace : public CheckSpace {
 protected:
  CheckOpenSpace() {
    std::vector<kv::BatchWrite> both{write("a", "1"), write("b", "2")};
    kv::TableBatch batch{.conditions = {}, .writes = both};
    EXPECT_TRUE(space_.table().change_at_once(batch));
    const kv::DecisionPlace far{uint64_t{1} << kv::DecisionPlace::kShardShift | 0x5000};
    near_.place = decisions_.place_of(0, 3);
    decisions_.renew(near_.place, near_.number - 1);
    prepare({.name = near_, .session = 9, .now_ns = 1}, write("key 1", "other"));
    prepare(
        {.name = {.place = far.seen_from_afar(2), .number = 5}, .session = 9, .now_ns = 1, .generation = 77},
        write("key 2", "other"));
  }
  [[nodiscard]] kv::BatchWrite write(std::string_view key, std::string_view value) {
    return {.key = space_.table().hashed(bytes_of(key)), .value = bytes_of(value)};
  }
  // Holds a key that is read, too.
  void prepare(const kv::PartOf& from, kv::BatchWrite wanted) {
    const std::vector<kv::BatchCondition> read{{.key = space_.table().hashed(bytes_of("key 7"))}};
    kv::TableBatch batch{.conditions = read, .writes = {&wanted, 1}};
    EXPECT_TRUE(parts_.prepare(batch, from));
  }
  [[nodiscard]] Offset slot_of(std::string_view key) {
    inspect::SpaceWords words({space_.base(), space_.bytes()});
    EXPECT_FALSE(words.read_header());
    for (uint64_t index = 0; index < count(); ++index) {
      for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
        const Offset at = bucket_at(index).plus(i * 8);
        if (word(at) != 0 && words.entry_of({word(at)}).key == key) return at;
      }
    }
    ADD_FAILURE() << key << " is in no first line";
    return {};
  }
  [[nodiscard]] Offset buffer_of(std::string_view key) { return Slot{word(slot_of(key))}.buffer(); }
  [[nodiscard]] Offset trailer_of(std::string_view key) {
    const Offset buffer = buffer_of(key);
    return buffer.plus(Lengths::from_word(word(buffer.plus(8))).trailer_at());
  }
  // Another word there is found and named by this offset; what was there is not.
  void expect_found(Offset at, uint64_t wrong, Offset named) {
    const uint64_t before = word(at);
    set_word(at, wrong);
    expect_damage_at(named);
    set_word(at, before);
    EXPECT_EQ(check().damage_count, 0U);
  }

  kv::Decisions decisions_{std::vector<kv::Decisions::Home>{{.space = space_.base()}}};
  kv::Table::Parts parts_{space_.table(), decisions_};
  kv::TransactionName near_{.place = {}, .number = (uint64_t{1} << kv::kNumbersShift) + 1};
};

TEST_F(CheckOpenSpace, transactions_under_way_are_no_damage_and_are_counted) {
  const SpaceReport found = check();
  EXPECT_EQ(found.damage_count, 0U) << found.damages.front().what;
  EXPECT_EQ(found.pending_entries, 2U);
  EXPECT_EQ(found.far_parts, 1U);
  EXPECT_EQ(found.entries, kEntries + 3);
  set_word(near_.place.at(), kv::Decision::claimed(near_.number).bits);
  EXPECT_EQ(check().damage_count, 0U);
  EXPECT_EQ(check_space({.space = {space_.base(), space_.bytes()}, .is_live = true}).damage_count, 0U);
}

TEST_F(CheckOpenSpace, a_pending_flag_without_a_trailer_is_found) {
  const Offset buffer = buffer_of("key 1");
  Lengths lengths = Lengths::from_word(word(buffer.plus(8)));
  lengths.flags = Lengths::kPending;
  expect_found(buffer.plus(8), lengths.word(), buffer);
}

TEST_F(CheckOpenSpace, a_trailer_whose_place_or_generation_cannot_be_is_found) {
  for (const char* key : {"key 1", "key 2", "a"}) {
    const Offset trailer = trailer_of(key);
    const Offset place = trailer.plus(offsetof(kv::Trailer, decision_at));
    expect_found(place, word(place) + 4, buffer_of(key));
    const Offset generation = trailer.plus(offsetof(kv::Trailer, generation));
    expect_found(generation, word(generation) == 0 ? 1 : 0, buffer_of(key));
  }
  const Offset place = trailer_of("key 1").plus(offsetof(kv::Trailer, decision_at));
  expect_found(place, kv::DecisionPlace::of(1, near_.place.at()).bits, buffer_of("key 1"));
  expect_found(place, kv::DecisionPlace::of(0, {0x1000}).bits, buffer_of("key 1"));
}

TEST_F(CheckOpenSpace, a_replaced_entry_that_is_not_sound_is_found) {
  const Offset replaced = trailer_of("key 1").plus(offsetof(kv::Trailer, replaced));
  const Slot old{word(replaced)};
  expect_found(replaced, old.bits | Slot::kGranuleMask, buffer_of("key 1"));
  expect_found(replaced, word(slot_of("key 3")), buffer_of("key 1"));
  expect_found(old.buffer(), word(old.buffer()) + 1, buffer_of("key 1"));
}

TEST_F(CheckOpenSpace, a_decision_word_out_of_shape_is_found) {
  const Offset at = decisions_.place_of(0, 100).at();
  expect_found(at, kv::Decision::committed(1 << kv::kNumbersShift).bits, at);
  expect_found(at, kv::Decision::claimed(uint64_t{1} << 60 | 1).bits, at);
  expect_found(kv::kDecisionAt, word(kv::kDecisionAt) + 1, kv::kDecisionAt);
  expect_found(kv::kDecisionAt, kv::Decision::committed(uint64_t{1} << 50).bits, kv::kDecisionAt);
}

TEST_F(CheckOpenSpace, a_list_of_parts_that_cannot_be_is_found) {
  const Offset part{word(kv::kFarPartsAt)};
  expect_found(kv::kFarPartsAt, space_.bytes(), kv::kFarPartsAt);
  expect_found(kv::kFarPartsAt, part.value + 8, kv::kFarPartsAt);
  const Offset next = part.plus(offsetof(kv::FarPart, next));
  expect_found(next, part.value, next);
  expect_found(next, kChunkBytes - 64, next);
  const Offset decision = part.plus(offsetof(kv::FarPart, decision_at));
  expect_found(decision, near_.place.bits, part);
  expect_found(part.plus(offsetof(kv::FarPart, fate)), 9, part);
  const Offset counts = part.plus(offsetof(kv::FarPart, keys));
  expect_found(counts, word(counts) + 1, part);
}

// A small space, of which every byte that means anything is flipped once. Structures contradict each other
// then, and are named; values contradict nothing, and a client that verifies is told. Whatever is left
// changed nothing that is ever read: counters, room for what is to come, the store's time, which only what
// expires goes by.
TEST(SmallSpace, a_flipped_bit_is_named_or_told_to_who_verifies_or_changes_nothing) {
  constexpr int kFew = 40;
  kv::test::Space space({.chunks = 8, .chunks_max = 8});
  const auto key_of = [](int i) { return "key " + std::to_string(i); };
  const auto value_of = [](int i) {
    return "the value " + std::to_string(i) + std::string(static_cast<size_t>(i), 'v');
  };
  for (int i = 0; i < kFew; ++i) {
    const std::string stored = with_checksum(key_of(i), value_of(i));
    ASSERT_TRUE(space.table().put(bytes_of(key_of(i)), bytes_of(stored), {}));
  }
  const auto check = [&] { return check_space({.space = {space.base(), space.bytes()}}); };
  ASSERT_EQ(check().damage_count, 0U);
  // Whether all is there; false: a reader that verifies was told that it is not.
  const auto has_all = [&](uint64_t at) {
    kv::MappedMemory memory(space.base(), space.bytes(), nullptr);
    kv::DirectReader reader(memory, space.clock());
    bool is_whole = true;
    for (int i = 0; i < kFew; ++i) {
      std::string stored;
      const std::string name = key_of(i);
      const auto key = bytes_of(name);
      const kv::Found found = reader.get(key, reader.hash(key), [&](uint64_t bytes) {
        stored.resize(bytes);
        return reinterpret_cast<std::byte*>(stored.data());
      });
      EXPECT_EQ(found.code, Code::kOk) << key_of(i) << " is gone without a word, of byte " << at;
      if (found.code != Code::kOk) return false;
      const auto value = verify(key_of(i), stored);
      if (value) {
        EXPECT_EQ(value->text(), value_of(i)) << "served as something else, of byte " << at;
      }
      is_whole &= value.has_value();
    }
    return is_whole;
  };
  uint64_t named = 0;
  uint64_t told = 0;
  uint64_t harmless = 0;
  for (uint64_t at = 0; at < space.bytes() && !testing::Test::HasFailure(); at += test::kStride) {
    std::byte& byte = space.base()[at];
    // Where everything is zero nothing lies, or what lies there is not used: a few of these.
    if (byte == std::byte{0} && at % 8 == 7 && at % 4'093 > 8) continue;
    if (byte == std::byte{0} && at >= 8'192 && at % 509 > 3) continue;
    byte ^= std::byte{1} << at % 8;
    if (check().damage_count > 0) {
      ++named;
    } else {
      ++(has_all(at) ? harmless : told);
    }
    byte ^= std::byte{1} << at % 8;
  }
  EXPECT_GT(named, 500U / test::kStride);
  EXPECT_GT(told, kFew * 20U / test::kStride);
  EXPECT_GT(harmless, 100U / test::kStride);
}

}  // namespace
}  // namespace refract::cli
