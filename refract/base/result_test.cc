// SPDX-License-Identifier: Apache-2.0
#include "refract/base/result.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace refract {
namespace {

struct Row {
  Code code;
  unsigned number;
  std::string_view text;
};

// Written out by hand: texts and numbers are on the wire and in people's scripts, so a change of the table
// must be repeated here. A new code adds its row.
const std::vector<Row> kPinned = {
    {Code::kOk, 0, "ok"},
    {Code::kNotFound, 1, "not_found"},
    {Code::kExists, 2, "exists"},
    {Code::kVersionMismatch, 3, "version_mismatch"},
    {Code::kInvalidArgument, 4, "invalid_argument"},
    {Code::kTooLarge, 5, "too_large"},
    {Code::kNoSpace, 6, "no_space"},
    {Code::kDeadlineExceeded, 7, "deadline_exceeded"},
    {Code::kIndeterminate, 8, "indeterminate"},
    {Code::kUnavailable, 9, "unavailable"},
    {Code::kOverloaded, 10, "overloaded"},
    {Code::kInvalidated, 11, "invalidated"},
    {Code::kAccessDenied, 12, "access_denied"},
    {Code::kUnsupported, 13, "unsupported"},
    {Code::kMalformed, 14, "malformed"},
    {Code::kCorrupt, 15, "corrupt"},
    {Code::kForked, 16, "forked"},
    {Code::kInUse, 17, "in_use"},
    {Code::kSystem, 18, "system"},
    {Code::kWrongShard, 19, "wrong_shard"},
    {Code::kCompareFailed, 20, "compare_failed"},
    {Code::kCancelled, 21, "cancelled"},
    {Code::kReadOnly, 22, "read_only"},
    {Code::kAway, 23, "away"},
    {Code::kConflict, 24, "conflict"},
};

TEST(Codes, keep_their_numbers_and_texts) {
  for (const Row& row : kPinned) {
    EXPECT_EQ(static_cast<unsigned>(row.code), row.number);
    EXPECT_EQ(text(row.code), row.text);
    EXPECT_EQ(code_from_wire(row.number), row.code);
    EXPECT_EQ(info(row.code).code, row.code);
  }
}

TEST(Codes, are_all_pinned_here) {
  const size_t rows = 0
#define REFRACT_CODE(name, number, text, breaks, retry, sentence) +1
#include "refract/base/codes.def"
#undef REFRACT_CODE
      ;
  EXPECT_EQ(kPinned.size(), rows);
}

TEST(Codes, have_texts_that_differ_and_sentences) {
  std::set<std::string_view> texts;
  for (const Row& row : kPinned) {
    EXPECT_TRUE(texts.insert(text(row.code)).second) << row.text;
    EXPECT_GT(info(row.code).sentence.size(), 10u) << row.text;
    EXPECT_EQ(info(row.code).sentence.back() == '.', false) << row.text;
  }
}

TEST(Codes, from_a_foreign_number_are_malformed) {
  for (const uint64_t number : {uint64_t{kPinned.size()}, uint64_t{255}, uint64_t{256}, UINT64_MAX}) {
    EXPECT_EQ(code_from_wire(number), Code::kMalformed) << number;
  }
  EXPECT_EQ(info(static_cast<Code>(200)).code, Code::kMalformed);
}

Result<int> half(int value) {
  if (value % 2 != 0) return fail(Code::kInvalidArgument);
  return value / 2;
}

Result<std::string> quarter(int value) {
  const Result<int> once = half(value);
  if (!once) return fail(once.error());
  const Result<int> twice = half(*once);
  if (!twice) return fail(twice.error());
  return std::to_string(*twice);
}

TEST(ResultOfAnything, carries_its_value_or_its_code) {
  EXPECT_EQ(half(8).code(), Code::kOk);
  EXPECT_EQ(*half(8), 4);
  EXPECT_EQ(half(7).code(), Code::kInvalidArgument);
  EXPECT_EQ(*quarter(8), "2");
}

TEST(ResultOfAnything, keeps_the_place_of_the_first_failure_when_handed_on) {
  const Result<std::string> failed = quarter(6);
  ASSERT_FALSE(failed);
  EXPECT_STREQ(failed.error().where.function_name(), half(7).error().where.function_name());
}

TEST(ResultOfAnything, is_small) {
  EXPECT_EQ(sizeof(Error), 16u);
  EXPECT_LE(sizeof(Result<>), 24u);
  EXPECT_LE(sizeof(Result<uint64_t>), 24u);
}

}  // namespace
}  // namespace refract
