// SPDX-License-Identifier: Apache-2.0
// Several changes at one moment: one call, and where the body is longer than a message, its pieces before.
#include <algorithm>
#include <cstring>
#include <vector>

#include "refract/kv/calls/batch_body.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/rpc_client_parts.h"
#include "refract/kv/layout/batch_wire.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;
using wire::Method;

// The one body that a session has room for; others wait.
class RpcClient::StagedBatch {
 public:
  explicit StagedBatch(RpcClient& client) noexcept : client_(client) {}
  StagedBatch(const StagedBatch&) = delete;
  StagedBatch& operator=(const StagedBatch&) = delete;
  ~StagedBatch() {
    if (is_taken_) client_.is_batch_staged_ = false;
  }
  // False: another has it.
  [[nodiscard]] bool take() noexcept {
    if (client_.is_batch_staged_) return false;
    client_.is_batch_staged_ = is_taken_ = true;
    return true;
  }

 private:
  RpcClient& client_;
  bool is_taken_ = false;
};

Task<Result<>> RpcClient::change(RpcBatch& batch, uint64_t deadline_ns, RpcAttempt attempt) {
  if (const Code code = check_batch(batch); code != Code::kOk) co_return fail(code);
  RetryBudget budget{.deadline_ns = deadline_or_default(deadline_ns)};
  Writing writing = Writing::of(attempt, shard_.now_ns());
  if (writing.repeats) {
    const bool is_open = co_await is_open_again(budget.deadline_ns);
    if (!is_open) co_return fail(Code::kIndeterminate);
  }
  const std::vector<std::byte> body = body_of_batch(batch);
  for (;;) {
    const Code code = co_await change_once(batch, body, writing, deadline_ns);
    if (code == Code::kOk) co_return Result<>();
    const bool again = co_await may_write_again(code, writing, budget);
    if (!again) co_return fail(writing.outcome(code));
  }
}

Task<Code> RpcClient::change_once(RpcBatch& batch, std::span<const std::byte> body, Writing& writing,
                                  uint64_t deadline_ns) {
  const bool fits = sizeof(wire::BatchRequest) + body.size() <= body_bytes_max_;
  StagedBatch staged(*this);
  if (!fits) {
    const uint64_t give_up_ns = deadline_or_default(deadline_ns);
    while (!staged.take()) {
      if (shard_.now_ns() >= give_up_ns) co_return Code::kDeadlineExceeded;
      co_await shard_.sleep_for(RetryBudget::kPauseMin_ns);
    }
    const Code code = co_await stage_batch(body, deadline_ns);
    if (code != Code::kOk) co_return code;
  }
  const wire::BatchRequest request{.conditions = static_cast<uint16_t>(batch.conditions.size()),
                                   .writes = static_cast<uint16_t>(batch.writes.size()),
                                   .staged_bytes = fits ? 0 : static_cast<uint32_t>(body.size()),
                                   .identity = writing.identity(session_.opened_ns())};
  const std::span<const std::byte> tail = fits ? body : std::span<const std::byte>();
  const OpResult result = co_await session_.call({.method = static_cast<uint16_t>(Method::kBatch),
                                                  .head = std::as_bytes(std::span(&request, 1)),
                                                  .tail = tail},
                                                 deadline_or_default(deadline_ns));
  writing.is_unknowable = result.code == Code::kIndeterminate && result.value != 0;
  if (result.code != Code::kOk) co_return result.code;
  const Code code = co_await take_batch_answer(batch, result.bytes, writing, deadline_ns);
  co_return code;
}

Task<Code> RpcClient::stage_batch(std::span<const std::byte> body, uint64_t deadline_ns) {
  const size_t piece_bytes = body_bytes_max_ - sizeof(wire::BatchPieceRequest);
  for (size_t offset = 0; offset < body.size(); offset += piece_bytes) {
    const wire::BatchPieceRequest request{.offset = static_cast<uint32_t>(offset), .reserved = 0};
    const OpResult staged =
        co_await session_.call({.method = static_cast<uint16_t>(Method::kBatchPiece),
                                .head = std::as_bytes(std::span(&request, 1)),
                                .tail = body.subspan(offset, std::min(piece_bytes, body.size() - offset))},
                               deadline_or_default(deadline_ns));
    // Nothing but the staged bytes has changed: never "indeterminate".
    if (staged.code != Code::kOk) co_return read_outcome(staged.code);
  }
  co_return Code::kOk;
}

Task<Code> RpcClient::take_batch_answer(RpcBatch& batch, std::span<const std::byte> bytes, Writing& writing,
                                        uint64_t deadline_ns) {
  const BatchAnswer answer = take_batch_reply(batch, bytes);
  OpenHandle view(session_, Method::kViewClose, answer.view);
  writing.is_unknowable = answer.code == Code::kIndeterminate;
  if (answer.code != Code::kOk) co_return answer.code;
  std::vector<std::byte> written(answer.bytes);
  if (!answer.here.empty()) copy_possibly_torn(written.data(), answer.here.data(), answer.here.size());
  if (answer.view != 0) {
    const Code read = co_await read_view(
        {.view = answer.view, .window = {}, .target = written, .from = answer.here.size()}, deadline_ns);
    // It has happened, but what it made is lost.
    if (read != Code::kOk) co_return Code::kIndeterminate;
    view.forget();
  }
  take_written(batch, written);
  co_return Code::kOk;
}

}  // namespace refract::kv
