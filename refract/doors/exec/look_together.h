// SPDX-License-Identifier: Apache-2.0
// Whether keys that were read one after the other stood so at one moment.
//
// Threads: that of the store's door.
#pragma once

#include <cstddef>
#include <span>

#include "refract/base/result.h"
#include "refract/doors/exec/run_body.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

struct Looked {
  Code code = Code::kOk;  // kConflict: not together, perhaps.
  size_t failed = 0;      // Of kConflict: one that is not so any more. As many as there are: none is known.
};

// By loads alone, where that can tell: it is called behind the last read. kInvalidated: ask look_together().
[[nodiscard]] Looked look_together_at_once(Store& store, std::span<const Watch> reads);
// Else the owners are asked.
[[nodiscard]] runtime::Task<Looked> look_together(Store& store, std::span<const Watch> reads);

}  // namespace refract::doors::redis
