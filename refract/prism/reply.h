// SPDX-License-Identifier: Apache-2.0
// What came back of a chain: for each operation a code and its output.
//
// The outcomes are copies; the outputs stay where the reply lies, and are valid as long as its bytes are:
// copy what you check before you check it. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/memory/remote_pointer.h"
#include "refract/prism/limits.h"

namespace refract::prism {

class Reply {
 public:
  // Nothing was executed, or it is not known.
  Reply() = default;

  // kMalformed: this is no reply to a chain of so many operations.
  [[nodiscard]] static Result<Reply> of(std::span<const std::byte> bytes, size_t operations) noexcept;

  [[nodiscard]] size_t operations() const noexcept { return count_; }
  // REQUIRES: index < operations(), likewise below.
  [[nodiscard]] Code code(size_t index) const noexcept { return outputs_[index].code; }
  // READ: what was read. Compare-and-swap: what the target held before, kCompareFailed too. Empty where there
  // is no output.
  [[nodiscard]] std::span<const std::byte> bytes(size_t index) const noexcept {
    return payload_.subspan(outputs_[index].at, outputs_[index].bytes);
  }
  // The first 8 bytes of the output as a number, with what is missing as 0: an old word, an allocation's slot
  // word.
  [[nodiscard]] uint64_t word(size_t index) const noexcept;
  [[nodiscard]] RemotePointer pointer(size_t index) const noexcept { return {word(index)}; }
  // Every operation succeeded.
  [[nodiscard]] bool all_ok() const noexcept;

 private:
  struct Output {
    uint32_t at = 0;
    uint32_t bytes = 0;
    Code code = Code::kCancelled;
  };
  std::span<const std::byte> payload_;
  std::array<Output, kOperationsMax> outputs_{};
  size_t count_ = 0;
};

}  // namespace refract::prism
