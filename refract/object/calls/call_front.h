// SPDX-License-Identifier: Apache-2.0
// The parts of a call's body that stand before its tail, one behind the other; without an allocation while
// they are short.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace refract::object {

// Of a struct, and of no text: that one's bytes are those of its characters.
template <typename T>
  requires std::is_trivially_copyable_v<T> && (!std::is_convertible_v<const T&, std::string_view>)
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) noexcept {
  return std::as_bytes(std::span(&value, 1));
}

class CallFront {
 public:
  explicit CallFront(std::initializer_list<std::span<const std::byte>> parts) {
    for (const auto& part : parts) size_ += part.size();
    if (size_ > short_.size()) long_.resize(size_);
    std::byte* target = long_.empty() ? short_.data() : long_.data();
    for (const auto& part : parts) {
      if (!part.empty()) std::memcpy(target, part.data(), part.size());
      target += part.size();
    }
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {long_.empty() ? short_.data() : long_.data(), size_};
  }

 private:
  size_t size_ = 0;
  std::array<std::byte, 384> short_;
  std::vector<std::byte> long_;
};

}  // namespace refract::object
