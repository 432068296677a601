// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/changes.h"

#include <gtest/gtest.h>

#include <limits>

#include "refract/txn/attempts.h"

namespace refract::txn {
namespace {

using kv::ConditionKind;
using kv::WriteKind;

TEST(Changes, reads_become_conditions_and_the_last_write_of_a_key_counts) {
  Changes changes;
  EXPECT_EQ(changes.take_read("a", Code::kOk, 7, "5").value(), "5");
  EXPECT_EQ(changes.take_read("b", Code::kNotFound, 0, "").error().code, Code::kNotFound);
  EXPECT_EQ(changes.put("a", "1", 0), Code::kOk);
  EXPECT_EQ(changes.erase("a"), Code::kOk);
  EXPECT_EQ(changes.put("c", "x", 30), Code::kOk);
  const Changes::Request request = changes.request();
  ASSERT_EQ(request.conditions.size(), 2U);
  EXPECT_EQ(request.conditions[0].kind, ConditionKind::kVersion);
  EXPECT_EQ(request.conditions[0].version, 7U);
  EXPECT_EQ(request.conditions[1].kind, ConditionKind::kAbsent);
  ASSERT_EQ(request.writes.size(), 2U);
  EXPECT_EQ(request.writes[0].kind, WriteKind::kErase);
  EXPECT_EQ(request.writes[1].ttl_ns, 30U);
}

TEST(Changes, a_second_read_with_another_version_ends_it) {
  Changes changes;
  EXPECT_TRUE(changes.note_read("a", 7));
  EXPECT_TRUE(changes.note_read("a", 7));
  EXPECT_FALSE(changes.is_doomed());
  EXPECT_EQ(changes.take_look("a", Code::kNotFound, 0).error().code, Code::kConflict);
  EXPECT_TRUE(changes.is_doomed());
  changes.clear();
  EXPECT_FALSE(changes.is_doomed());
}

TEST(Changes, what_is_known_is_read_without_a_look_and_counts_as_read_together) {
  Changes changes;
  changes.know({{"a", {.version = 7, .value = "1"}}, {"b", {}}});
  EXPECT_TRUE(changes.has_at_once("b"));
  EXPECT_FALSE(changes.has_at_once("c"));
  EXPECT_EQ(changes.at_once("a")->value(), "1");
  EXPECT_EQ(changes.at_once("b")->code(), Code::kNotFound);
  EXPECT_TRUE(changes.presence_at_once("a")->value());
  EXPECT_TRUE(changes.are_known());
  EXPECT_EQ(changes.request().conditions[0].version, 7U);
  EXPECT_EQ(changes.take_read("c", Code::kOk, 9, "3").value(), "3");
  EXPECT_FALSE(changes.are_known());
  // It stays for the next run, and what was read before it is known counts as read so.
  changes.clear();
  EXPECT_EQ(changes.take_read("a", Code::kOk, 7, "1").value(), "1");
  EXPECT_EQ(changes.at_once("a")->value(), "1");
  EXPECT_FALSE(changes.are_known());
  EXPECT_EQ(changes.add("b", 5), Code::kOk);
  EXPECT_EQ(changes.at_once("b")->value(), "5");
  // And not for the one behind it, which would meet the same again.
  changes.clear();
  EXPECT_FALSE(changes.has_at_once("a"));
}

TEST(Changes, adds_come_together_with_what_was_written_before) {
  Changes changes;
  EXPECT_EQ(changes.add("n", 2), Code::kOk);
  EXPECT_EQ(changes.add("n", 3), Code::kOk);
  EXPECT_EQ(changes.find("n")->addend, 5);
  EXPECT_EQ(changes.take_read("n", Code::kOk, 4, "10").value(), "15");
  EXPECT_EQ(changes.put("m", "10", 9), Code::kOk);
  EXPECT_EQ(changes.add("m", -1), Code::kOk);
  EXPECT_EQ(changes.at_once("m")->value(), "9");
  EXPECT_EQ(changes.find("m")->ttl_ns, 9U);
  EXPECT_EQ(changes.erase("m"), Code::kOk);
  EXPECT_FALSE(changes.presence_at_once("m")->value());
  EXPECT_EQ(changes.add("m", 1), Code::kOk);
  EXPECT_EQ(changes.at_once("m")->value(), "1");
  for (const char* no_number : {"", "text", "1 ", "007", "-0", "9223372036854775808"}) {
    EXPECT_EQ(changes.put("t", no_number, 0), Code::kOk);
    EXPECT_EQ(changes.add("t", 1), Code::kInvalidArgument) << no_number;
    EXPECT_EQ(changes.at_once("t")->value(), no_number);
    EXPECT_EQ(changes.take_read("n", Code::kOk, 4, no_number).code(), Code::kInvalidArgument) << no_number;
  }
  EXPECT_EQ(changes.take_read("n", Code::kOk, 4, "9223372036854775807").code(), Code::kInvalidArgument);
  EXPECT_EQ(changes.add("l", std::numeric_limits<int64_t>::max()), Code::kOk);
  EXPECT_EQ(changes.add("l", 1), Code::kInvalidArgument);
}

TEST(Changes, too_much_is_refused_and_leaves_what_was_there) {
  Changes changes;
  const std::string large(kv::kBatchBytesMax - 10, 'x');
  EXPECT_EQ(changes.put("a", large, 0), Code::kOk);
  EXPECT_EQ(changes.put("b", std::string(20, 'y'), 0), Code::kTooLarge);
  EXPECT_EQ(changes.keys(), 1U);
  changes.clear();
  for (size_t i = 0; i < kv::kBatchKeysMax; ++i) {
    ASSERT_EQ(changes.put("key " + std::to_string(i), "", 0), Code::kOk);
  }
  EXPECT_EQ(changes.put("one more", "", 0), Code::kTooLarge);
}

TEST(Changes, of_one_key_that_is_put_are_a_put_under_a_condition) {
  Changes changes;
  EXPECT_FALSE(changes.only_put());
  ASSERT_EQ(changes.put("a", "1", 5), Code::kOk);
  ASSERT_TRUE(changes.only_put());
  EXPECT_EQ(changes.only_put()->if_version, 0U);
  EXPECT_FALSE(changes.only_put()->if_absent);
  EXPECT_EQ(changes.only_put()->ttl_ns, 5U);
  ASSERT_TRUE(changes.note_read("a", 7));
  EXPECT_EQ(changes.only_put()->if_version, 7U);
  ASSERT_TRUE(changes.note_read("b", 7));
  EXPECT_FALSE(changes.only_put()) << "another key was read";
  changes.clear();
  ASSERT_TRUE(changes.note_read("a", 0));
  EXPECT_FALSE(changes.only_put()) << "nothing is written";
  ASSERT_EQ(changes.add("a", 1), Code::kOk);
  EXPECT_FALSE(changes.only_put()) << "the node adds";
  ASSERT_EQ(changes.put("a", "2", 0), Code::kOk);
  ASSERT_TRUE(changes.only_put());
  EXPECT_TRUE(changes.only_put()->if_absent);
  EXPECT_EQ(changes.only_put()->value, "2");
}

TEST(Attempts, pauses_grow_and_end_with_the_time) {
  Attempts attempts(100, kSecond_ns, 1);
  EXPECT_EQ(attempts.pause(100), 0U);
  uint64_t longest = 0;
  for (int i = 0; i < 200; ++i) {
    const auto pause = attempts.pause(100);
    ASSERT_TRUE(pause);
    longest = std::max(longest, *pause);
  }
  EXPECT_GT(longest, kMillisecond_ns);
  EXPECT_LT(longest, 5 * kMillisecond_ns);
  EXPECT_FALSE(attempts.pause(100 + kSecond_ns));
}

}  // namespace
}  // namespace refract::txn
