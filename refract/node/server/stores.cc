// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server/stores.h"

#include "refract/node/hosted_kv/hosted_kv.h"
#include "refract/node/hosted_objects/hosted_objects.h"

namespace refract::node {

NodeStores built_in_stores() noexcept {
  static constexpr StoreRow kOfKeys[] = {kKvRow};
  static constexpr StoreRow kOfObjects[] = {kObjectsRow};
  return {.keys = kOfKeys, .objects = kOfObjects};
}

}  // namespace refract::node
