// SPDX-License-Identifier: Apache-2.0
// The versions of the meeting and of the node page. Apart from everything else, so that a test can link a
// program of another version (docs/design/031-upgrade.md).
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/shm/wire.h"

namespace refract::fabric::shm {

const uint16_t kWireVersionLowest = 1;
const uint16_t kWireVersionHighest = 2;
const uint64_t kNodePageVersion = 5;

}  // namespace refract::fabric::shm
