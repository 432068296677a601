// SPDX-License-Identifier: Apache-2.0
#include "apps/chains/words.h"

#include <algorithm>
#include <array>

#include "apps/chains/chain_text.h"

namespace refract::chains {
namespace {

using prism::Comparison;
using prism::Flag;
using prism::Opcode;

constexpr std::array kOperations = {
    WordOfOperation{"read", Opcode::kRead,
                    "read ADDRESS BYTES [indirect [bounded] | indirect slot] [redirect scratch+N]"},
    WordOfOperation{"write", Opcode::kWrite, "write ADDRESS DATA | write ADDRESS [SOURCE] BYTES"},
    WordOfOperation{"allocate", Opcode::kAllocate,
                    "allocate STORE/LIST DATA [slot [template WORD]] [redirect scratch+N [owned]]"},
    WordOfOperation{"cas", Opcode::kCompareSwap,
                    "cas ADDRESS eq|gt|lt compare OPERAND swap OPERAND [compare-mask DATA] [swap-mask DATA]"},
    WordOfOperation{"add", Opcode::kFetchAdd, "add ADDRESS NUMBER"},
};

// Those that the line's own words set are last: no word of theirs is a flag's.
constexpr std::array kFlags = {
    WordOfFlag{"indirect", Flag::kIndirect},
    WordOfFlag{"bounded", Flag::kBounded},
    WordOfFlag{"slot", Flag::kSlotWord},
    WordOfFlag{"conditional", Flag::kConditional},
    WordOfFlag{"redirect", Flag::kRedirect},
    WordOfFlag{"retire", Flag::kRetire},
    WordOfFlag{"owned", Flag::kOwned},
    WordOfFlag{"data-indirect", Flag::kDataIndirect},
    WordOfFlag{"compare-indirect", Flag::kCompareIndirect},
    WordOfFlag{"masked", Flag::kMasked},
};
constexpr uint16_t kOfTheLine = Flag::kDataIndirect | Flag::kCompareIndirect | Flag::kMasked;

constexpr std::array<std::string_view, 12> kOtherWords = {"let",  "in",           "template",  "compare",
                                                          "swap", "compare-mask", "swap-mask", "bytes",
                                                          "eq",   "gt",           "lt",        kScratchName};

}  // namespace

const WordOfOperation* operation_named(std::string_view word) noexcept {
  const auto* row = std::ranges::find(kOperations, word, &WordOfOperation::word);
  return row == kOperations.end() ? nullptr : row;
}

const WordOfFlag* flag_named(std::string_view word) noexcept {
  const auto* row = std::ranges::find(kFlags, word, &WordOfFlag::word);
  return row == kFlags.end() || (row->flag & kOfTheLine) != 0 ? nullptr : row;
}

std::string_view word_of(Opcode opcode) noexcept {
  const auto* row = std::ranges::find(kOperations, opcode, &WordOfOperation::opcode);
  return row == kOperations.end() ? "?" : row->word;
}

std::string_view word_of(Comparison comparison) noexcept {
  switch (comparison) {
    case Comparison::kEqual:
      return "eq";
    case Comparison::kGreater:
      return "gt";
    case Comparison::kLess:
      return "lt";
  }
  return "?";
}

std::string words_of_flags(uint16_t flags) {
  std::string out;
  for (const WordOfFlag& row : kFlags) {
    if ((flags & row.flag) == 0) continue;
    if (!out.empty()) out += ", ";
    out += row.word;
  }
  return out;
}

std::string flag_words(Opcode opcode) {
  std::string out = words_of_flags(static_cast<uint16_t>(prism::known_flags(opcode) & ~kOfTheLine));
  if (opcode == Opcode::kAllocate) out += ", template";
  if (opcode == Opcode::kCompareSwap) out += ", compare-mask, swap-mask, bytes";
  return out;
}

std::string_view usage_of(Opcode opcode) noexcept {
  const auto* row = std::ranges::find(kOperations, opcode, &WordOfOperation::opcode);
  return row == kOperations.end() ? "" : row->usage;
}

bool is_word_of_the_language(std::string_view word) noexcept {
  return operation_named(word) != nullptr ||
         std::ranges::find(kFlags, word, &WordOfFlag::word) != kFlags.end() ||
         std::ranges::find(kOtherWords, word) != kOtherWords.end();
}

}  // namespace refract::chains
