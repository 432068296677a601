// SPDX-License-Identifier: Apache-2.0
// A chain written as text, one operation a line, in the words of the PRISM paper (docs/chains.md):
//
//   let place = kv+0x101180               # a name for an address or a number
//   read  place 128 indirect slot         # what the slot there leads to
//   cas   place eq compare 0x51 swap [scratch+0] conditional retire slot
//
// An address is a store's name and an offset; names of stores are resolved when the chain is encoded, so that
// parsing needs no node. What the executor would refuse for its form is refused here, with the place.
//
// Threads: one. The result refers to nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chains/scanner.h"

#include "refract/base/report.h"
#include "refract/prism/limits.h"
#include "refract/prism/operation.h"

namespace refract::chains {

inline constexpr std::string_view kScratchName = "scratch";

// A number, or a place: an offset in a store or in the scratch.
struct Value {
  std::string store;       // Empty: a plain number.
  bool from_root = false;  // The offset counts from the store's root.
  uint64_t offset = 0;
  Position at = {};

  [[nodiscard]] bool is_scratch() const noexcept { return store == kScratchName; }
  // "kv+0x1000", "kv.root+0x8", "scratch+0", "17".
  [[nodiscard]] std::string text() const;
};

// Bytes that are written down, and pointers whose region is known only when the chain is encoded.
struct Data {
  struct Piece {
    std::string bytes;
    std::optional<Value> pointer;  // 8 bytes, in place of `bytes`.
  };
  std::vector<Piece> pieces;

  [[nodiscard]] uint64_t size() const noexcept;
};

// One side of a compare-and-swap.
struct SwapOperand {
  Data data;
  std::optional<Value> pointer;  // Where it stands instead.
  Position at = {};
};

struct Statement {
  Position at = {};
  std::string source;  // The line, without comment and spaces around it.
  prism::Opcode opcode = prism::Opcode::kRead;
  prism::Comparison comparison = prism::Comparison::kEqual;
  uint16_t flags = 0;
  uint32_t bytes = 0;
  Value address;              // kAllocate: the offset is the free list's number.
  std::string store;          // Whose key opens it.
  uint64_t number = 0;        // kFetchAdd: the addend. kAllocate: the slot word's own bits.
  uint8_t redirect = 0;       // Where in the scratch.
  Data data;                  // kWrite, kAllocate.
  std::optional<Value> from;  // kWrite: where the data stand.
  SwapOperand compare;        // kCompareSwap, and so on.
  SwapOperand swap;
  std::optional<SwapOperand> compare_mask;
  std::optional<SwapOperand> swap_mask;

  [[nodiscard]] bool has(uint16_t flag) const noexcept { return (flags & flag) != 0; }
};

// A store that the chain names, what it needs there, and where it is named first.
struct StoreUse {
  std::string name;
  prism::ChainRights rights;
  Position at;
};

struct ParsedChain {
  std::vector<Statement> statements;
  std::vector<StoreUse> stores;
};

// Errors name file, line, column, what was expected and what was found.
[[nodiscard]] Reported<ParsedChain> parse_chain(const SourceText& source);

// A line on how an operation is written: "read ADDRESS BYTES [indirect] ...".
[[nodiscard]] std::string_view usage_of(prism::Opcode opcode) noexcept;

}  // namespace refract::chains
