// SPDX-License-Identifier: Apache-2.0
// What refract txn says of the writes that it has made. Costs nothing.
#include "apps/refract/transactions/batch_text.h"

#include <gtest/gtest.h>

#include <vector>

#include "refract/documents/json.h"

namespace refract::cli {
namespace {

const std::vector<TextBatch::Line> kWrites = {
    {.number = 1, .verb = "add", .key = "alice"},
    {.number = 2, .verb = "put", .key = "order"},
    {.number = 3, .verb = "erase", .key = "cart"},
};

TEST(BatchText, sums_and_versions_are_told) {
  const std::vector<Change> changes = {{.version = 7, .sum = -10}, {.version = 8}, {.version = 9}};
  EXPECT_EQ(text_of(kWrites, changes, /*verbose=*/false), "alice -10\n");
  EXPECT_EQ(text_of(kWrites, changes, /*verbose=*/true),
            "alice -10\nput order version 8\nerase cart version 9\n");
  EXPECT_NE(documents::to_json_line(document_of(kWrites, changes)).find("\"sum\":-10"), std::string::npos);
}

// Where the answer was lost, and the node says only that it has happened, a sum of 0 would be invented.
TEST(BatchText, no_sum_is_told_that_is_not_known) {
  const std::vector<Change> changes(3);
  EXPECT_EQ(text_of(kWrites, changes, /*verbose=*/true),
            "alice was added to; its sum is not known: the answer was lost\n"
            "put order its version is not known: the answer was lost\n"
            "erase cart nothing was there, or the answer was lost\n");
  EXPECT_EQ(documents::to_json_line(document_of(kWrites, changes)).find("sum"), std::string::npos);
}

}  // namespace
}  // namespace refract::cli
