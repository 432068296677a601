// SPDX-License-Identifier: Apache-2.0
// How much a chain may ask for. Each operation is short and a chain has few of them, so that none can keep an
// executor from serving others, and everything that it needs fits memory taken at the start.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract::prism {

inline constexpr size_t kOperationsMax = 16;    // Of one chain.
inline constexpr size_t kOperandBytesMax = 32;  // Of a compare-and-swap.
inline constexpr size_t kScratchBytes = 64;     // Of a connection.
inline constexpr uint32_t kTransferBytesMax =
    64 * 1024;                            // Of one READ, WRITE or ALLOCATE; messages bound it, too.
inline constexpr size_t kGrantsMax = 16;  // Regions that one connection has keys for.
inline constexpr size_t kStoreNameBytesMax = 64;

static_assert(kOperandBytesMax % 8 == 0 && kOperandBytesMax <= kScratchBytes);

}  // namespace refract::prism
