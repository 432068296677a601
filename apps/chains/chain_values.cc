// SPDX-License-Identifier: Apache-2.0
// Numbers, addresses, data and operands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "apps/chains/chain_parser.h"
#include "apps/chains/words.h"

namespace refract::chains {
namespace {

constexpr std::string_view kData = R"(data: "text", hex:0011, u32:5, a number or an address)";
constexpr std::string_view kRoot = ".root";

// How many bytes "u16" before a colon stands for; 0: it is no such word.
size_t size_of(std::string_view word) {
  constexpr std::pair<std::string_view, size_t> kSizes[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}, {"u64", 8}};
  for (const auto& [name, bytes] : kSizes) {
    if (name == word) return bytes;
  }
  return 0;
}

std::string little_endian(uint64_t number, size_t bytes) {
  std::string out(bytes, '\0');
  for (char& byte : out) {
    byte = static_cast<char>(number & 0xff);
    number >>= 8;
  }
  return out;
}

}  // namespace

std::string Value::text() const {
  if (store.empty()) return fmt::format("{:#x}", offset);
  if (is_scratch()) return fmt::format("{}+{}", store, offset);
  return fmt::format("{}{}+{:#x}", store, from_root ? kRoot : "", offset);
}

uint64_t Data::size() const noexcept {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.pointer ? 8 : piece.bytes.size();
  return bytes;
}

// A sum; at most one of its terms is a place.
bool ChainParser::value(Value& to, std::string_view what) {
  to = {};
  to.at = scanner_->token().at;
  do {
    const Position at = scanner_->token().at;
    Value next;
    if (!term(next, what)) return false;
    if (!next.store.empty()) {
      if (!to.store.empty())
        return fail(at, "a place can only have numbers added, and this is a second place");
      to.store = next.store;
      to.from_root = next.from_root;
    }
    if (__builtin_add_overflow(to.offset, next.offset, &to.offset) ||
        (!to.store.empty() && to.offset > RemotePointer::kOffsetMask)) {
      return fail(at, to.store.empty() ? "the sum does not fit into 64 bits" : "an offset has 48 bits");
    }
  } while (take("+"));
  return true;
}

// A word, or a product of numbers.
bool ChainParser::term(Value& to, std::string_view what) {
  if (scanner_->token().kind == TokenKind::kWord) return word(to, what);
  if (scanner_->token().kind != TokenKind::kNumber) return expected(what);
  to.offset = scanner_->token().number;
  scanner_->advance();
  while (take("*")) {
    if (scanner_->token().kind != TokenKind::kNumber) return expected("a number");
    if (__builtin_mul_overflow(to.offset, scanner_->token().number, &to.offset)) {
      return fail(scanner_->token().at, "the product does not fit into 64 bits");
    }
    scanner_->advance();
  }
  return true;
}

bool ChainParser::word(Value& to, std::string_view what) {
  const Token token = scanner_->token();
  if (const auto known = names_.find(token.text); known != names_.end()) {
    to = known->second;
  } else if (token.is(kScratchName)) {
    to.store = kScratchName;
  } else if (is_word_of_the_language(token.text)) {
    return expected(what);
  } else {
    to.from_root = token.text.ends_with(kRoot);
    to.store = token.text.substr(0, token.text.size() - (to.from_root ? kRoot.size() : 0));
    if (to.store == kScratchName || to.store.find('.') != std::string::npos) {
      return fail(token.at,
                  fmt::format("{} is nothing: a store has a root, as kv.root, and offsets", token.shown()));
    }
    if (to.store.size() > prism::kStoreNameBytesMax) {
      return fail(token.at, fmt::format("a store's name has at most {} letters", prism::kStoreNameBytesMax));
    }
  }
  to.at = token.at;
  scanner_->advance();
  return true;
}

bool ChainParser::number(uint64_t& to, uint64_t max, std::string_view what) {
  Value found;
  const Position at = scanner_->token().at;
  if (!value(found, what)) return false;
  if (!found.store.empty())
    return fail(at, fmt::format("expected {}, found the place {}", what, found.text()));
  if (found.offset > max) {
    return fail(at, fmt::format("expected {} of at most {}, found {}", what, max, found.offset));
  }
  to = found.offset;
  return true;
}

