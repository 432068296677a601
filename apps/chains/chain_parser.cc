// SPDX-License-Identifier: Apache-2.0
// Lines, operations and their flags; values and data are in chain_values.cc, what must hold in
// chain_checks.cc.
#include "apps/chains/chain_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "apps/chains/words.h"

#include "refract/prism/limits.h"

namespace refract::chains {

using prism::Comparison;
using prism::Flag;
using prism::Opcode;

Reported<ParsedChain> parse_chain(const SourceText& source) {
  return ChainParser(source).run();
}

Reported<ParsedChain> ChainParser::run() {
  std::string_view rest = source_.text;
  size_t number = 0;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (!line(rest.substr(0, end), ++number)) return report(*fault_);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (chain_.statements.empty()) {
    return report(Code::kInvalidArgument, fmt::format("{}: there is no operation in it", source_.name),
                  "a chain has a line for each operation: read, write, allocate, cas or add");
  }
  return std::move(chain_);
}

bool ChainParser::fail(Position at, std::string_view what, std::string_view hint) {
  if (!fault_) fault_ = source_.error(at, what, hint);
  return false;
}

bool ChainParser::expected(std::string_view what) {
  const Token& token = scanner_->token();
  if (token.kind == TokenKind::kBad) return fail(token.at, token.bytes);
  return fail(token.at, fmt::format("expected {}, found {}", what, token.shown()));
}

bool ChainParser::take(std::string_view word) {
  if (!scanner_->token().is(word)) return false;
  scanner_->advance();
  return true;
}

bool ChainParser::end_of_line(std::string_view what) {
  return scanner_->token().kind == TokenKind::kEnd || expected(what);
}

bool ChainParser::line(std::string_view text, size_t number) {
  scanner_.emplace(text, number);
  const Token first = scanner_->token();
  if (first.kind == TokenKind::kEnd) return true;
  if (take("let")) return let();
  now_ = {};
  now_.at = first.at;
  now_.source = text.substr(first.at.column - 1);
  places_ = {};
  given_bytes_.reset();
  const WordOfOperation* row = operation_named(first.text);
  if (first.kind != TokenKind::kWord || row == nullptr) {
    return expected("read, write, allocate, cas, add or let");
  }
  if (chain_.statements.size() == prism::kOperationsMax) {
    return fail(first.at, fmt::format("a chain has at most {} operations", prism::kOperationsMax));
  }
  now_.opcode = row->opcode;
  scanner_->advance();
  if (!statement() || !flags() || !check()) return false;
  // What the line says, without what follows it.
  now_.source.resize(scanner_->token().at.column - now_.at.column);
  now_.source.resize(now_.source.find_last_not_of(" \t\r") + 1);
  chain_.statements.push_back(std::move(now_));
  return true;
}

bool ChainParser::let() {
  const Token name = scanner_->token();
  if (name.kind != TokenKind::kWord) return expected("a name");
  if (is_word_of_the_language(name.text) || name.text.find('.') != std::string_view::npos) {
    return fail(name.at, fmt::format("expected a name of your own, found {}", name.shown()));
  }
  if (names_.contains(name.text)) return fail(name.at, fmt::format("{} has a value already", name.shown()));
  scanner_->advance();
  if (!take("=")) return expected("'='");
  Value to;
  if (!value(to, "an address or a number") || !end_of_line("the end of the line")) return false;
  names_.emplace(name.text, std::move(to));
  return true;
}

bool ChainParser::statement() {
  switch (now_.opcode) {
    case Opcode::kRead:
      return read();
    case Opcode::kWrite:
      return write();
    case Opcode::kAllocate:
      return allocate();
    case Opcode::kCompareSwap:
      return compare_swap();
    case Opcode::kFetchAdd:
      return fetch_add();
  }
  return false;
}

bool ChainParser::read() {
  uint64_t bytes = 0;
  if (!address(now_.address)) return false;
  bytes_at_ = scanner_->token().at;
  if (!number(bytes, prism::kTransferBytesMax, "a number of bytes")) return false;
  now_.bytes = static_cast<uint32_t>(bytes);
  return true;
}

bool ChainParser::write() {
  if (!address(now_.address)) return false;
  bytes_at_ = scanner_->token().at;
  if (!scanner_->token().is("[")) {
    if (!data(now_.data)) return false;
    now_.bytes = static_cast<uint32_t>(now_.data.size());
    return true;
  }
  now_.flags |= Flag::kDataIndirect;
  uint64_t bytes = 0;
  if (!pointer(now_.from)) return false;
  bytes_at_ = scanner_->token().at;
  if (!number(bytes, prism::kTransferBytesMax, "a number of bytes")) return false;
  now_.bytes = static_cast<uint32_t>(bytes);
  return true;
}

bool ChainParser::allocate() {
  constexpr std::string_view kWhat = "a store and a free list, as kv/0";
  const Position at = scanner_->token().at;
  if (scanner_->token().kind != TokenKind::kWord) return expected(kWhat);
  if (!word(now_.address, kWhat)) return false;
  if (now_.address.is_scratch() || now_.address.store.empty() || now_.address.offset != 0) {
    return fail(at, "expected the name of a store: free lists belong to stores");
  }
  if (!take("/")) return expected("'/' and the number of a free list");
  if (!number(now_.address.offset, RemotePointer::kOffsetMask, "the number of a free list")) return false;
  bytes_at_ = scanner_->token().at;
  if (!data(now_.data)) return false;
  now_.bytes = static_cast<uint32_t>(now_.data.size());
  return true;
}

bool ChainParser::compare_swap() {
  if (!address(now_.address)) return false;
  if (take("eq")) {
    now_.comparison = Comparison::kEqual;
  } else if (take("gt")) {
    now_.comparison = Comparison::kGreater;
  } else if (take("lt")) {
    now_.comparison = Comparison::kLess;
  } else {
    return expected("eq, gt or lt");
  }
  if (!take("compare")) return expected("compare");
  if (!operand(now_.compare)) return false;
  if (!take("swap")) return expected("swap");
  if (!operand(now_.swap)) return false;
  if (now_.compare.pointer) now_.flags |= Flag::kCompareIndirect;
  if (now_.swap.pointer) now_.flags |= Flag::kDataIndirect;
  return true;
}

bool ChainParser::fetch_add() {
  now_.bytes = 8;
  return address(now_.address) && number(now_.number, UINT64_MAX, "what is to be added");
}

bool ChainParser::flags() {
  while (scanner_->token().kind != TokenKind::kEnd) {
    if (!flag()) return false;
  }
  return now_.opcode != Opcode::kCompareSwap || operand_bytes();
}

bool ChainParser::flag() {
  const Token token = scanner_->token();
  if (const WordOfFlag* row = flag_named(token.text); row != nullptr && token.kind == TokenKind::kWord) {
    if (!add_flag(row->flag)) return false;
    scanner_->advance();
    return row->flag != Flag::kRedirect || redirect();
  }
  if (take("in")) return store_of_key();
  if (now_.opcode == Opcode::kAllocate && take("template")) {
    return number(now_.number, UINT64_MAX, "the slot word's own bits");
  }
  if (now_.opcode == Opcode::kCompareSwap) {
    if (token.is("compare-mask") || token.is("swap-mask")) {
      scanner_->advance();
      now_.flags |= Flag::kMasked;
      auto& mask = token.text == "swap-mask" ? now_.swap_mask : now_.compare_mask;
      if (mask) return fail(token.at, fmt::format("{} stands here twice", token.shown()));
      mask.emplace();
      mask->at = scanner_->token().at;
      return data(mask->data);
    }
    if (take("bytes")) {
      uint64_t bytes = 0;
      if (!number(bytes, prism::kOperandBytesMax, "a number of bytes")) return false;
      given_bytes_ = static_cast<uint32_t>(bytes);
      return true;
    }
  }
  if (token.kind == TokenKind::kBad) return expected("");
  return fail(token.at, fmt::format("expected {} or the end of the line, found {}", flag_words(now_.opcode),
                                    token.shown()));
}

bool ChainParser::add_flag(uint16_t flag) {
  const Token& token = scanner_->token();
  if ((prism::known_flags(now_.opcode) & flag) == 0) {
    return fail(token.at, fmt::format("{} knows no {}: it takes {}", word_of(now_.opcode), token.shown(),
                                      flag_words(now_.opcode)));
  }
  if (now_.has(flag)) return fail(token.at, fmt::format("{} stands here twice", token.shown()));
  now_.flags |= flag;
  places_[static_cast<size_t>(std::countr_zero(flag))] = token.at;
  return true;
}

bool ChainParser::redirect() {
  Value to;
  const Position at = scanner_->token().at;
  if (!value(to, "a place in the scratch, as scratch+0")) return false;
  if (!to.is_scratch()) return fail(at, "expected a place in the scratch, as scratch+0");
  const uint64_t output = now_.opcode == Opcode::kRead ? now_.bytes : 8;
  if (to.offset % 8 != 0) return fail(at, "expected a place in the scratch that is a multiple of 8");
  if (to.offset > prism::kScratchBytes || output > prism::kScratchBytes - to.offset) {
    return fail(at, fmt::format("{} bytes from scratch+{} on do not fit: the scratch has {}", output,
                                to.offset, prism::kScratchBytes));
  }
  now_.redirect = static_cast<uint8_t>(to.offset);
  return true;
}

bool ChainParser::store_of_key() {
  const Position at = scanner_->token().at;
  Value store;
  if (scanner_->token().kind != TokenKind::kWord) return expected("the name of a store");
  if (!word(store, "the name of a store")) return false;
  if (store.store.empty() || store.is_scratch() || store.offset != 0) {
    return fail(at, "expected the name of a store");
  }
  now_.store = store.store;
  return true;
}

Position ChainParser::flag_at(uint16_t flag) const {
  return places_[static_cast<size_t>(std::countr_zero(flag))];
}

}  // namespace refract::chains
