// SPDX-License-Identifier: Apache-2.0
// What the node's server tells of itself, for INFO: once for all that want to know at a time, and for
// a moment only, so that a server which stands still does not hold INFO up.
//
// Threads: that of its door.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "refract/client/types.h"
#include "refract/runtime/op_table.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

struct Store;

struct NodeLook {
  bool is_under_way = false;
  std::optional<NodeStat> last;         // The last answer.
  std::vector<runtime::Token> waiting;  // For the next one.
};

// Asks, and waits for at most a second; then what was told last. Null: nothing was yet, or there is no node.
[[nodiscard]] runtime::Task<const NodeStat*> look_at_node(Store& store);

}  // namespace refract::doors::redis
