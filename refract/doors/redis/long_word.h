// SPDX-License-Identifier: Apache-2.0
// A long word of a request, received into memory of its own: it is not copied on its way into the store.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "refract/client/reservation.h"

namespace refract::doors::redis {

// A part of a sum, as long as it lives.
class Share {
 public:
  Share(size_t& sum, size_t bytes) noexcept : sum_(&sum), bytes_(bytes) { sum += bytes; }
  Share(Share&& other) noexcept : sum_(other.sum_), bytes_(std::exchange(other.bytes_, 0)) {}
  Share& operator=(Share&&) = delete;
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { *sum_ -= bytes_; }

 private:
  size_t* sum_;
  size_t bytes_;
};

class LongWord {
 public:
  explicit LongWord(size_t bytes)
      : memory_(std::make_unique_for_overwrite<char[]>(bytes)), room_(memory_.get(), bytes) {}
  // In memory that the node's server reads; `sum` counts `cost` for it.
  LongWord(Reservation reservation, size_t& sum, size_t cost) noexcept
      : reservation_(std::move(reservation)),
        share_(std::in_place, sum, cost),
        room_(reinterpret_cast<char*>(reservation_->bytes().data()), reservation_->bytes().size()) {}

  LongWord(LongWord&&) noexcept = default;
  LongWord& operator=(LongWord&&) = delete;
  LongWord(const LongWord&) = delete;
  LongWord& operator=(const LongWord&) = delete;
  ~LongWord() = default;

  // For what is still to come.
  [[nodiscard]] std::span<char> room() const noexcept { return room_.subspan(filled_); }
  void filled(size_t bytes) noexcept { filled_ += bytes; }
  [[nodiscard]] std::string_view text() const noexcept { return {room_.data(), filled_}; }
  // Of memory that is there: a page of the heap's, which may be a large one, is not before its first byte.
  [[nodiscard]] size_t held_bytes() const noexcept {
    constexpr size_t kPageBytesMax = size_t{2} << 20;
    return reservation_ ? room_.size() : std::min(room_.size(), filled_ + kPageBytesMax);
  }
  // Null: it is in the heap.
  [[nodiscard]] const Reservation* reservation() const noexcept {
    return reservation_ ? &*reservation_ : nullptr;
  }

 private:
  std::optional<Reservation> reservation_;
  std::optional<Share> share_;
  std::unique_ptr<char[]> memory_;
  std::span<char> room_;
  size_t filled_ = 0;
};

}  // namespace refract::doors::redis
