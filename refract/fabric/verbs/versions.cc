// SPDX-License-Identifier: Apache-2.0
// The version of introductions. Apart from everything else, so that a test can link a program of another
// version (docs/design/031-upgrade.md).
#include "refract/fabric/verbs/wire.h"

namespace refract::fabric::verbs {

const uint16_t kWireVersion = 2;

}  // namespace refract::fabric::verbs
