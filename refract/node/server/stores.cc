// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server/stores.h"

#include "refract/node/hosted_kv/hosted_kv.h"

namespace refract::node {

std::span<const StoreRow> built_in_stores() noexcept {
  static constexpr StoreRow kRows[] = {kKvRow};
  return kRows;
}

}  // namespace refract::node
