// SPDX-License-Identifier: Apache-2.0
// What clients share that work on an owner's memory from afar, by chains or by READs: what they must learn
// first, which is the attachment; the deadlines; and what became of a request that changes nothing.
//
// An attachment is of the session as it is open: after the session has opened again it is tried again, once.
//
// Threads: used only by its shard.
#pragma once

#include <cstdint>

#include "refract/base/result.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class AttachedClient {
 public:
  AttachedClient(const AttachedClient&) = delete;
  AttachedClient& operator=(const AttachedClient&) = delete;

  // Learns what is needed, which is otherwise done by the first operation. kOk, or why the owner's memory is
  // out of reach: what learn() said, or what went wrong on the way, which the next operation tries again.
  [[nodiscard]] runtime::Task<Code> attach(uint64_t deadline_ns = 0);
  // Of the session as it is open now: kOk, what attach() ended with, or kUnavailable before it was tried.
  [[nodiscard]] Code attached() const noexcept { return is_current() ? attached_ : Code::kUnavailable; }

  [[nodiscard]] RpcClient& rpc() noexcept { return rpc_; }

 protected:
  // Both outlive the client. `rpc` is the way to the owner, over the same session. `timeout_ns`: of
  // operations without a deadline of their own.
  AttachedClient(RpcClient& rpc, runtime::Shard& shard, uint64_t timeout_ns) noexcept
      : rpc_(rpc), session_(rpc.session()), shard_(shard), timeout_ns_(timeout_ns) {}
  virtual ~AttachedClient() = default;

  // What the next operation tries again: its outcome is unknown.
  [[nodiscard]] static bool is_lost(Code code) noexcept {
    return code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kIndeterminate;
  }
  [[nodiscard]] bool is_current() const noexcept {
    return is_tried_ && tried_opened_ns_ == session_.opened_ns();
  }
  [[nodiscard]] uint64_t deadline_or_default(uint64_t deadline_ns) const noexcept {
    return deadline_ns != 0 ? deadline_ns : shard_.now_ns() + timeout_ns_;
  }
  // What became of a request that changes nothing: that it may have been executed is of no interest.
  [[nodiscard]] Code read_outcome(Code code) const noexcept {
    if (code != Code::kIndeterminate) return code;
    return session_.state() == rpc::Session::State::kClosed ? Code::kUnavailable : Code::kDeadlineExceeded;
  }

  RpcClient& rpc_;
  rpc::Session& session_;
  runtime::Shard& shard_;

 private:
  [[nodiscard]] virtual runtime::Task<Code> learn(uint64_t deadline_ns) = 0;

  const uint64_t timeout_ns_;
  bool is_tried_ = false;
  uint64_t tried_opened_ns_ = 0;
  Code attached_ = Code::kUnavailable;
};

}  // namespace refract::kv
