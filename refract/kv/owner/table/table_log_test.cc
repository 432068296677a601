// SPDX-License-Identifier: Apache-2.0
// What a table tells its log, and what it makes of the log's last record after a crash.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::ManualLog;
using test::text_of;

class TableLogTest : public testing::Test {
 protected:
  TableLogTest() { space.table().log_to(&log); }

  [[nodiscard]] Result<uint64_t> put(std::string_view key, std::string_view value,
                                     const PutOptions& options = {}) {
    return space.table().put(bytes_of(key), bytes_of(value), options);
  }
  [[nodiscard]] std::string value_of(std::string_view key) {
    const auto entry = space.table().find(bytes_of(key));
    return entry ? text_of(entry->value) : "nothing";
  }
  void expect_all_buffers_named() {
    space.heap().reclaim();
    EXPECT_EQ(space.heap().stats().buffers_live, space.table().stats().entries);
    EXPECT_FALSE(space.table().validate().has_value());
  }

 public:
  test::Space space{{.chunks = 6, .chunks_max = 8}};
  ManualLog log;
};

TEST_F(TableLogTest, a_change_is_in_the_log_before_anybody_sees_it) {
  std::string seen;
  log.on_append = [&](const ManualLog::Record& record) { seen = value_of(record.key); };
  const auto version = put("key", "first");
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(seen, "nothing");
  EXPECT_EQ(log.records.back().stamp, *version);
  EXPECT_EQ(log.records.back().value, "first");
  ASSERT_TRUE(put("key", "second").has_value());
  EXPECT_EQ(seen, "first");
  ASSERT_TRUE(space.table().erase(bytes_of("key"), 0).has_value());
  EXPECT_EQ(seen, "second");
  EXPECT_EQ(value_of("key"), "nothing");
}

TEST_F(TableLogTest, an_erasure_takes_a_stamp_of_its_own_and_returns_the_version_that_it_erased) {
  const auto version = put("key", "value");
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(space.table().erase(bytes_of("key"), *version).value(), *version);
  EXPECT_EQ(log.records.back().kind, ChangeLog::Kind::kErase);
  const uint64_t erasure = log.records.back().stamp;
  EXPECT_GT(erasure, *version);
  EXPECT_GT(put("key", "again").value(), erasure);
}

TEST_F(TableLogTest, what_an_entry_carries_is_in_its_record) {
  const PutOptions options{.expires_wall_ns = 77, .request = {.client = 5, .sequence = 6}};
  ASSERT_TRUE(put("key", "value", options).has_value());
  const ManualLog::Record& record = log.records.back();
  EXPECT_EQ(record.expires_wall_ns, 77U);
  EXPECT_EQ(record.request, options.request);
  EXPECT_EQ(text_of({space.base() + record.buffer.value, 8}).size(), 8U);
  EXPECT_EQ(space.writer().load(record.buffer), record.stamp);
}

TEST_F(TableLogTest, without_room_in_the_log_nothing_is_changed) {
  ASSERT_TRUE(put("key", "value").has_value());
  const auto draft = space.table().begin(space.table().hashed(bytes_of("key")), 5, {});
  ASSERT_TRUE(draft.has_value());
  space.table().fill(*draft, 0, bytes_of("third"));
  log.room = Code::kOverloaded;
  EXPECT_EQ(put("key", "other").code(), Code::kOverloaded);
  EXPECT_EQ(space.table().erase(bytes_of("key"), 0).code(), Code::kOverloaded);
  EXPECT_EQ(space.table().commit(*draft, {}).code(), Code::kOverloaded);
  EXPECT_EQ(value_of("key"), "value");
  log.room = Code::kOk;
  ASSERT_TRUE(space.table().commit(*draft, {}).has_value()) << "the draft waited";
  EXPECT_EQ(value_of("key"), "third");
  expect_all_buffers_named();
}

