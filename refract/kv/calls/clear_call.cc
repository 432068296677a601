// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/clear_call.h"

#include <span>

#include "refract/kv/layout/numbered_wire.h"

namespace refract::kv {

runtime::Task<Result<wire::ClearReply>> clear_some(rpc::Session& session, wire::ClearRequest request,
                                                   uint64_t deadline_ns) {
  const runtime::OpResult result =
      co_await session.call({.method = static_cast<uint16_t>(wire::NumberedMethod::kClear),
                             .head = std::as_bytes(std::span(&request, 1)),
                             .tail = {}},
                            deadline_ns);
  // Also where it was sent.
  if (result.code == Code::kIndeterminate) {
    const bool is_lost = session.state() == rpc::Session::State::kClosed;
    co_return fail(is_lost ? Code::kUnavailable : Code::kDeadlineExceeded);
  }
  if (result.code != Code::kOk) co_return fail(result.code);
  const auto reply = wire::take_clear_reply(result.bytes);
  if (!reply) co_return fail(Code::kMalformed);
  co_return *reply;
}

}  // namespace refract::kv
