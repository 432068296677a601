// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/numbered_calls.h"

#include <algorithm>

#include "refract/base/check.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

bool take_told(std::span<const std::byte> reply, std::span<ToldOperation> told) noexcept {
  for (ToldOperation& each : told) {
    const auto one = wire::take_operation_answer(reply);
    if (!one) return false;
    each = {.code = one->code,
            .is_told_again = (one->answer.flags & wire::OperationAnswer::kToldAgain) != 0,
            .is_not_executed = (one->answer.flags & wire::OperationAnswer::kNotExecuted) != 0,
            .answer_bytes = one->answer.bytes,
            .place = one->answer.place,
            .version = one->answer.version};
    if (!one->bytes.empty()) copy_possibly_torn(each.answer.data(), one->bytes.data(), one->bytes.size());
  }
  return reply.empty();
}

Task<Result<wire::SessionReply>> NumberedCalls::begin(uint64_t deadline_ns) {
  return ask_session(wire::NumberedMethod::kSessionBegin, {}, deadline_ns);
}

Task<Result<wire::SessionReply>> NumberedCalls::resume(wire::SessionRequest name, uint64_t deadline_ns) {
  co_return co_await ask_session(wire::NumberedMethod::kSessionResume, std::as_bytes(std::span(&name, 1)),
                                 deadline_ns);
}

Task<Result<wire::SessionReply>> NumberedCalls::ask_session(wire::NumberedMethod method,
                                                            std::span<const std::byte> body,
                                                            uint64_t deadline_ns) {
  const OpResult result =
      co_await session_.call({.method = static_cast<uint16_t>(method), .head = body}, deadline_ns);
  if (result.code != Code::kOk) co_return fail(result.code);
  std::span<const std::byte> left = result.bytes;
  const auto reply = wire::take<wire::SessionReply>(left);
  const bool is_sound = reply && left.empty() && reply->id != 0 && reply->reserved == 0;
  if (!is_sound) co_return fail(Code::kMalformed);
  co_return *reply;
}

Task<Code> NumberedCalls::operations(wire::OperationsBody& body, std::span<ToldOperation> told,
                                     uint64_t deadline_ns) {
  REFRACT_CHECK(told.size() == body.operations());
  const OpResult result = co_await session_.call(
      {.method = static_cast<uint16_t>(wire::NumberedMethod::kOperations), .head = {}, .tail = body.bytes()},
      deadline_ns);
  if (result.code != Code::kOk) co_return result.code;
  co_return take_told(result.bytes, told) ? Code::kOk : Code::kMalformed;
}

}  // namespace refract::kv
