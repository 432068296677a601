// SPDX-License-Identifier: Apache-2.0
// The words of the language of chains.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/prism/operation.h"

namespace refract::chains {

struct WordOfOperation {
  std::string_view word;
  prism::Opcode opcode;
  std::string_view usage;
};
struct WordOfFlag {
  std::string_view word;
  uint16_t flag;
};

// Null: there is none.
[[nodiscard]] const WordOfOperation* operation_named(std::string_view word) noexcept;
[[nodiscard]] const WordOfFlag* flag_named(std::string_view word) noexcept;

[[nodiscard]] std::string_view word_of(prism::Opcode opcode) noexcept;
[[nodiscard]] std::string_view word_of(prism::Comparison comparison) noexcept;
// The flags that are set, with commas between; those that the line spells otherwise, too.
[[nodiscard]] std::string words_of_flags(uint16_t flags);
// "indirect, bounded, redirect": what may stand behind this operation.
[[nodiscard]] std::string flag_words(prism::Opcode opcode);
// Names may not be any of these.
[[nodiscard]] bool is_word_of_the_language(std::string_view word) noexcept;

}  // namespace refract::chains
