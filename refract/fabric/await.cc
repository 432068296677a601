// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/await.h"

namespace refract::fabric {

namespace {

// Not inlined: clang would move the request into the coroutine's frame, which is aligned to 16 bytes only.
[[nodiscard, gnu::noinline]] bool try_post(Channel& channel, const OneSided& one, uint64_t token) noexcept {
  const Request request = {.token = token,
                           .local = one.local,
                           .remote = one.remote,
                           .compare = one.compare,
                           .operand = one.operand,
                           .op = one.op};
  return channel.post({&request, 1}) == 1;
}

}  // namespace

runtime::Task<runtime::OpResult> perform(const Endpoint& endpoint, runtime::Shard& shard, OneSided request,
                                         uint64_t deadline_ns) {
  // Awaiting changes it, which the check does not see.
  runtime::Pending operation =  // NOLINT(misc-const-correctness)
      shard.ops().begin(deadline_ns);
  if (operation.token() == 0) co_return runtime::OpResult{.code = Code::kOverloaded};
  for (;;) {
    if (endpoint.channel == nullptr) co_return runtime::OpResult{.code = Code::kUnavailable};
    if (try_post(*endpoint.channel, request, operation.token())) break;
    co_await shard.sleep_for(0);
    if (shard.now_ns() >= deadline_ns) co_return runtime::OpResult{.code = Code::kDeadlineExceeded};
  }
  runtime::OpResult result = co_await operation;
  const bool fate_unknown = result.code == Code::kDeadlineExceeded || result.code == Code::kUnavailable;
  if (fate_unknown && request.op != Op::kRead) result.code = Code::kIndeterminate;
  co_return result;
}

}  // namespace refract::fabric
