// SPDX-License-Identifier: Apache-2.0
// The process of the doors: an ordinary client of the node, which speaks other protocols than ours.
#pragma once

namespace refract::doors {

// Asks the keeper at this descriptor where to listen, serves until the keeper ends or SIGTERM comes, and
// returns the process's exit code. REQUIRES: the process has one thread.
[[nodiscard]] int run_doors(int keeper_link);

}  // namespace refract::doors
