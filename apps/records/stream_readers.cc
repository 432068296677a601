// SPDX-License-Identifier: Apache-2.0
#include "apps/records/stream_readers.h"

#include <fmt/format.h>

namespace refract::records {

Next StreamReader::complain(uint64_t line, std::string what, std::string expected) noexcept {
  bad_ = {.file = name_, .line = line, .what = std::move(what), .expected = std::move(expected)};
  return Next::kBad;
}

Next StreamReader::end() noexcept {
  if (input_.error() == 0 || failure_told_) return Next::kEnd;
  failure_told_ = true;
  return complain(line_, "reading failed here: " + errno_text(input_.error()), "more; the rest was not read");
}

bool StreamReader::check_limits(const Record& record) noexcept {
  const uint64_t line = record.place.line;
  if (record.key.empty()) {
    complain(line, "the key is empty", fmt::format("1 to {} bytes", limits_.key_bytes_max));
  } else if (record.key.size() > limits_.key_bytes_max) {
    complain(line, fmt::format("the key has {} bytes", record.key.size()),
             fmt::format("1 to {}", limits_.key_bytes_max));
  } else if (record.value.size() > limits_.value_bytes_max) {
    complain(line, fmt::format("the value has {} bytes", record.value.size()),
             fmt::format("at most {}", limits_.value_bytes_max));
  } else {
    return true;
  }
  return false;
}

}  // namespace refract::records
