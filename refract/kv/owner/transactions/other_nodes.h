// SPDX-License-Identifier: Apache-2.0
// The other nodes of a store that is spread over several (docs/design/070), as an owner asks them. What
// carries the calls is the node's matter.
//
// Threads: the owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class OtherNodes {
 public:
  virtual ~OtherNodes() = default;
  // By their names, in their order: which one this is, of how many.
  [[nodiscard]] virtual uint32_t self() const noexcept = 0;
  [[nodiscard]] virtual uint32_t members() const noexcept = 0;
  // cluster::placement_of() it.
  [[nodiscard]] virtual uint64_t placement_of(uint32_t member) const noexcept = 0;
  // Calls a shard of keys there, once. kUnavailable: it cannot be reached now; kIndeterminate: the answer did
  // not come. `body` outlives the call.
  [[nodiscard]] virtual runtime::Task<Result<std::vector<std::byte>>> ask(wire::FarPlace place,
                                                                          wire::TransactionMethod method,
                                                                          std::span<const std::byte> body,
                                                                          uint64_t deadline_ns) = 0;
  // How many shards of keys the member has. Nothing: it cannot be reached now.
  [[nodiscard]] virtual runtime::Task<std::optional<uint32_t>> shards_of(uint32_t member,
                                                                         uint64_t deadline_ns) = 0;
};

}  // namespace refract::kv
