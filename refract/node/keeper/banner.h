// SPDX-License-Identifier: Apache-2.0
// What a person reads when a node starts and when it stops.
#pragma once

#include <string>

#include "refract/node/keeper/keeper.h"

namespace refract::node {

// Memory taken, socket, how to stop, and three lines to copy that work. `client` is how the CLI is called
// from here.
[[nodiscard]] std::string start_banner(const Keeper& keeper, const std::string& client);

// What happens to the data.
[[nodiscard]] std::string stop_banner(const Keeper& keeper);

}  // namespace refract::node
