// SPDX-License-Identifier: Apache-2.0
// The table as its owner sees it, against an ordinary map, through growth, restarts and full memory; and as a
// direct reader sees it while nothing changes.
#include "refract/kv/owner/table/table.h"

#include <gtest/gtest.h>

#include <map>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::table_test {
namespace {

using test::bytes_of;
using test::Space;
using test::text_of;

std::string key_number(uint64_t number) {
  return "key-" + std::to_string(number);
}

uint64_t put(Space& space, std::string_view key, std::string_view value, const PutOptions& options = {}) {
  const auto version = space.table().put(bytes_of(key), bytes_of(value), options);
  EXPECT_TRUE(version.has_value()) << text(version.code());
  return version ? *version : 0;
}

// What a client that maps the space reads.
struct Read {
  Code code;
  std::string value;
  uint64_t version;
};
Read direct_get(Space& space, std::string_view key) {
  MappedMemory memory(space.base(), space.bytes(), nullptr);
  DirectReader reader(memory, space.clock());
  std::string value;
  const Found found = reader.get(bytes_of(key), reader.hash(bytes_of(key)), [&](uint64_t bytes) {
    value.resize(bytes);
    return reinterpret_cast<std::byte*>(value.data());
  });
  return {found.code, value, found.version};
}

TEST(Table, what_was_put_is_read_by_owner_and_reader) {
  Space space;
  const uint64_t version = put(space, "name", "value");
  const auto entry = space.table().find(bytes_of("name"));
  ASSERT_TRUE(entry);
  EXPECT_EQ(text_of(entry->value), "value");
  EXPECT_EQ(entry->version, version);
  const Read read = direct_get(space, "name");
  EXPECT_EQ(read.code, Code::kOk);
  EXPECT_EQ(read.value, "value");
  EXPECT_EQ(read.version, version);
  EXPECT_EQ(direct_get(space, "nome").code, Code::kNotFound);
}

TEST(Table, versions_grow_and_are_never_used_twice_across_restarts) {
  Space space;
  uint64_t last = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 100; ++i) {
      const uint64_t version = put(space, "k", "v");
      EXPECT_GT(version, last);
      last = version;
    }
    ASSERT_TRUE(space.table().erase(bytes_of("k"), 0));
    space.restart();
  }
}

TEST(Table, conditions_are_kept) {
  Space space;
  EXPECT_EQ(space.table().put(bytes_of("k"), bytes_of("a"), {.if_version = 7}).code(), Code::kNotFound);
  const uint64_t first = put(space, "k", "a", {.if_absent = true});
  EXPECT_EQ(space.table().put(bytes_of("k"), bytes_of("b"), {.if_absent = true}).code(), Code::kExists);
  EXPECT_EQ(space.table().put(bytes_of("k"), bytes_of("b"), {.if_version = first + 1}).code(),
            Code::kVersionMismatch);
  const uint64_t second = put(space, "k", "b", {.if_version = first});
  EXPECT_EQ(space.table().erase(bytes_of("k"), first).code(), Code::kVersionMismatch);
  EXPECT_EQ(direct_get(space, "k").value, "b");
  EXPECT_EQ(space.table().erase(bytes_of("k"), second).value(), second);
  EXPECT_EQ(space.table().erase(bytes_of("k"), 0).code(), Code::kNotFound);
  EXPECT_EQ(direct_get(space, "k").code, Code::kNotFound);
}

TEST(Table, sizes_around_every_limit_are_read_back) {
  Space space({.chunks = 64, .chunks_max = 64});
  const std::vector<uint64_t> sizes = {0,      1,      7,      8,      64,      4095,          4096,   4097,
                                       65'000, 65'519, 65'520, 65'536, 1 << 20, (1 << 20) + 1, 5 << 20};
  Prng prng(1);
  for (const size_t key_bytes : {size_t{1}, size_t{15}, size_t{300}, kKeyBytesMax}) {
    for (const uint64_t value_bytes : sizes) {
      std::string key(key_bytes, 'k');
      std::string value(value_bytes, '\0');
      for (char& c : value) c = static_cast<char>(prng.next());
      put(space, key, value);
      const Read read = direct_get(space, key);
      EXPECT_EQ(read.code, Code::kOk);
      EXPECT_TRUE(read.value == value) << key_bytes << " " << value_bytes;
    }
  }
  EXPECT_FALSE(space.table().validate());
}

