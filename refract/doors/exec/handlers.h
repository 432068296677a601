// SPDX-License-Identifier: Apache-2.0
// What runs transactions, and commands of several keys at one moment. Only the table of commands and the
// handlers' own sources include this.
#pragma once

#include "refract/doors/exec/multi.h"
#include "refract/doors/redis/commands.h"
#include "refract/doors/redis/session.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

bool multi(Call& call);
bool discard(Call& call);
bool unwatch(Call& call);
runtime::Task<> watch(Store& store, Pending& command);
runtime::Task<> exec(Store& store, Pending& command);

// Whether EXEC runs it when its commit has happened: it has no part in the store.
[[nodiscard]] bool runs_beside_body(const Row& row) noexcept;

// At one moment over all shards.
runtime::Task<> mget(Store& store, Pending& command);
runtime::Task<> mset_together(Store& store, Pending& command);
runtime::Task<> del_together(Store& store, Pending& command);
// MSETNX, RENAME, RENAMENX and COPY.
runtime::Task<> run_together(Store& store, Pending& command);

}  // namespace refract::doors::redis
