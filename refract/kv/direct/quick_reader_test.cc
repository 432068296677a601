// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/direct/quick_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
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

// Pins of one page, collected as the owner collects those of a client.
class PagePins final : public PinSource {
 public:
  void collect(PinSet& pins) noexcept override { collect_pins(table, pins); }
  PinTable table;
};

std::string any_bytes(size_t bytes, size_t salt) {
  std::string value(bytes, ' ');
  for (size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>('a' + (i / 7 + salt) % 26);
  return value;
}

TEST(QuickReader, pins_values_of_every_length) {
  PagePins pins;
  Space space({.pins = &pins});
  PinWriter writer(&pins.table);
  MappedMemory memory(space.base(), space.bytes(), &writer);
  DirectReader reader(memory, space.clock());
  EXPECT_EQ(carefully(reader, "nothing"), Code::kNotFound);
  for (const size_t key_bytes : {1U, 16U, 40U}) {
    const std::string key(key_bytes, 'k');
    const uint64_t hash = reader.hash(bytes_of(key));
    for (const size_t value_bytes : {0U, 4'095U, 4'096U, 5'000U, 300'000U}) {
      const std::string value = any_bytes(value_bytes, key_bytes);
      ASSERT_TRUE(space.table().put(bytes_of(key), bytes_of(value), {}));
      DirectReader<MappedMemory>::Pinned pinned;
      ASSERT_TRUE(reader.pin_at_once(bytes_of(key), hash, pinned)) << key_bytes << " + " << value_bytes;
      EXPECT_EQ(pinned.found.value_bytes, value_bytes);
      EXPECT_EQ(std::memcmp(memory.at(pinned.value), value.data(), value.size()), 0);
      reader.unpin(pinned.pin);
    }
    ASSERT_TRUE(space.table().put(bytes_of(key), bytes_of(any_bytes(5'000, 1)),
                                  {.expires_wall_ns = space.clock().wall_ns() + kSecond_ns}));
    DirectReader<MappedMemory>::Pinned pinned;
    EXPECT_FALSE(reader.pin_at_once(bytes_of(key), hash, pinned))
        << "its time is the careful reader's to see";
  }
}

// Whatever the first two words of a buffer say, no pin stays and no byte behind the space is named.
TEST(QuickReader, pins_nothing_whose_length_makes_no_sense) {
  PagePins pins;
  Space space({.pins = &pins});
  PinWriter writer(&pins.table);
  MappedMemory memory(space.base(), space.bytes(), &writer);
  DirectReader reader(memory, space.clock());
  ASSERT_TRUE(space.table().put(bytes_of("k"), bytes_of(any_bytes(5'000, 0)), {}));
  EXPECT_EQ(carefully(reader, "k"), Code::kOk);
  const Offset buffer = space.table().standing(space.table().hashed(bytes_of("k"))).slot.buffer();
  const Offset lengths_at = buffer.plus(offsetof(BufferHeader, lengths));
  for (const Lengths lengths : {Lengths{.value_bytes = UINT32_MAX, .key_bytes = 1},
                                Lengths{.value_bytes = static_cast<uint32_t>(space.bytes()), .key_bytes = 1},
                                Lengths{.value_bytes = 5'000, .key_bytes = 2},
                                Lengths{.value_bytes = 5'000, .key_bytes = 1, .flags = 4}}) {
    space.writer().publish(lengths_at, lengths.word());
    DirectReader<MappedMemory>::Pinned pinned;
    EXPECT_FALSE(reader.pin_at_once(bytes_of("k"), reader.hash(bytes_of("k")), pinned));
    PinSet held;
    collect_pins(pins.table, held);
    EXPECT_TRUE(held.empty());
  }
}

// Memory in which something happens before one of the reader's looks.
struct StoppedMemory : MappedMemory {
  struct Stop {
    int looks_left = 0;
    std::function<void()> happens;
  };
  StoppedMemory(const Space& space, PinWriter& pins, Stop& at) noexcept
      : MappedMemory(space.base(), space.bytes(), &pins), stop(&at) {}
  [[nodiscard]] uint64_t observe(Offset at) const noexcept {
    if (stop->looks_left > 0 && --stop->looks_left == 0) stop->happens();
    return MappedMemory::observe(at);
  }
  Stop* stop;
};

// The owner replaces the value between any two looks of the reader, then writes over whatever memory is free:
// what was pinned keeps its bytes, and is what its version names.
TEST(QuickReader, pins_a_long_value_as_it_was_put_whenever_it_is_replaced) {
  int refused = 0;
  for (int looks = 1; looks <= 16; ++looks) {
    PagePins pins;
    Space space({.chunks = 8, .chunks_max = 8, .pins = &pins});
    PinWriter writer(&pins.table);
    StoppedMemory::Stop stop;
    StoppedMemory memory(space, writer, stop);
    DirectReader reader(memory, space.clock());
    const std::string before = any_bytes(5'000, 1);
    ASSERT_TRUE(space.table().put(bytes_of("k"), bytes_of(before), {}));
    const uint64_t hash = reader.hash(bytes_of("k"));
    const uint64_t version = reader.look(bytes_of("k"), hash).version;
    stop = {.looks_left = looks, .happens = [&] {
              for (size_t i = 0; i < 4; ++i) {
                ASSERT_TRUE(space.table().put(bytes_of("k"), bytes_of(any_bytes(5'000, 2 + i)), {}));
                space.heap().reclaim();
              }
            }};
    DirectReader<StoppedMemory>::Pinned pinned;
    if (!reader.pin_at_once(bytes_of("k"), hash, pinned)) {
      ++refused;
      continue;
    }
    const bool is_first = pinned.found.version == version;
    const std::string expected = is_first ? before : any_bytes(5'000, 5);
    EXPECT_EQ(std::memcmp(memory.at(pinned.value), expected.data(), expected.size()), 0) << looks;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 16);
}

}  // namespace
}  // namespace refract::kv
