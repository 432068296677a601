// SPDX-License-Identifier: Apache-2.0
// The calls of numbered writes over a session (numbered_wire.h, docs/design/077), as they are: no call is
// repeated here, and numbers, order and acknowledgements are the caller's.
//
// Codes: those of the owner; kUnavailable: nothing was sent; kIndeterminate: it was sent, and the answer did
// not come; kMalformed: the answer makes no sense.
//
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/layout/numbered_wire.h"
#include "refract/kv/layout/operations_body.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::kv {

// What became of one operation.
struct ToldOperation {
  Code code = Code::kOk;  // kOverloaded: refused for now, and nothing has happened.
  bool is_told_again = false;
  bool is_not_executed = false;  // Of a withdrawal.
  uint8_t answer_bytes = 0;
  uint16_t place = wire::kPlaceUnknown;  // Of its record, by which it is acknowledged.
  uint64_t version = 0;
  std::array<std::byte, wire::kOperationAnswerBytesMax> answer{};

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::span(answer).first(answer_bytes);
  }
};

// Takes an answer apart, whose sender may still be changing it: as many as were asked for. False: it makes no
// sense.
[[nodiscard]] bool take_told(std::span<const std::byte> reply, std::span<ToldOperation> told) noexcept;

class NumberedCalls {
 public:
  // Outlives it.
  explicit NumberedCalls(rpc::Session& session) noexcept : session_(session) {}

  [[nodiscard]] runtime::Task<Result<wire::SessionReply>> begin(uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<wire::SessionReply>> resume(wire::SessionRequest name,
                                                                 uint64_t deadline_ns);
  // As many are told as the body has. It stays as it is until the call has ended.
  [[nodiscard]] runtime::Task<Code> operations(wire::OperationsBody& body, std::span<ToldOperation> told,
                                               uint64_t deadline_ns);

 private:
  [[nodiscard]] runtime::Task<Result<wire::SessionReply>> ask_session(wire::NumberedMethod method,
                                                                      std::span<const std::byte> body,
                                                                      uint64_t deadline_ns);

  rpc::Session& session_;
};

}  // namespace refract::kv
