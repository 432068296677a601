// SPDX-License-Identifier: Apache-2.0
// What a table's decoder shows of a sound space, and that damage is shown and never followed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "apps/inspect/decoder.h"
#include "apps/records/json_text.h"

#include "refract/base/prng.h"
#include "refract/documents/json.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_space.h"

namespace refract::inspect::table_decoder_test {
namespace {

using kv::Slot;
using kv::test::bytes_of;

class TableDecoder : public testing::Test {
 protected:
  TableDecoder() {
    for (int i = 0; i < 2'000; ++i) put("key " + std::to_string(i), "value " + std::to_string(i));
    put("large", std::string(100'000, 'l'));
    put(std::string("odd\n\xff", 5), std::string(300, '\x01'));
  }

  void put(const std::string& key, const std::string& value) {
    EXPECT_TRUE(space_.table().put(bytes_of(key), bytes_of(value), {}).has_value());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {space_.base(), space_.bytes()}; }
  Part ask(const Question& question) { return decode_table({.bytes = bytes()}, question, found_); }
  std::string text(const Question& question) { return text_of(ask(question)); }

  // What a field of the part says, as JSON spells it.
  static std::string field(const Part& part, std::string_view name) {
    const auto known = std::ranges::find(part.fields, name, &Field::name);
    return known == part.fields.end() || !known->json ? "" : documents::to_json_line(*known->json);
  }
  static std::string slot_text(uint64_t at) { return fmt::format("slot {:#x}", at); }
  static std::string damage_text(uint64_t at) { return fmt::format("DAMAGE at {:#x}", at); }
  static uint64_t number(const Part& part, std::string_view name) {
    return std::strtoull(field(part, name).c_str(), nullptr, 10);
  }
  void set_word(uint64_t at, uint64_t value) { std::memcpy(space_.base() + at, &value, 8); }
  [[nodiscard]] uint64_t word(uint64_t at) const {
    uint64_t value = 0;
    std::memcpy(&value, space_.base() + at, 8);
    return value;
  }

  kv::test::Space space_;
  bool found_ = false;
};

TEST_F(TableDecoder, a_space_is_recognised_and_summed_up) {
  ASSERT_NE(decoder_for(bytes()), nullptr);
  EXPECT_EQ(decoder_for(bytes())->name, "table");
  const Part part = ask({});
  EXPECT_EQ(damage_count(part), 0U);
  EXPECT_EQ(number(part, "entries"), 2'002U);
  EXPECT_EQ(number(part, "buckets"), word(kv::kBucketCountAt.value));
  const std::string shown = text_of(part);
  for (const char* piece : {"     0  HB", "buffers by size", "buckets by entries", "X"}) {
    EXPECT_NE(shown.find(piece), std::string::npos) << piece << " is missing in\n" << shown;
  }
}

TEST_F(TableDecoder, a_key_leads_to_its_bucket_slot_and_buffer) {
  const Part part = ask({.key = "key 7"});
  EXPECT_TRUE(found_);
  EXPECT_EQ(damage_count(part), 0U);
  const uint64_t slot_at = number(part, "slot_at");
  const uint64_t buffer_at = number(part, "buffer_at");
  EXPECT_EQ(Slot{word(slot_at)}.buffer().value, buffer_at);
  EXPECT_EQ(std::memcmp(space_.base() + buffer_at + 16, "key 7value 7", 12), 0);
  EXPECT_EQ(number(part, "bucket_at"), slot_at / 64 * 64) << "no chain overflows in a table so small";
  const std::string shown = text_of(part);
  EXPECT_NE(shown.find("'key 7': 7 B"), std::string::npos) << shown;
  EXPECT_NE(shown.find("value         'value 7'"), std::string::npos) << shown;
}

TEST_F(TableDecoder, a_key_that_is_not_there_is_said_to_be_absent) {
  const Part part = ask({.key = "key 7 and more"});
  EXPECT_FALSE(found_);
  EXPECT_NE(text_of(part).find("not found"), std::string::npos);
  EXPECT_EQ(damage_count(part), 0U);
}

TEST_F(TableDecoder, what_lies_at_an_offset_is_named) {
  const uint64_t slot_at = number(ask({.key = "key 7"}), "slot_at");
  const uint64_t buffer_at = number(ask({.key = "key 7"}), "buffer_at");
  const uint64_t large_at = number(ask({.key = "large"}), "buffer_at");
  EXPECT_NE(text({.at = 0}).find("the space's header"), std::string::npos);
  EXPECT_NE(text({.at = 4096 + 8}).find("the word of chunk 1"), std::string::npos);
  EXPECT_NE(text({.at = word(offsetof(SpaceHeader, store_area))}).find("directory's word"),
            std::string::npos);
  EXPECT_NE(text({.at = slot_at + 3}).find("'key 7'"), std::string::npos);
  EXPECT_NE(text({.at = buffer_at + 17}).find(slot_text(slot_at)), std::string::npos)
      << text({.at = buffer_at});
  EXPECT_NE(text({.at = large_at + 100}).find("extent"), std::string::npos);
  EXPECT_NE(text({.at = bytes().size() - 8}).find("a free chunk"), std::string::npos);
  const Part behind = ask({.at = bytes().size()});
  EXPECT_TRUE(behind.is_nothing);
  EXPECT_EQ(damage_count(behind), 0U);
}

TEST_F(TableDecoder, programs_get_json_that_parses_whatever_the_keys_are) {
  const std::string odd("odd\n\xff", 5);
  for (const Question& question :
       {Question{}, Question{.key = odd}, Question{.bucket = 0}, Question{.at = uint64_t{0}}}) {
    const std::string json = json_of(ask(question));
    records::JsonObject object(json);
    records::JsonMember member;
    while (object.next(member)) {
    }
    EXPECT_EQ(object.fault(), "") << json;
  }
}

TEST_F(TableDecoder, damage_is_shown_where_it_lies) {
  const uint64_t slot_at = number(ask({.key = "key 7"}), "slot_at");
  const uint64_t bucket = number(ask({.key = "key 7"}), "bucket");
  const uint64_t before = word(slot_at);
  set_word(slot_at, before | Slot::kGranuleMask);
  Part part = ask({.bucket = bucket});
  EXPECT_EQ(damage_count(part), 1U);
  EXPECT_NE(text_of(part).find(damage_text(slot_at)), std::string::npos) << text_of(part);
  set_word(slot_at, before);
  set_word(Slot{before}.buffer().value, 0);
  EXPECT_EQ(damage_count(ask({.bucket = bucket})), 1U) << "a stamp of another entry";
  set_word(0, 0x1234);
  part = ask({});
  EXPECT_EQ(damage_count(part), 1U) << "nothing below a wrong header is looked at";
  EXPECT_EQ(decoder_for(bytes()), nullptr);
}

TEST_F(TableDecoder, an_entry_without_a_value_is_shown_like_any_other) {
  put("empty", "");
  const Part part = ask({.key = "empty"});
  EXPECT_TRUE(found_);
  EXPECT_EQ(damage_count(part), 0U);
  EXPECT_NE(text_of(part).find("'empty': 0 B"), std::string::npos) << text_of(part);
}

TEST_F(TableDecoder, a_chain_of_lines_that_is_a_ring_is_followed_once_and_called_damage) {
  const Part sound = ask({.key = "key 7"});
  const uint64_t bucket = number(sound, "bucket");
  // Three lines in what was a free chunk, the last of which leads to the first.
  const uint64_t lines = bytes().size() - kChunkBytes;
  set_word(word(offsetof(SpaceHeader, chunk_table)) + lines / kChunkBytes * 8,
           ChunkWord::of(ChunkKind::kLines, 0).bits);
  set_word(number(sound, "bucket_at") + kv::kOverflowWord * 8, lines);
  for (uint64_t i = 0; i < 3; ++i) set_word(lines + i * 64 + kv::kOverflowWord * 8, lines + (i + 1) % 3 * 64);
  const Part part = ask({.bucket = bucket});
  EXPECT_EQ(damage_count(part), 1U);
  EXPECT_LE(part.parts.size(), 1U + 3 * 3);
  EXPECT_GE(part.parts.size(), 1U + 3);
  EXPECT_FALSE(text({}).empty());
}

TEST_F(TableDecoder, a_bucket_that_does_not_exist_is_refused_and_no_damage) {
  for (const uint64_t bucket : {UINT64_MAX, word(kv::kBucketCountAt.value)}) {
    EXPECT_TRUE(ask({.bucket = bucket}).is_nothing);
    EXPECT_EQ(damage_count(ask({.bucket = bucket})), 0U);
  }
}

// A word of another node is said to be one, and what it keeps of such a transaction is listed.
TEST_F(TableDecoder, transactions_under_way_are_shown) {
  kv::Decisions decisions(std::vector<kv::Decisions::Home>{{.space = space_.base()}});
  kv::Table::Parts parts(space_.table(), decisions);
  const auto prepare = [&](const kv::PartOf& from, std::string_view key) {
    const std::vector<kv::BatchCondition> read{{.key = space_.table().hashed(bytes_of("key 3"))}};
    std::vector<kv::BatchWrite> writes{
        {.key = space_.table().hashed(bytes_of(key)), .value = bytes_of("new")}};
    kv::TableBatch batch{.conditions = read, .writes = writes};
    EXPECT_TRUE(parts.prepare(batch, from));
  };
  const uint64_t number = (uint64_t{1} << kv::kNumbersShift) + 1;
  const kv::DecisionPlace near = decisions.place_of(0, 3);
  decisions.renew(near, number - 1);
  const kv::DecisionPlace far{uint64_t{2} << kv::DecisionPlace::kShardShift | 0x5000};
  prepare({.name = {.place = near, .number = number}, .session = 9, .now_ns = 1}, "key 1");
  prepare(
      {.name = {.place = far.seen_from_afar(2), .number = 5}, .session = 9, .now_ns = 1, .generation = 77},
      "key 2");
  set_word(near.at().value, kv::Decision::claimed(number).bits);
  const auto expect_shown = [&](const Question& question, const std::string& wanted) {
    const std::string shown = text(question);
    EXPECT_NE(shown.find(wanted), std::string::npos) << wanted << " is missing in\n" << shown;
  };
  expect_shown({.key = "key 2"},
               "the decision word at 0x5000 of shard 1 of member 2 says, which is another node");
  expect_shown({.key = "key 1"}, fmt::format("says: number {}, undecided", number));
  expect_shown({.at = near.at().value}, "undecided: its home has claimed it");
  expect_shown({}, "home member 2, number 5 by the decision word at 0x5000 of shard 1: open");
  expect_shown({}, "holds 'key 3' (read)");
  expect_shown({.at = word(kv::kFarPartsAt.value)}, "home member 2");
  EXPECT_EQ(damage_count(ask({})), 0U);
  set_word(word(kv::kFarPartsAt.value) + 8, word(kv::kFarPartsAt.value));
  EXPECT_EQ(damage_count(ask({})), 1U);
  set_word(near.at().value, kv::Decision::committed(1).bits + 4 * ((1 << kv::kNumbersShift) - 1));
  EXPECT_EQ(damage_count(ask({.at = near.at().value})), 1U) << "the first number of a range is never given";
}

// Whatever the bytes are, every question ends and stays inside: the sanitizers watch.
TEST_F(TableDecoder, random_damage_never_leads_outside) {
  Prng prng(11);
  const std::string sound(reinterpret_cast<const char*>(space_.base()), space_.bytes());
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 60; ++i) {
      const uint64_t end = i % 2 == 0 ? 4 * kChunkBytes : space_.bytes();
      const uint64_t value = i % 3 == 0 ? prng.next() : prng.next() % space_.bytes();
      // Where the header itself is wrong nothing else is looked at.
      set_word(
          i % 16 == 0 && round % 4 == 0 ? prng.next() % 512 * 8 : 4096 + prng.next() % ((end - 4096) / 8) * 8,
          value);
    }
    for (uint64_t i = 0; i < 20; ++i) {
      (void)text({.at = prng.next() % space_.bytes()});
      (void)text({.bucket = prng.next() % 512});
      (void)text({.key = "key " + std::to_string(prng.next() % 2'000)});
    }
    (void)json_of(ask({}));
    std::memcpy(space_.base(), sound.data(), sound.size());
  }
  EXPECT_EQ(damage_count(ask({})), 0U);
}

TEST(Decoders, bytes_of_no_layout_are_shown_as_they_are) {
  alignas(8) std::byte bytes[24] = {};
  std::memcpy(bytes, "plain", 5);
  EXPECT_EQ(decoder_for(bytes), nullptr);
  EXPECT_NE(text_of(raw_bytes(bytes, 0)).find("plain"), std::string::npos);
  EXPECT_TRUE(raw_bytes(bytes, 24).is_nothing);
  EXPECT_EQ(damage_count(raw_bytes(bytes, 24)), 0U) << "a question beyond the end damages nothing";
  EXPECT_EQ(decoder_named("no such"), nullptr);
}

}  // namespace
}  // namespace refract::inspect::table_decoder_test
