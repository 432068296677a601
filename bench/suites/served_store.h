// SPDX-License-Identifier: Apache-2.0
// A store of a published design on a server's thread, which keeps its house while there is traffic and sleeps
// when there is none, so that servers side by side do not take time from each other's turns.
#pragma once

#include "bench/suites/suite_ends.h"
#include "bench/suites/suite_store.h"

namespace refract::bench {

[[nodiscard]] RealServer::Serve serving(const StoreSpec& spec);

}  // namespace refract::bench
