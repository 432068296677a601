// SPDX-License-Identifier: Apache-2.0
// How several changes of one shard travel (batch_wire.h), and what comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/calls/rpc_types.h"
#include "refract/kv/layout/batch_wire.h"

namespace refract::kv {

// kOk, or what is wrong with the batch, which then says where.
[[nodiscard]] Code check_batch(RpcBatch& batch) noexcept;
// What stands behind BatchRequest.
[[nodiscard]] std::vector<std::byte> body_of_batch(const RpcBatch& batch);

struct BatchAnswer {
  Code code = Code::kMalformed;
  uint64_t view = 0;   // Not 0: what is missing is had by it.
  uint32_t bytes = 0;  // Of all that take_written() takes.
  std::span<const std::byte> here = {};
};
// The batch says what a refusal is about.
[[nodiscard]] BatchAnswer take_batch_reply(RpcBatch& batch, std::span<const std::byte> bytes) noexcept;
// Likewise what has been taken out of a longer one, with what stands behind that.
[[nodiscard]] BatchAnswer take_batch_reply(RpcBatch& batch, const wire::BatchReply& reply,
                                           std::span<const std::byte> behind) noexcept;
// REQUIRES: as many bytes as the answer said.
void take_written(RpcBatch& batch, std::span<const std::byte> written) noexcept;

}  // namespace refract::kv
