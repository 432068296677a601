// SPDX-License-Identifier: Apache-2.0
// A page of an answer: entries of a struct and an id, one behind the other, as many as fit a message.
//
// Threads: used by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace refract::object {

class ReplyPage {
 public:
  explicit ReplyPage(size_t bytes_max) : bytes_max_(bytes_max) {}

  // False: it does not fit any more, and nothing was added.
  template <typename Entry>
  [[nodiscard]] bool add(const Entry& entry, std::string_view id) {
    if (bytes_.size() + sizeof(entry) + id.size() > bytes_max_) return false;
    const auto fixed = std::as_bytes(std::span(&entry, 1));
    const auto text = std::as_bytes(std::span(id));
    bytes_.insert(bytes_.end(), fixed.begin(), fixed.end());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    ++count_;
    return true;
  }
  // Takes back what was added since it had so many.
  struct Mark {
    size_t bytes;
    uint32_t count;
  };
  [[nodiscard]] Mark mark() const noexcept { return {bytes_.size(), count_}; }
  void back_to(const Mark& mark) {
    bytes_.resize(mark.bytes);
    count_ = mark.count;
  }

  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  size_t bytes_max_;
  std::vector<std::byte> bytes_;
  uint32_t count_ = 0;
};

}  // namespace refract::object
