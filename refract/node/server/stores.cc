// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server/stores.h"

#include "refract/node/server/hosted_kv.h"

namespace refract::node {

std::span<const StoreRow> built_in_stores() noexcept {
  static constexpr StoreRow kRows[] = {{.name = "kv", .make = host_kv}};
  return kRows;
}

}  // namespace refract::node
