// SPDX-License-Identifier: Apache-2.0
// Bytes that several connections hold at a time, and that nothing changes. They go with the last one.
//
// Threads: any; one object is for one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

namespace refract::doors::redis {

class SharedText {
 public:
  // Of nothing.
  SharedText() noexcept = default;
  // `tally` counts the bytes of all that there are, each once. It outlives them.
  SharedText(std::string text, std::atomic<size_t>& tally);
  SharedText(const SharedText& other) noexcept;
  SharedText(SharedText&& other) noexcept;
  SharedText& operator=(const SharedText& other) noexcept;
  SharedText& operator=(SharedText&& other) noexcept;
  ~SharedText();

  explicit operator bool() const noexcept { return block_ != nullptr; }
  // Empty of nothing.
  [[nodiscard]] std::string_view text() const noexcept;

 private:
  struct Block;

  Block* block_ = nullptr;
};

}  // namespace refract::doors::redis
