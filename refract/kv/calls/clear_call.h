// SPDX-License-Identifier: Apache-2.0
// One step of erasing all that is older than a moment (clear_wire.h).
//
// Threads: used only by the session's shard.
#pragma once

#include <cstdint>

#include "refract/base/result.h"
#include "refract/kv/layout/clear_wire.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::kv {

// kUnavailable: there was no answer. It may be asked again then, and behind every other failure, since a step
// that is repeated erases nothing younger. kOverloaded: the owner has begun another one just now.
// kInvalidated: its memory is another one. kMalformed: the answer makes no sense.
[[nodiscard]] runtime::Task<Result<wire::ClearReply>> clear_some(rpc::Session& session,
                                                                 wire::ClearRequest request,
                                                                 uint64_t deadline_ns);

}  // namespace refract::kv
