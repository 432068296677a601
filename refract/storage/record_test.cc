// SPDX-License-Identifier: Apache-2.0
// A record comes back as it was appended, at its own place and in its own log, or not at all.
#include "refract/storage/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/golden.h"

namespace refract::storage::record_test {
namespace {

constexpr uint64_t kKeyOfLog = 0x1122334455667788;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Record sample(std::string_view key, std::string_view value) {
  return {.kind = RecordKind::kPut,
          .position = 4096,
          .stamp = 0x0a0b0c0d,
          .synced_position = 2048,
          .expires_wall_ns = 1'700'000'000'000'000'000,
          .client = 0xc11e,
          .sequence = 7,
          .key = bytes_of(key),
          .value = bytes_of(value),
          .value_bytes = value.size()};
}

std::vector<std::byte> encoded(const Record& record) {
  std::vector<std::byte> bytes(stored_bytes(record.form, record.key.size(), record.value_bytes),
                               std::byte{0xee});
  EXPECT_EQ(encode_record(record, kKeyOfLog, bytes.data()), bytes.size());
  return bytes;
}

void expect_same(const Record& left, const Record& right) {
  EXPECT_EQ(left.kind, right.kind);
  EXPECT_EQ(left.form, right.form);
  EXPECT_EQ(left.position, right.position);
  EXPECT_EQ(left.stamp, right.stamp);
  EXPECT_EQ(left.synced_position, right.synced_position);
  EXPECT_EQ(left.expires_wall_ns, right.expires_wall_ns);
  EXPECT_EQ(left.client, right.client);
  EXPECT_EQ(left.sequence, right.sequence);
  EXPECT_TRUE(std::ranges::equal(left.key, right.key));
  EXPECT_TRUE(std::ranges::equal(left.value, right.value));
  EXPECT_EQ(left.value_bytes, right.value_bytes);
  EXPECT_EQ(left.reference, right.reference);
}

TEST(Record, comes_back_with_every_field_at_every_length) {
  const std::string letters(300, 'x');
  for (size_t key = 1; key < 20; ++key) {
    for (size_t value = 0; value < 260; ++value) {
      const Record record = sample(letters.substr(0, key), std::string_view(letters).substr(0, value));
      const std::string kept = letters.substr(0, key);
      Record placed = record;
      placed.key = bytes_of(kept);
      const std::vector<std::byte> bytes = encoded(placed);
      ASSERT_EQ(bytes.size() % kRecordUnit, 0);
      ASSERT_EQ(bytes.size(), log_bytes(key, value));
      Record found;
      ASSERT_EQ(decode_record(bytes, 4096, kKeyOfLog, found), RecordFault::kNone);
      expect_same(found, placed);
    }
  }
}

TEST(Record, whose_value_lies_elsewhere_says_where_and_takes_its_room_in_the_log) {
  Record record = sample("key", "");
  record.form = RecordForm::kReference;
  record.value_bytes = 1 << 20;
  record.reference = 0x123456789abc;
  const std::vector<std::byte> bytes = encoded(record);
  EXPECT_EQ(bytes.size(), 80);
  Record found;
  ASSERT_EQ(decode_record(bytes, 4096, kKeyOfLog, found), RecordFault::kNone);
  expect_same(found, record);
  EXPECT_EQ(log_bytes(found.key.size(), found.value_bytes), 64 + 3 + 5 + (1 << 20));
}

TEST(Record, sealed_in_parts_has_the_bytes_of_one_encoded_at_once) {
  Prng chance(3);
  for (const size_t size : std::initializer_list<size_t>{0, 1, 7, 8, 100, 300, 5000, 70'000}) {
    std::string value(size, ' ');
    for (char& letter : value) letter = static_cast<char>(chance.next());
    const Record record = sample("some key", value);
    const std::vector<std::byte> whole = encoded(record);
    const RecordHeader header = seal_header(record, kKeyOfLog);
    EXPECT_EQ(std::memcmp(whole.data(), &header, sizeof(header)), 0) << size;
  }
}

TEST(Record, with_any_bit_flipped_is_none) {
  const std::vector<std::byte> sound = encoded(sample("key", "some value"));
  for (size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::vector<std::byte> bytes = sound;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    Record found;
    EXPECT_NE(decode_record(bytes, 4096, kKeyOfLog, found), RecordFault::kNone) << "bit " << bit;
  }
}

TEST(Record, at_another_place_or_in_another_log_is_none_and_says_why) {
  const std::vector<std::byte> bytes = encoded(sample("key", "some value"));
  Record found;
  EXPECT_EQ(decode_record(bytes, 4104, kKeyOfLog, found), RecordFault::kPosition);
  EXPECT_EQ(decode_record(bytes, 4096, kKeyOfLog + 1, found), RecordFault::kChecksum);
  EXPECT_EQ(decode_record(std::span(bytes).first(63), 4096, kKeyOfLog, found), RecordFault::kEnd);
  EXPECT_EQ(decode_record(std::span(bytes).first(bytes.size() - 8), 4096, kKeyOfLog, found),
            RecordFault::kEnd);
  EXPECT_EQ(decode_record(std::vector<std::byte>(4096), 0, kKeyOfLog, found), RecordFault::kFields);
  EXPECT_EQ(found.key.size(), 0) << "a fault leaves the record alone";
}

TEST(Record, whose_fields_make_no_sense_is_none_even_with_a_right_checksum) {
  std::string value = "v";
  Record erase = sample("key", value);
  erase.kind = RecordKind::kErase;
  Record found;
  EXPECT_EQ(decode_record(encoded(erase), 4096, kKeyOfLog, found), RecordFault::kFields)
      << "an erasure has no value";
  Record strange = sample("key", value);
  strange.kind = static_cast<RecordKind>(3);
  EXPECT_EQ(decode_record(encoded(strange), 4096, kKeyOfLog, found), RecordFault::kFields);
  strange = sample("key", "");
  strange.form = RecordForm::kAbsent;
  strange.value_bytes = kRecordValueBytesMax + 1;
  EXPECT_EQ(decode_record(encoded(strange), 4096, kKeyOfLog, found), RecordFault::kFields);
}

TEST(Record, logs_of_different_stores_and_shards_have_different_keys) {
  const StoreId one = {std::byte{1}};
  const StoreId two = {std::byte{2}};
  EXPECT_NE(log_key(one, 0), log_key(two, 0));
  EXPECT_NE(log_key(one, 0), log_key(one, 1));
  EXPECT_EQ(log_key(one, 0), log_key(one, 0));
}

TEST(Record, lies_as_the_page_shows) {
  const std::vector<golden::Line> lines =
      golden::lines_of(std::string(REFRACT_SOURCE_DIR) + "/docs/formats/log.md", "## A record in hex");
  StoreId store;
  for (size_t i = 0; i < store.size(); ++i) store[i] = static_cast<std::byte>(i);
  Record record = sample("user:7", "hello");
  std::vector<std::byte> bytes(log_bytes(6, 5));
  encode_record(record, log_key(store, 1), bytes.data());
  std::string shown;
  for (const std::byte byte : bytes) {
    char text[4];
    std::snprintf(text, sizeof(text), "%02x ", std::to_integer<unsigned>(byte));
    shown += text;
  }
  EXPECT_EQ(golden::image_of(lines, bytes.size()), bytes) << shown;
}

TEST(Record, of_a_hosted_store_names_the_store_and_lies_as_the_page_shows) {
  const std::vector<golden::Line> lines =
      golden::lines_of(std::string(REFRACT_SOURCE_DIR) + "/docs/formats/log.md", "## A hosted record in hex");
  Record record = sample("visits", "12345678");
  record.kind = RecordKind::kHosted;
  record.expires_wall_ns = 0;
  record.store = StoreName::of("counter");
  const std::vector<std::byte> bytes = encoded(record);
  std::string shown;
  for (const std::byte byte : bytes) {
    char text[4];
    std::snprintf(text, sizeof(text), "%02x ", std::to_integer<unsigned>(byte));
    shown += text;
  }
  EXPECT_EQ(golden::image_of(lines, bytes.size()), bytes) << shown;
  Record found;
  ASSERT_EQ(decode_record(bytes, 4096, kKeyOfLog, found), RecordFault::kNone);
  expect_same(found, record);
  EXPECT_EQ(found.store, record.store);
}

TEST(Record, of_a_hosted_store_without_a_name_or_with_its_value_elsewhere_is_none) {
  Record found;
  Record nameless = sample("visits", "12345678");
  nameless.kind = RecordKind::kHosted;
  EXPECT_EQ(decode_record(encoded(nameless), 4096, kKeyOfLog, found), RecordFault::kFields);
  Record apart = nameless;
  apart.store = StoreName::of("counter");
  apart.form = RecordForm::kReference;
  apart.value = {};
  EXPECT_EQ(decode_record(encoded(apart), 4096, kKeyOfLog, found), RecordFault::kFields);
}

TEST(LogMark, is_found_at_its_place_in_its_log_and_no_flipped_bit_passes) {
  const LogMark mark = make_mark(4096, 77, 8192, kKeyOfLog);
  std::vector<std::byte> bytes(sizeof(mark));
  std::memcpy(bytes.data(), &mark, sizeof(mark));
  const auto found = decode_mark(bytes, 4096, kKeyOfLog);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stamp, 77U);
  EXPECT_EQ(found->continued_at, 8192U);
  EXPECT_FALSE(decode_mark(bytes, 4104, kKeyOfLog));
  EXPECT_FALSE(decode_mark(bytes, 4096, kKeyOfLog + 1));
  EXPECT_FALSE(decode_mark(std::span(bytes).first(63), 4096, kKeyOfLog));
  Record record;
  EXPECT_NE(decode_record(bytes, 4096, kKeyOfLog, record), RecordFault::kNone) << "a mark is no record";
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(decode_mark(bytes, 4096, kKeyOfLog)) << bit;
    EXPECT_NE(decode_record(bytes, 4096, kKeyOfLog, record), RecordFault::kNone) << bit;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

}  // namespace
}  // namespace refract::storage::record_test
