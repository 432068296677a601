// SPDX-License-Identifier: Apache-2.0
// A batch written as text, a line for each condition and write:
//
//   # pay the order, if it is as it was read
//   if-version order:{42} 17
//   put order:{42} paid
//   put lease:{42} mine 30s
//   add paid 1
//   erase "cart of {42}"
//
// Words stand between spaces; a word in quotes is a JSON string. Threads: one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/client/transactions/batch.h"

namespace refract::cli {

struct TextBatch {
  Batch batch;
  struct Line {
    size_t number = 0;
    std::string verb;
    std::string key;
  };
  // In the order of Batch::failed(): all conditions, then all writes.
  std::vector<Line> conditions;
  std::vector<Line> writes;

  // Null: the batch as a whole.
  [[nodiscard]] const Line* line_of(size_t failed) const noexcept {
    if (failed < conditions.size()) return &conditions[failed];
    const size_t write = failed - conditions.size();
    return write < writes.size() ? &writes[write] : nullptr;
  }
};

// kInvalidArgument names the line: "changes.txt:3: ...".
[[nodiscard]] Reported<TextBatch> parse_batch(std::string_view text, std::string_view name);

}  // namespace refract::cli
