// SPDX-License-Identifier: Apache-2.0
// For our own bugs only: a condition that no input can make false. What comes from outside is answered by a
// Result.
//
// A failed check prints the place and the condition, calls the hook (the trace ring dumps itself there), and
// aborts.
#pragma once

#include "refract/base/api.h"

namespace refract {

// Called before the abort; set once at start. Must be async-signal-safe in spirit: no locks, no allocation.
void set_check_hook(void (*hook)() noexcept) noexcept;

[[noreturn]] REFRACT_API void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace refract

#define REFRACT_CHECK(condition) \
  (__builtin_expect(!(condition), 0) ? ::refract::check_failed(#condition, __FILE__, __LINE__) : void(0))

#if defined(REFRACT_DCHECK_ON) || !defined(NDEBUG)
#define REFRACT_DCHECK(condition) REFRACT_CHECK(condition)
#else
#define REFRACT_DCHECK(condition) (void(sizeof(!(condition))))
#endif