// Method: random operations beside a map, restarts in between; every now and then everything is compared, on
// both paths, and the structure is checked.
TEST(Table, behaves_like_a_map_through_growth_and_restarts) {
  Prng prng(7);
  Space space({.chunks = 40, .chunks_max = 64});
  std::map<std::string, std::string> model;
  for (int step = 0; step < 60'000; ++step) {
    const std::string key = key_number(prng.below(20'000));
    if (prng.chance(0.75)) {
      std::string value(prng.below(120), static_cast<char>('a' + prng.below(26)));
      put(space, key, value);
      model[key] = value;
    } else {
      EXPECT_EQ(space.table().erase(bytes_of(key), 0).has_value(), model.erase(key) == 1);
    }
    if (step % 15'000 == 14'999) {
      if (prng.chance(0.7)) space.restart();
      ASSERT_EQ(space.table().stats().entries, model.size());
      for (const auto& [name, value] : model) ASSERT_EQ(direct_get(space, name).value, value);
      const auto damage = space.table().validate();
      ASSERT_FALSE(damage) << damage->what;
    }
  }
  EXPECT_GT(space.table().stats().buckets, 1'000U);
}

TEST(Table, a_scan_visits_every_entry_that_stays_while_the_table_grows) {
  Space space({.chunks = 30, .chunks_max = 64});
  for (uint64_t i = 0; i < 500; ++i) put(space, key_number(i), "v");
  MappedMemory memory(space.base(), space.bytes(), nullptr);
  DirectReader reader(memory, space.clock());
  std::map<std::string, int> seen;
  uint64_t cursor = 0;
  uint64_t next = 500;
  int pages = 0;
  do {
    const auto page = reader.scan(
        cursor, 10, [&](std::span<const std::byte> key, uint64_t, uint64_t) { ++seen[text_of(key)]; });
    ASSERT_EQ(page.code, Code::kOk);
    cursor = page.next;
    for (int i = 0; pages < 100 && i < 40; ++i) put(space, key_number(next++), "v");
    if (++pages % 7 == 0) space.restart();
  } while (cursor != 0);
  for (uint64_t i = 0; i < 500; ++i) EXPECT_EQ(seen[key_number(i)], 1) << i;
}

TEST(ScanCursor, any_cursor_ends) {
  Prng prng(3);
  for (int round = 0; round < 1'000; ++round) {
    const uint64_t count = 1 + prng.below(100'000);
    uint64_t cursor = prng.next();
    for (uint64_t step = 0;; ++step) {
      ASSERT_LE(step, count);
      const ScanStep at = scan_step(cursor, count);
      ASSERT_LT(at.bucket, count);
      if (at.next == 0) break;
      ASSERT_GT(at.next << kCursorShardBits, cursor << kCursorShardBits);
      cursor = at.next;
      if (step > 50) break;
    }
  }
}

TEST(Table, an_entry_is_gone_when_its_time_has_come_and_its_memory_is_swept) {
  Space space;
  const uint64_t at = space.clock().wall_ns() + kSecond_ns;
  put(space, "short", "v", {.expires_wall_ns = at});
  put(space, "long", "v");
  EXPECT_EQ(direct_get(space, "short").code, Code::kOk);
  space.clock().advance_ns(kSecond_ns);
  EXPECT_EQ(direct_get(space, "short").code, Code::kNotFound);
  EXPECT_EQ(space.table().find(bytes_of("short")).code(), Code::kNotFound);
  EXPECT_EQ(space.table().erase(bytes_of("short"), 0).code(), Code::kNotFound);
  EXPECT_EQ(space.table().stats().entries, 2U);
  EXPECT_EQ(space.table().sweep(64), 1U);
  EXPECT_EQ(space.table().stats().entries, 1U);
  EXPECT_EQ(space.table().stats().expiring_entries, 0U);
  put(space, "short", "again", {.if_absent = true});
  EXPECT_EQ(direct_get(space, "long").value, "v");
}

// Beside the truth, which is looked up among what was put: never later than that, and exact behind a round.
TEST(Table, knows_before_which_moment_no_entry_expires) {
  Space space;
  Prng prng(16);
  std::map<std::string, uint64_t> times;
  const auto first_of = [&times] {
    uint64_t first = kForever_ns;
    for (const auto& [key, at] : times) first = std::min(first, at);
    return first;
  };
  EXPECT_EQ(space.table().stats().first_expiry.ns(), kForever_ns);
  for (int step = 0; step < 20'000; ++step) {
    const std::string key = key_number(prng.below(3'000));
    const uint64_t now_ns = space.clock().wall_ns();
    switch (prng.below(8)) {
      case 0:
        space.clock().advance_ns(prng.below(kSecond_ns));
        break;
      case 1:
        (void)space.table().sweep(1 + prng.below(space.table().stats().buckets));
        break;
      case 2:
        (void)space.table().erase(bytes_of(key), 0);
        times.erase(key);
        break;
      case 3:
        put(space, key, "stays");
        times.erase(key);
        break;
      default:
        times[key] = now_ns + 1 + prng.below(10 * kSecond_ns);
        put(space, key, "goes", {.expires_wall_ns = times[key]});
    }
    std::erase_if(times, [&](const auto& entry) { return entry.second <= space.clock().wall_ns(); });
    ASSERT_LE(space.table().stats().first_expiry.ns(), first_of()) << "step " << step;
  }
  ASSERT_FALSE(times.empty());
  const Table::Stats& stats = space.table().stats();
  (void)space.table().sweep(2 * (stats.buckets + stats.overflow_lines));
  EXPECT_EQ(stats.first_expiry.ns(), first_of());
}

TEST(Table, a_full_space_says_no_space_and_loses_nothing) {
  Space space({.chunks = 8, .chunks_max = 8});
  std::map<std::string, std::string> model;
  Code code = Code::kOk;
  for (uint64_t i = 0; code == Code::kOk; ++i) {
    const std::string key = key_number(i);
    const std::string value(500 + i % 100, 'x');
    code = space.table().put(bytes_of(key), bytes_of(value), {}).code();
    if (code == Code::kOk) model[key] = value;
  }
  EXPECT_EQ(code, Code::kNoSpace);
  EXPECT_GT(model.size(), 6'000U);
  for (const auto& [key, value] : model) ASSERT_EQ(direct_get(space, key).value, value);
  EXPECT_FALSE(space.table().validate());
  // What is erased can be used again, also by other sizes.
  for (const auto& [key, value] : model) ASSERT_TRUE(space.table().erase(bytes_of(key), 0));
  space.heap().reclaim();
  for (uint64_t i = 0; i < 2'000; ++i) put(space, key_number(i), std::string(2'000, 'y'));
  EXPECT_FALSE(space.table().validate());
}

TEST(Table, memory_added_later_is_used) {
  Space space({.chunks = 4, .chunks_max = 32});
  uint64_t i = 0;
  while (space.table().put(bytes_of(key_number(i)), bytes_of(std::string(1'000, 'x')), {})) ++i;
  space.add_chunks(8);
  for (uint64_t more = 0; more < 6'000; ++more) put(space, key_number(i + more), std::string(1'000, 'x'));
  space.restart();
  EXPECT_EQ(space.table().stats().entries, i + 6'000);
}

TEST(Table, a_draft_is_invisible_until_it_is_committed) {
  Space space;
  const uint64_t live = space.heap().stats().bytes_live;
  auto draft = space.table().begin(space.table().hashed(bytes_of("k")), 100'000, {});
  ASSERT_TRUE(draft);
  space.table().fill(*draft, 0, bytes_of(std::string(50'000, 'a')));
  EXPECT_EQ(direct_get(space, "k").code, Code::kNotFound);
  space.table().fill(*draft, 50'000, bytes_of(std::string(50'000, 'b')));
  ASSERT_TRUE(space.table().commit(*draft, {}));
  EXPECT_EQ(direct_get(space, "k").value, std::string(50'000, 'a') + std::string(50'000, 'b'));
  auto second = space.table().begin(space.table().hashed(bytes_of("k2")), 100'000, {.if_absent = true});
  ASSERT_TRUE(second);
  put(space, "k2", "was faster");
  EXPECT_EQ(space.table().commit(*second, {.if_absent = true}).code(), Code::kExists);
  ASSERT_TRUE(space.table().erase(bytes_of("k"), 0));
  ASSERT_TRUE(space.table().erase(bytes_of("k2"), 0));
  space.heap().reclaim();
  EXPECT_EQ(space.heap().stats().bytes_live, live);
}

// A client's page, which outlives the owner.
struct PagePins final : PinSource {
  PinTable table{};
  void collect(PinSet& pins) noexcept override { collect_pins(table, pins); }
};

TEST(Table, a_pinned_buffer_keeps_its_bytes) {
  PagePins pins;
  Space space({.pins = &pins});
  PinWriter writer(&pins.table);
  put(space, "k", "first");
  MappedMemory memory(space.base(), space.bytes(), &writer);
  DirectReader reader(memory, space.clock());
  const auto pinned = reader.pin(bytes_of("k"), reader.hash(bytes_of("k")));
  ASSERT_EQ(pinned.found.code, Code::kOk);
  for (int i = 0; i < 1'000; ++i) put(space, "k", "other");
  EXPECT_EQ(std::memcmp(memory.at(pinned.value), "first", 5), 0);
  reader.unpin(pinned.pin);
  for (int i = 0; i < 1'000; ++i) put(space, "k", "other");
  EXPECT_NE(std::memcmp(memory.at(pinned.value), "first", 5), 0)
      << "the buffer is reused once no reader pins it";
}

TEST(Table, what_was_pinned_before_a_restart_keeps_its_bytes_after_it) {
  PagePins pins;
  Space space({.pins = &pins});
  PinWriter writer(&pins.table);
  const std::string large(100'000, 'L');
  put(space, "small", "first");
  put(space, "large", large);
  MappedMemory memory(space.base(), space.bytes(), &writer);
  DirectReader reader(memory, space.clock());
  const auto small = reader.pin(bytes_of("small"), reader.hash(bytes_of("small")));
  const auto extent = reader.pin(bytes_of("large"), reader.hash(bytes_of("large")));
  ASSERT_EQ(extent.found.code, Code::kOk);
  // No slot names them any more, so only the pins tell the next owner of them.
  put(space, "small", "other");
  ASSERT_TRUE(space.table().erase(bytes_of("large"), 0));
  space.restart();
  for (int i = 0; i < 1'000; ++i) {
    put(space, "small", "other");
    put(space, "large", std::string(100'000, 'o'));
  }
  EXPECT_EQ(std::memcmp(memory.at(small.value), "first", 5), 0);
  EXPECT_EQ(std::memcmp(memory.at(extent.value), large.data(), large.size()), 0);
  reader.unpin(small.pin);
  reader.unpin(extent.pin);
  space.heap().reclaim();
  EXPECT_EQ(space.heap().stats().buffers_live, space.table().stats().entries);
  EXPECT_EQ(space.heap().stats().bytes_retired, 0u);
}

TEST(Table, no_lie_about_pins_spoils_a_restart) {
  Prng prng(12);
  PagePins pins;
  Space space({.chunks = 24, .chunks_max = 24, .pins = &pins});
  // A value that looks like the header of a large buffer wherever one begins to read.
  const uint64_t header = Lengths{.value_bytes = 70'000, .key_bytes = 5, .flags = 0}.word();
  std::string headers;
  while (headers.size() < 300'000) headers.append(reinterpret_cast<const char*>(&header), sizeof(header));
  uint64_t held = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<Offset> former;
    put(space, "big", headers);
    const Offset big = space.table().find(bytes_of("big"))->buffer;
    for (uint64_t i = 0; i < 300; ++i) {
      const std::string key = key_number(prng.below(500));
      put(space, key, std::string(prng.below(400), 'v'));
      former.push_back(space.table().find(bytes_of(key))->buffer);
    }
    ASSERT_TRUE(space.table().erase(bytes_of("big"), 0));
    pins.table.count = UINT64_MAX;
    for (PinSlot& slot : pins.table.slot) {
      const uint64_t draw = prng.below(4);
      slot.offset = draw == 0   ? former[prng.below(former.size())].value
                    : draw == 1 ? big.value + prng.below(100) * 4096
                    : draw == 2 ? big.value + prng.below(headers.size() / 16) * 16
                                : prng.next() >> prng.below(64);
    }
    space.restart();
    EXPECT_FALSE(space.table().validate().has_value());
    held += space.heap().stats().buffers_live - space.table().stats().entries;
  }
  EXPECT_GT(held, 100u);
  pins.table = {};
  space.heap().reclaim();
  EXPECT_EQ(space.heap().stats().buffers_live, space.table().stats().entries);
  EXPECT_EQ(space.heap().stats().bytes_retired, 0u);
}

// Any word of a recovered space may be damaged; recovery and a direct reader answer, whatever they find.
TEST(Table, damage_is_answered_by_a_code) {
  Prng prng(11);
  Space space({.chunks = 24, .chunks_max = 24});
  for (uint64_t i = 0; i < 3'000; ++i) put(space, key_number(i), std::string(i % 200, 'v'));
  put(space, "big", std::string(3 << 20, 'b'));
  const std::vector<std::byte> good(space.base(), space.base() + space.bytes());
  int corrupt = 0;
  for (int round = 0; round < 200; ++round) {
    std::memcpy(space.base(), good.data(), good.size());
    for (int words = 0; words < 20; ++words) {
      // The header and directory more often than the many buffers.
      const uint64_t at = prng.chance(0.3) ? prng.below(1'024) * 8 : prng.below(good.size() / 8) * 8;
      const uint64_t word = prng.chance(0.5) ? prng.next() : prng.next() >> prng.below(64);
      std::memcpy(space.base() + at, &word, 8);
    }
    if (!Heap::check_header({space.base(), space.bytes()})) continue;
    for (int reads = 0; reads < 20; ++reads) (void)direct_get(space, key_number(prng.below(3'000)));
    if (space.try_restart().code() == Code::kCorrupt) ++corrupt;
  }
  EXPECT_GT(corrupt, 10);
}

}  // namespace
}  // namespace refract::kv::table_test
