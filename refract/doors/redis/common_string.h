// SPDX-License-Identifier: Apache-2.0
// The longest common subsequence of two strings, as LCS tells it: of several the one that Redis finds.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace refract::doors::redis {

class CommonString {
 public:
  // A part that both have: its first and its last byte in each.
  struct Match {
    size_t first_of_one;
    size_t first_of_other;
    size_t bytes;
  };
  // What text() and matches() tell.
  struct Found {
    std::string text;
    std::vector<Match> matches;  // From the last to the first.
  };

  // Memory of a table for strings of these lengths.
  [[nodiscard]] static uint64_t table_bytes(uint64_t one, uint64_t other) noexcept {
    return (one + 1) * (other + 1) * sizeof(uint32_t);
  }

  // Both outlive it. REQUIRES: table_bytes() of them is memory that may be taken.
  CommonString(std::string_view one, std::string_view other);

  // Fills some rows of the table, of so many cells or a few more. True: it is full.
  [[nodiscard]] bool go_on(size_t cells);
  // REQUIRES: the table is full; likewise the next.
  [[nodiscard]] size_t length() const noexcept { return at(one_.size(), other_.size()); }
  [[nodiscard]] Found find() const;

 private:
  // Of the first bytes of both.
  [[nodiscard]] uint32_t at(size_t one, size_t other) const noexcept {
    return table_[one * (other_.size() + 1) + other];
  }

  std::string_view one_;
  std::string_view other_;
  std::unique_ptr<uint32_t[]> table_;
  size_t row_ = 0;  // That is filled next.
};

}  // namespace refract::doors::redis
