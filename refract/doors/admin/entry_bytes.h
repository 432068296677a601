// SPDX-License-Identifier: Apache-2.0
// How much of the node's memory an entry takes.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/client/types.h"

namespace refract::doors::redis {

// Of a plain entry: its buffer, as large as it was taken, and its slot. What a batch or a numbered write has
// put beside it for a while is not seen from here.
[[nodiscard]] uint64_t entry_bytes(size_t key_bytes, const Got& got) noexcept;

}  // namespace refract::doors::redis