TEST_F(TableLogTest, a_log_that_cannot_be_written_makes_the_table_read_only) {
  ASSERT_TRUE(put("key", "value").has_value());
  const auto draft = space.table().begin(space.table().hashed(bytes_of("key")), 5, {});
  ASSERT_TRUE(draft.has_value());
  log.room = Code::kReadOnly;
  EXPECT_EQ(put("key", "other").code(), Code::kReadOnly);
  EXPECT_EQ(space.table().erase(bytes_of("key"), 0).code(), Code::kReadOnly);
  EXPECT_EQ(space.table().begin(space.table().hashed(bytes_of("key")), 5, {}).code(), Code::kReadOnly);
  EXPECT_EQ(space.table().commit(*draft, {}).code(), Code::kReadOnly);
  EXPECT_EQ(value_of("key"), "value");
  expect_all_buffers_named();
}

TEST_F(TableLogTest, a_write_whose_condition_fails_or_that_finds_no_memory_is_not_in_the_log) {
  ASSERT_TRUE(put("key", "value").has_value());
  const size_t before = log.records.size();
  EXPECT_EQ(put("key", "other", {.if_absent = true}).code(), Code::kExists);
  EXPECT_EQ(put("key", "other", {.if_version = 999}).code(), Code::kVersionMismatch);
  EXPECT_EQ(space.table().erase(bytes_of("none"), 0).code(), Code::kNotFound);
  EXPECT_EQ(put("large", std::string(20 << 20, 'x')).code(), Code::kNoSpace);
  EXPECT_EQ(log.records.size(), before);
}

