// SPDX-License-Identifier: Apache-2.0
// A key of the table of objects, put together without an allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "refract/object/layout/object_layout.h"

namespace refract::object {

class ObjectKey {
 public:
  // REQUIRES: id.size() <= kIdBytesMax; of a tombstone 8 bytes more.
  ObjectKey(KeyKind kind, std::span<const std::byte> id) noexcept : size_(1 + id.size()) {
    bytes_[0] = static_cast<std::byte>(kind);
    if (!id.empty()) std::memcpy(&bytes_[1], id.data(), id.size());
  }
  // Of an object that has no id any more.
  [[nodiscard]] static ObjectKey departed(uint64_t object_at) noexcept {
    return {KeyKind::kDeparted, std::as_bytes(std::span(&object_at, 1))};
  }
  // REQUIRES: id.size() <= kIdBytesMax.
  [[nodiscard]] static ObjectKey tombstone(std::span<const std::byte> id, uint64_t birth) noexcept {
    std::array<std::byte, sizeof(birth) + kIdBytesMax> bytes;
    std::memcpy(bytes.data(), &birth, sizeof(birth));
    std::memcpy(&bytes[sizeof(birth)], id.data(), id.size());
    return {KeyKind::kTombstone, std::span(bytes).first(sizeof(birth) + id.size())};
  }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), size_}; }

 private:
  size_t size_;
  std::array<std::byte, 1 + sizeof(uint64_t) + kIdBytesMax> bytes_;
};

}  // namespace refract::object
