// SPDX-License-Identifier: Apache-2.0
// Counts what a thread takes from the heap by operator new, for tests that claim "no allocation after
// warm-up".
//
// Calling it links a replacement of the global operator new into the program, so only tests do.
#pragma once

#include <cstdint>

namespace refract {

// Calls of operator new by this thread since it started.
[[nodiscard]] uint64_t allocation_count() noexcept;

}  // namespace refract
