// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/direct/quick_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::Space;

struct Text {
  std::string text;
  std::byte* operator()(uint64_t bytes) {
    text.assign(bytes, '?');
    return reinterpret_cast<std::byte*>(text.data());
  }
};

// What the quick path alone says; nothing where it leaves the answer to the careful one.
std::optional<std::string> quickly(DirectReader<MappedMemory>& reader, std::string_view key) {
  Text value;
  Found found;
  if (!reader.get_at_once(bytes_of(key), reader.hash(bytes_of(key)), value, found)) return std::nullopt;
  EXPECT_EQ(found.value_bytes, value.text.size());
  return value.text;
}

Code carefully(DirectReader<MappedMemory>& reader, std::string_view key) {
  return reader.get(bytes_of(key), reader.hash(bytes_of(key)), Text{}).code;
}

TEST(QuickReader, reads_every_length_that_it_answers_for) {
  Space space;
  MappedMemory memory(space.base(), space.bytes(), nullptr);
  DirectReader reader(memory, space.clock());
  EXPECT_EQ(carefully(reader, "nothing"), Code::kNotFound);
  for (size_t key_bytes = 1; key_bytes <= 40; ++key_bytes) {
    const std::string key(key_bytes, 'k');
    for (size_t value_bytes = 0; value_bytes <= 200; ++value_bytes) {
      std::string value(value_bytes, ' ');
      for (size_t i = 0; i < value_bytes; ++i) value[i] = static_cast<char>('a' + (i + key_bytes) % 26);
      ASSERT_TRUE(space.table().put(bytes_of(key), bytes_of(value), {}));
      ASSERT_EQ(quickly(reader, key), value) << key_bytes << " + " << value_bytes;
    }
  }
}

TEST(QuickReader, answers_again_after_each_split) {
  Space space;
  MappedMemory memory(space.base(), space.bytes(), nullptr);
  DirectReader reader(memory, space.clock());
  size_t answered = 0;
  for (int i = 0; i < 5'000; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_TRUE(space.table().put(bytes_of(key), bytes_of(key), {}));
    ASSERT_EQ(carefully(reader, key), Code::kOk);
    const std::optional<std::string> value = quickly(reader, key);
    if (!value) continue;  // A chain, or another key of the same fingerprint.
    ASSERT_EQ(*value, key);
    ++answered;
  }
  EXPECT_GT(space.table().stats().splits, 100u);
  EXPECT_GT(answered, 4'000u);
}

TEST(QuickReader, settles_keys_of_a_second_line_in_stages) {
  Space space;
  MappedMemory memory(space.base(), space.bytes(), nullptr);
  DirectReader reader(memory, space.clock());
  constexpr int kKeys = 5'000;
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_TRUE(space.table().put(bytes_of(key), bytes_of(key), {}));
  }
  ASSERT_GT(space.table().stats().overflow_lines, 0u);
  size_t alone = 0;
  size_t in_stages = 0;
  reader.begin();
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = "key " + std::to_string(i);
    alone += quickly(reader, key) ? 1 : 0;
    DirectReader<MappedMemory>::Ahead ahead;
    reader.fetch_bucket(reader.hash(bytes_of(key)), ahead);
    reader.fetch_buffer(ahead);
    reader.fetch_behind(ahead);
    Text value;
    Found found;
    if (!reader.get_at_once(ahead, bytes_of(key), value, found)) continue;
    ASSERT_EQ(value.text, key);
    ++in_stages;
  }
  // What is left has another key's fingerprint before it.
  EXPECT_GT(in_stages, alone);
  EXPECT_GT(in_stages, kKeys * 98u / 100);
}

TEST(QuickReader, answers_nothing_while_the_bucket_count_is_none_that_a_table_has) {
  Space space;
  MappedMemory memory(space.base(), space.bytes(), nullptr);
  ASSERT_TRUE(space.table().put(bytes_of("key"), bytes_of("value"), {}));
  const uint64_t count = space.writer().load(kBucketCountAt);
  DirectReader reader(memory, space.clock());
  for (const uint64_t damaged : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 1}) {
    ASSERT_EQ(carefully(reader, "key"), Code::kOk);
    ASSERT_EQ(quickly(reader, "key"), "value");
    space.writer().publish(kBucketCountAt, damaged);
    EXPECT_EQ(quickly(reader, "key"), std::nullopt);
    // The careful reader has the quick one look again, which must not believe what it sees.
    EXPECT_NE(carefully(reader, "key"), Code::kOk);
    EXPECT_EQ(quickly(reader, "key"), std::nullopt);
    space.writer().publish(kBucketCountAt, count);
  }
}

}  // namespace
}  // namespace refract::kv