TEST_F(TableLogTest, what_expires_leaves_without_a_word) {
  ASSERT_TRUE(put("key", "value", {.expires_wall_ns = space.clock().wall_ns() + 10}).has_value());
  space.clock().advance_ns(20);
  EXPECT_EQ(space.table().sweep(1'000), 1U);
  EXPECT_EQ(log.records.size(), 1U);
}

TEST_F(TableLogTest, a_buffer_that_the_log_still_needs_is_reused_only_when_it_has_been_read) {
  log.waits = true;
  log.needed_bytes_min = 100;
  const std::string first(200, 'a');
  ASSERT_TRUE(put("key", first).has_value());
  const Offset buffer = log.records.back().buffer;
  ASSERT_TRUE(put("key", "short").has_value());
  EXPECT_EQ(space.table().held_back().count(), 1U);
  EXPECT_GE(space.table().held_back().bytes(), 200U);
  for (int i = 0; i < 200; ++i) {
    log.needed_bytes_min = UINT64_MAX;
    ASSERT_TRUE(put("other", std::string(200, 'b')).has_value());
    space.heap().reclaim();
  }
  const Lengths lengths = Lengths::from_word(space.writer().load(buffer.plus(8)));
  EXPECT_EQ(text_of({space.base() + buffer.value + lengths.value_at(), 200}), first);
  EXPECT_EQ(space.table().release_held_back(), 0U);
  log.confirm_all();
  EXPECT_EQ(space.table().release_held_back(), 1U);
  EXPECT_EQ(space.table().held_back().bytes(), 0U);
  expect_all_buffers_named();
}

TEST_F(TableLogTest, held_back_buffers_come_back_in_the_order_in_which_they_are_read) {
  log.waits = true;
  log.needed_bytes_min = 0;
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(put(key, "value").has_value());
  const uint64_t before = log.records.back().end;
  log.needed_bytes_min = UINT64_MAX;
  // The other way round.
  for (const char* key : {"c", "b", "a"}) ASSERT_TRUE(space.table().erase(bytes_of(key), 0).has_value());
  EXPECT_EQ(space.table().held_back().count(), 3U);
  log.confirmed_position = before - 2'000;
  EXPECT_EQ(space.table().release_held_back(), 1U);
  log.confirmed_position = before - 1'000;
  EXPECT_EQ(space.table().release_held_back(), 1U);
  log.confirmed_position = before;
  EXPECT_EQ(space.table().release_held_back(), 1U);
}

// The server dies between the record and the slot; the next one has the memory as it was then.
class LastRecordTest : public TableLogTest {
 protected:
  LastRecordTest() {
    log.on_append = [this](const ManualLog::Record& record) {
      image.assign(space.base(), space.base() + space.bytes());
      last = record;
    };
  }

  struct Restarted {
    test::NoPins pins;
    Writer writer;
    Heap heap;
    Table table;
    Restarted(std::byte* base, uint64_t bytes, const Clock& clock)
        : writer(base), heap(writer, pins), table(writer, heap, clock) {
      heap.add({0}, bytes);
    }
  };
  // As of the last record; with the buffer named as it is for a large value, or with a copy of the value.
  [[nodiscard]] std::unique_ptr<Restarted> restart(bool names_buffer) {
    memory = std::vector<uint64_t>(image.size() / 8 + 8);
    auto* const base =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    std::memcpy(base, image.data(), image.size());
    auto next = std::make_unique<Restarted>(base, image.size(), space.clock());
    ChangeLog::Change change = last.change();
    if (names_buffer) {
      change.buffer = last.buffer;
      change.value = {};
    }
    EXPECT_TRUE(next->table.recover(&change).has_value());
    EXPECT_FALSE(next->table.validate().has_value());
    next->heap.reclaim();
    EXPECT_EQ(next->heap.stats().buffers_live, next->table.stats().entries);
    EXPECT_GT(next->heap.next_stamp(), last.stamp);
    return next;
  }
  void expect_same(std::string_view key) {
    for (const bool names_buffer : {false, true}) {
      const auto next = restart(names_buffer);
      const auto is = next->table.find(bytes_of(key));
      const auto should = space.table().find(bytes_of(key));
      ASSERT_EQ(is.code(), should.code());
      EXPECT_EQ(next->table.stats().entries, space.table().stats().entries);
      EXPECT_EQ(next->table.stats().expiring_entries, space.table().stats().expiring_entries);
      if (!should) continue;
      EXPECT_EQ(is->version, should->version);
      EXPECT_EQ(is->expires_wall_ns, should->expires_wall_ns);
      EXPECT_EQ(is->request, should->request);
      EXPECT_EQ(text_of(is->value), text_of(should->value));
    }
  }

 public:
  std::vector<std::byte> image;
  std::vector<uint64_t> memory;
  ManualLog::Record last;
};

TEST_F(LastRecordTest, an_insert_is_made) {
  ASSERT_TRUE(put("key", "value").has_value());
  expect_same("key");
}

TEST_F(LastRecordTest, a_replacement_is_made_with_all_that_the_entry_carries) {
  ASSERT_TRUE(put("key", "value").has_value());
  ASSERT_TRUE(
      put("key", std::string(70'000, 'x'),
          {.expires_wall_ns = space.clock().wall_ns() + kSecond_ns, .request = {.client = 1, .sequence = 2}})
          .has_value());
  expect_same("key");
}

TEST_F(LastRecordTest, an_erasure_is_made) {
  ASSERT_TRUE(put("key", "value").has_value());
  ASSERT_TRUE(space.table().erase(bytes_of("key"), 0).has_value());
  expect_same("key");
}

TEST_F(LastRecordTest, an_insert_that_needs_a_line_is_made) {
  // All in one bucket's chain: whatever the table's size, these have the same low bits.
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 9; ++i) {
    std::string key = "k" + std::to_string(i);
    if (space.table().hash(bytes_of(key)) % 16 == 3) keys.push_back(std::move(key));
  }
  for (const std::string& key : keys) {
    ASSERT_TRUE(put(key, "value of " + key).has_value());
    expect_same(key);
  }
  EXPECT_GT(space.table().stats().overflow_lines, 0U);
}

TEST_F(LastRecordTest, a_change_that_was_made_is_not_made_again) {
  ASSERT_TRUE(put("key", "value").has_value());
  image.assign(space.base(), space.base() + space.bytes());
  expect_same("key");
}

TEST_F(LastRecordTest, what_was_made_and_has_expired_since_does_not_come_back) {
  const uint64_t expires = space.clock().wall_ns() + 100;
  ASSERT_TRUE(put("key", "value", {.expires_wall_ns = expires}).has_value());
  space.clock().advance_ns(200);
  EXPECT_EQ(space.table().sweep(1'000), 1U);
  space.heap().reclaim();
  // Its buffer is another entry's by now.
  log.on_append = nullptr;
  ASSERT_TRUE(put("yek", "eulav").has_value());
  image.assign(space.base(), space.base() + space.bytes());
  for (const bool names_buffer : {false, true}) {
    const auto next = restart(names_buffer);
    EXPECT_EQ(next->table.find(bytes_of("key")).code(), Code::kNotFound);
    EXPECT_EQ(text_of(next->table.find(bytes_of("yek"))->value), "eulav");
  }
}

}  // namespace
}  // namespace refract::kv
