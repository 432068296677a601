// SPDX-License-Identifier: Apache-2.0
// One-sided requests as awaitables, for protocols in coroutines:
//
//   const OpResult result = co_await read(endpoint, shard, remote, local, deadline_ns);
//
// Each posts one request; while the channel is full it gives others a turn and tries again. Nothing allocates
// after warm-up (frames come from the pool). Codes:
//
//   kUnavailable        the channel is closed or closing; nothing was sent, or (READ) the answer is lost
//   kDeadlineExceeded   nothing was sent in time, or (READ) the answer came too late
//   kIndeterminate      a WRITE, swap or add was sent and its fate is unknown
//   kOverloaded         the shard has too many operations in flight
//
// `local` belongs to the channel until the request completes. After any other end than a completion (a
// deadline, the coroutine being dropped) it must stay put until the channel has closed: a late READ still
// lands in it.
//
// Threads: only the endpoint's shard.
#pragma once

#include <cstdint>

#include "refract/fabric/channel.h"
#include "refract/fabric/dispatcher.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::fabric {

// A request without its token; not a Request, whose alignment no coroutine's frame keeps.
struct OneSided {
  Op op = Op::kRead;
  RemoteSpan remote;
  LocalSpan local{};  // kRead, kWrite.
  uint64_t compare = 0;
  uint64_t operand = 0;
};

// `endpoint` must outlive the task; its channel may close at any time.
[[nodiscard]] runtime::Task<runtime::OpResult> perform(const Endpoint& endpoint, runtime::Shard& shard,
                                                       OneSided request, uint64_t deadline_ns);

[[nodiscard]] inline runtime::Task<runtime::OpResult> read(const Endpoint& endpoint, runtime::Shard& shard,
                                                           RemoteSpan remote, LocalSpan local,
                                                           uint64_t deadline_ns) {
  return perform(endpoint, shard, {.op = Op::kRead, .remote = remote, .local = local}, deadline_ns);
}

[[nodiscard]] inline runtime::Task<runtime::OpResult> write(const Endpoint& endpoint, runtime::Shard& shard,
                                                            RemoteSpan remote, LocalSpan local,
                                                            uint64_t deadline_ns) {
  return perform(endpoint, shard, {.op = Op::kWrite, .remote = remote, .local = local}, deadline_ns);
}

struct Swap {
  uint64_t compare;  // What the word must hold.
  uint64_t value;    // What it gets then.
};
// The result's value is what the word held before.
[[nodiscard]] inline runtime::Task<runtime::OpResult> compare_swap(const Endpoint& endpoint,
                                                                   runtime::Shard& shard, RemoteSpan remote,
                                                                   Swap swap, uint64_t deadline_ns) {
  return perform(endpoint, shard,
                 {.op = Op::kCompareSwap, .remote = remote, .compare = swap.compare, .operand = swap.value},
                 deadline_ns);
}

// The result's value is what the word held before.
[[nodiscard]] inline runtime::Task<runtime::OpResult> fetch_add(const Endpoint& endpoint,
                                                                runtime::Shard& shard, RemoteSpan remote,
                                                                uint64_t addend, uint64_t deadline_ns) {
  return perform(endpoint, shard, {.op = Op::kFetchAdd, .remote = remote, .operand = addend}, deadline_ns);
}

}  // namespace refract::fabric
