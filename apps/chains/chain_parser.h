// SPDX-License-Identifier: Apache-2.0
// The parser of chain_text.h: a line at a time, by recursive descent without recursion.
//
// Each function returns false at the first fault, which stands in fault_ from then on.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "apps/chains/chain_text.h"
#include "apps/chains/scanner.h"

namespace refract::chains {

class ChainParser {
 public:
  explicit ChainParser(const SourceText& source) noexcept : source_(source) {}

  [[nodiscard]] Reported<ParsedChain> run();

 private:
  // Where the line's flags stand, for what is wrong with them together.
  using FlagPlaces = std::array<Position, prism::kFlagBits>;

  bool fail(Position at, std::string_view what, std::string_view hint = {});
  // "expected WHAT, found TOKEN", or what the scanner says of a bad token.
  bool expected(std::string_view what);
  bool take(std::string_view word);
  bool end_of_line(std::string_view what);

  bool line(std::string_view text, size_t number);
  bool let();
  bool statement();
  bool read();
  bool write();
  bool allocate();
  bool compare_swap();
  bool fetch_add();

  bool value(Value& to, std::string_view what);
  bool term(Value& to, std::string_view what);
  bool word(Value& to, std::string_view what);
  bool number(uint64_t& to, uint64_t max, std::string_view what);
  bool address(Value& to);
  bool pointer(std::optional<Value>& to);
  bool data(Data& to);
  [[nodiscard]] bool begins_data() const;
  bool data_piece(Data& to);
  bool sized_number(Data::Piece& piece, size_t bytes);
  bool operand(SwapOperand& to);
  bool operand_bytes();
  bool operand_matches(const SwapOperand& operand, std::string_view name);

  bool flags();
  bool flag();
  bool add_flag(uint16_t flag);
  bool redirect();
  bool store_of_key();

  bool check();
  bool check_flags();
  bool check_target();
  bool check_alignment();
  bool check_lengths();
  bool check_stores();
  bool use(const Value& place, uint8_t rights);
  bool use_all(const Data& data);

  [[nodiscard]] Position flag_at(uint16_t flag) const;

  const SourceText& source_;
  ParsedChain chain_;
  std::map<std::string, Value, std::less<>> names_;
  std::optional<Report> fault_;
  // Of the line at hand.
  std::optional<LineScanner> scanner_;
  Statement now_;
  FlagPlaces places_;
  std::optional<uint32_t> given_bytes_;  // "bytes N" of a compare-and-swap.
  Position bytes_at_;
  std::string last_store_ = "kv";  // Whose key opens what begins in the scratch.
};

}  // namespace refract::chains
