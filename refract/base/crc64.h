// SPDX-License-Identifier: Apache-2.0
// CRC-64 as xz has it (ECMA-182, reflected, all ones before and after): for stored structures that readers
// verify by themselves. It finds every change within 64 bits behind each other, and others but for one in
// 2^64. Stored bytes depend on it, so its result for given bytes never changes; the test pins it.
//
// No protection against a writer that wants a collision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace refract {

[[nodiscard]] uint64_t crc64(std::span<const std::byte> bytes) noexcept;

}  // namespace refract
