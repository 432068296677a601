// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/words.h"

#include <algorithm>

#include "refract/kv/functions/text.h"

namespace refract::doors::redis {

bool is(std::string_view word, std::string_view in_lower_letters) noexcept {
  return std::ranges::equal(word, in_lower_letters, [](char one, char lower) {
    return (one >= 'A' && one <= 'Z' ? one + ('a' - 'A') : one) == lower;
  });
}

bool is_option(std::string_view word, std::string_view in_lower_letters) noexcept {
  return is(word.substr(0, word.find('\0')), in_lower_letters);
}

std::optional<int64_t> integer_of(std::string_view word) noexcept {
  // Lengths and counts are mostly of one or two digits.
  const auto digit_at = [word](size_t i) { return static_cast<unsigned>(word[i]) - '0'; };
  if (word.size() == 1 && digit_at(0) <= 9) return digit_at(0);
  if (word.size() == 2 && digit_at(0) - 1 <= 8 && digit_at(1) <= 9) return 10 * digit_at(0) + digit_at(1);
  return kv::functions::integer_in(word);
}

}  // namespace refract::doors::redis
