// SPDX-License-Identifier: Apache-2.0
// The version of a space. Apart from everything else, so that a test can link a program of another version
// (docs/design/031-upgrade.md).
#include "refract/memory/space.h"

namespace refract {

const uint32_t kSpaceLayoutVersion = 4;

}  // namespace refract
