// SPDX-License-Identifier: Apache-2.0
// A chain taken apart: what the executor runs, what the builder checks itself by, and what tools print.
//
// Both forms end as the same headers. These are copies, taken before they are checked. The inline bytes are
// not: the peer may still be changing them, so a reader of them reads each once. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/prism/limits.h"
#include "refract/prism/operation.h"

namespace refract::prism {

struct Operation {
  OperationHeader header;
  const std::byte* inline_bytes;  // As many as inline_bytes_of(header).

  [[nodiscard]] bool has(uint16_t flag) const noexcept { return (header.flags & flag) != 0; }
  [[nodiscard]] Opcode opcode() const noexcept { return static_cast<Opcode>(header.opcode); }
  // kWrite without kDataIndirect, kAllocate.
  [[nodiscard]] std::span<const std::byte> data() const noexcept { return {inline_bytes, header.bytes}; }
  // kCompareSwap: as long as each says, one behind the other, each padded to 8.
  [[nodiscard]] const std::byte* compare() const noexcept { return inline_bytes; }
  [[nodiscard]] const std::byte* swap() const noexcept { return compare() + compare_bytes(); }
  [[nodiscard]] const std::byte* compare_mask() const noexcept { return swap() + swap_bytes(); }
  [[nodiscard]] const std::byte* swap_mask() const noexcept { return compare_mask() + padded(header.bytes); }

 private:
  // An indirect operand is a pointer.
  [[nodiscard]] uint64_t compare_bytes() const noexcept {
    return has(Flag::kCompareIndirect) ? sizeof(RemotePointer) : padded(header.bytes);
  }
  [[nodiscard]] uint64_t swap_bytes() const noexcept {
    return has(Flag::kDataIndirect) ? sizeof(RemotePointer) : padded(header.bytes);
  }
};

// What the executor asks of headers before it runs the first of them.
[[nodiscard]] bool are_sound(std::span<const OperationHeader> headers) noexcept;

// REQUIRES: header.bytes within the limits.
[[nodiscard]] uint64_t inline_bytes_of(const OperationHeader& header) noexcept;

struct DecodedChain {
  std::array<Operation, kOperationsMax> operations;
  size_t count;

  [[nodiscard]] std::span<const Operation> all() const noexcept { return std::span(operations).first(count); }
};

// kMalformed: the chain is refused as a whole; of a plain one `decoded` then holds the operations before the
// one at fault.
[[nodiscard]] Code decode(std::span<const std::byte> chain, DecodedChain& decoded) noexcept;

}  // namespace refract::prism
