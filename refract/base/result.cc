// SPDX-License-Identifier: Apache-2.0
#include "refract/base/result.h"

#include <array>

namespace refract {
namespace {

constexpr std::array kCodes = {
#define REFRACT_CODE(name, number, text, breaks, retry, sentence) \
  CodeInfo{Code::name, Breaks::breaks, Retry::retry, text, sentence},
#include "refract/base/codes.def"
#undef REFRACT_CODE
};

constexpr bool numbers_are_rows() {
  for (size_t row = 0; row < kCodes.size(); ++row) {
    if (static_cast<size_t>(kCodes[row].code) != row) return false;
  }
  return true;
}
static_assert(numbers_are_rows(), "codes.def is indexed by number");

}  // namespace

const CodeInfo& info(Code code) noexcept {
  const auto row = static_cast<size_t>(code);
  return kCodes[row < kCodes.size() ? row : static_cast<size_t>(Code::kMalformed)];
}

Code code_from_wire(uint64_t number) noexcept {
  return number < kCodes.size() ? static_cast<Code>(number) : Code::kMalformed;
}

}  // namespace refract
