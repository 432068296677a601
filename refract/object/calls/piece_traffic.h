// SPDX-License-Identifier: Apache-2.0
// An object's bytes on their way through a window at the owner: one-sided requests of 1 MiB each, several
// under way, so that a path with delay stays full and a deadline measures progress.
//
// Threads: used only by the session's shard. Dropped while requests are under way, it closes the session,
// because only a closed channel leaves the memory alone.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/object/layout/object_wire.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object {

class PieceTraffic {
 public:
  static constexpr uint64_t kPieceBytes = kMiB;
  static constexpr size_t kPiecesMax = 8;

  // Both outlive it. `timeout_ns`: of each piece.
  PieceTraffic(rpc::Session& session, runtime::Shard& shard, uint64_t timeout_ns) noexcept
      : session_(session), shard_(shard), timeout_ns_(timeout_ns) {}
  PieceTraffic(const PieceTraffic&) = delete;
  PieceTraffic& operator=(const PieceTraffic&) = delete;
  ~PieceTraffic();

  // Which way, and all of the bytes from `offset` on behind the window's beginning.
  struct Move {
    fabric::Op op = fabric::Op::kRead;
    wire::Place window{};
    uint64_t offset = 0;
    std::span<std::byte> local;
  };
  // Ends when all are over; with the first failure. kAccessDenied: there is no such window (any more).
  [[nodiscard]] runtime::Task<Code> carry(Move move);

 private:
  [[nodiscard]] runtime::Task<Code> post(Move piece);
  [[nodiscard]] runtime::Task<Code> finish_one();

  rpc::Session& session_;
  runtime::Shard& shard_;
  uint64_t timeout_ns_;
  std::deque<runtime::Pending> under_way_;  // The oldest first.
  bool is_unsafe_ = false;                  // One is unanswered: it may still use the memory.
};

}  // namespace refract::object
