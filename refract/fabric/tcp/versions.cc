// SPDX-License-Identifier: Apache-2.0
// The versions of the wire. Apart from everything else, so that a test can link a program of another version
// (docs/design/031-upgrade.md).
#include "refract/fabric/tcp/handshake.h"

namespace refract::fabric::tcp {

const uint16_t kWireVersion = 3;
const uint16_t kWireVersionOldest = 2;

}  // namespace refract::fabric::tcp
