// SPDX-License-Identifier: Apache-2.0
// Counts what this program takes from the heap, in any thread: every operator new of it, the client's too.
#pragma once

#include <cstdint>

namespace refract::bench {

[[nodiscard]] uint64_t allocation_count() noexcept;

}  // namespace refract::bench
