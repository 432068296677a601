// SPDX-License-Identifier: Apache-2.0
// The version of the functions. Apart from everything else, so that a test can link a program of another
// version (docs/design/031-upgrade.md).
#include <cfloat>

#include "refract/kv/functions/functions.h"

namespace refract::kv::functions {
namespace {

// Higher where a row is added, or where one computes other bytes.
constexpr uint32_t kTableVersion = 1;

}  // namespace

uint32_t version() noexcept {
  return kTableVersion << 8 | LDBL_MANT_DIG;
}

}  // namespace refract::kv::functions
