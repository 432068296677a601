// SPDX-License-Identifier: Apache-2.0
// What INFO tells, in Redis's sections and by its names.
//
// Threads: that of its door.
#pragma once

#include <string>

#include "refract/client/types.h"
#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {

// The sections of these names, in any letters; none named, or "all", "default", "everything": every one.
// `stat` is null where the node's server has told nothing yet: what it counts is left out.
[[nodiscard]] std::string info_text(Store& store, const NodeStat* stat, Words names);

}  // namespace refract::doors::redis