bool ChainParser::address(Value& to) {
  constexpr std::string_view kAddress = "an address, as kv+0x1000 or scratch+8";
  const Position at = scanner_->token().at;
  if (!value(to, kAddress)) return false;
  if (to.store.empty())
    return fail(at, fmt::format("expected {}, found the number {:#x}", kAddress, to.offset));
  return true;
}

bool ChainParser::pointer(std::optional<Value>& to) {
  Value place;
  if (!take("[")) return expected("'['");
  if (!address(place)) return false;
  if (!take("]")) return expected("']'");
  to = std::move(place);
  return true;
}

// A bare word would rather be a flag that is misspelt.
bool ChainParser::begins_data() const {
  const Token& token = scanner_->token();
  switch (token.kind) {
    case TokenKind::kNumber:
    case TokenKind::kString:
    case TokenKind::kHex:
      return true;
    case TokenKind::kWord:
      if (size_of(token.text) > 0) return scanner_->is_next_sign(":");
      if (names_.contains(token.text) || token.text.ends_with(kRoot)) return true;
      return scanner_->is_next_sign("+");
    default:
      return false;
  }
}

bool ChainParser::data(Data& to) {
  if (!begins_data()) return expected(kData);
  while (begins_data()) {
    const Position at = scanner_->token().at;
    if (!data_piece(to)) return false;
    if (to.size() > prism::kTransferBytesMax) {
      return fail(at, fmt::format("one operation carries at most {} bytes", prism::kTransferBytesMax));
    }
  }
  return scanner_->token().kind != TokenKind::kBad || expected(kData);
}

bool ChainParser::data_piece(Data& to) {
  const Token token = scanner_->token();
  Data::Piece piece;
  if (token.kind == TokenKind::kString || token.kind == TokenKind::kHex) {
    piece.bytes = token.bytes;
    scanner_->advance();
  } else if (token.kind == TokenKind::kWord && size_of(token.text) > 0 && !names_.contains(token.text)) {
    scanner_->advance();
    scanner_->advance();
    if (!sized_number(piece, size_of(token.text))) return false;
  } else {
    Value found;
    if (!value(found, kData)) return false;
    if (found.store.empty()) {
      piece.bytes = little_endian(found.offset, 8);
    } else {
      piece.pointer = std::move(found);
    }
  }
  to.pieces.push_back(std::move(piece));
  return true;
}

bool ChainParser::sized_number(Data::Piece& piece, size_t bytes) {
  uint64_t written = 0;
  const uint64_t max = bytes == 8 ? UINT64_MAX : (uint64_t{1} << (bytes * 8)) - 1;
  if (!number(written, max, "a number")) return false;
  piece.bytes = little_endian(written, bytes);
  return true;
}

bool ChainParser::operand(SwapOperand& to) {
  to.at = scanner_->token().at;
  if (scanner_->token().is("[")) return pointer(to.pointer);
  return data(to.data);
}

// How long the operands of a compare-and-swap are: as long as what is written down, or as it is said.
bool ChainParser::operand_bytes() {
  uint64_t bytes = given_bytes_.value_or(0);
  for (const SwapOperand* one : {&std::as_const(now_).compare, &std::as_const(now_).swap}) {
    if (bytes == 0 && !one->pointer) bytes = one->data.size();
  }
  if (bytes == 0) {
    return fail(now_.compare.at, "how long the operands are is nowhere said", "add: bytes 8");
  }
  if (bytes > prism::kOperandBytesMax) {
    return fail(now_.compare.at,
                fmt::format("operands have at most {} bytes, these have {}", prism::kOperandBytesMax, bytes));
  }
  now_.bytes = static_cast<uint32_t>(bytes);
  return operand_matches(now_.compare, "what is compared") &&
         operand_matches(now_.swap, "what is swapped in") &&
         (!now_.compare_mask || operand_matches(*now_.compare_mask, "the mask")) &&
         (!now_.swap_mask || operand_matches(*now_.swap_mask, "the mask"));
}

bool ChainParser::operand_matches(const SwapOperand& operand, std::string_view name) {
  if (operand.pointer || operand.data.size() == now_.bytes) return true;
  return fail(operand.at, fmt::format("{} has {} bytes, where the operands have {}", name,
                                      operand.data.size(), now_.bytes));
}

}  // namespace refract::chains
