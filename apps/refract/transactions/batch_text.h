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

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/client/transactions/batch.h"
#include "refract/documents/value.h"

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

// What a write has made, as Batch::version() and sum() tell it.
struct Change {
  uint64_t version = 0;
  int64_t sum = 0;

  // Not where the answer was lost, and the node has said only that all of it happened.
  [[nodiscard]] bool has_sum() const noexcept { return version != 0; }
};
// For people: a line for each add, with `verbose` for each write.
[[nodiscard]] std::string text_of(std::span<const TextBatch::Line> writes, std::span<const Change> changes,
                                  bool verbose);
[[nodiscard]] documents::Value document_of(std::span<const TextBatch::Line> writes,
                                           std::span<const Change> changes);

// kInvalidArgument names the line: "changes.txt:3: ...".
[[nodiscard]] Reported<TextBatch> parse_batch(std::string_view text, std::string_view name);

}  // namespace refract::cli
