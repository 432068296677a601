// SPDX-License-Identifier: Apache-2.0
// Replies whose callers have given up, by a timeout or because they were dropped.
#include <optional>
#include <span>

#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/layout/batch_wire.h"
#include "refract/kv/layout/numbered_wire.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv {

using wire::Method;

namespace {

constexpr bool opens_upload(uint16_t method) noexcept {
  return method == static_cast<uint16_t>(Method::kPutBegin) ||
         method == static_cast<uint16_t>(wire::NumberedMethod::kPullDraft);
}

// What the reply to a method opened; 0: nothing.
uint64_t opened_by(uint16_t method, std::span<const std::byte> bytes) noexcept {
  if (opens_upload(method)) {
    const auto upload = wire::take<wire::Handle>(bytes);
    return upload ? upload->id : 0;
  }
  switch (static_cast<Method>(method)) {
    case Method::kGet: {
      const auto reply = wire::take<wire::GetReply>(bytes);
      return reply ? reply->view : 0;
    }
    case Method::kScan: {
      const auto reply = wire::take<wire::ScanReply>(bytes);
      return reply ? reply->view : 0;
    }
    case Method::kBatch: {
      const auto reply = wire::take<wire::BatchReply>(bytes);
      return reply ? reply->view : 0;
    }
    default:
      return 0;
  }
}

}  // namespace

std::optional<rpc::Call> RpcClient::close_late(uint16_t method, const runtime::OpResult& reply) noexcept {
  late_ = {opened_by(method, reply.bytes)};
  if (late_.id == 0) return std::nullopt;
  const Method closing = opens_upload(method) ? Method::kPutAbandon : Method::kViewClose;
  return rpc::Call{.method = static_cast<uint16_t>(closing), .head = std::as_bytes(std::span(&late_, 1))};
}

}  // namespace refract::kv
