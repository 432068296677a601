// SPDX-License-Identifier: Apache-2.0
// The bytes of an object as it lies in memory: for messages and pages whose layout is a struct.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace refract {

template <typename Object>
  requires std::is_trivially_copyable_v<Object>
[[nodiscard]] std::span<const std::byte> object_bytes(const Object& object) noexcept {
  return std::as_bytes(std::span(&object, 1));
}

}  // namespace refract
