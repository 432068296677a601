// SPDX-License-Identifier: Apache-2.0
// Brings values into drafts: READs of the memory of the clients that put them, several under way at once.
//
// (P1) A pull is reported once, and none of its READs is under way then: from that moment on its target may
// be
//      given away. That is why no READ here has a deadline: it ends by its completion, which the channel
//      owes.
// (P2) A pull that ends with its session is not reported. Its channel has closed, and nothing lands after
// that.
//
// Sessions take turns (docs/design/013-overload.md): of each a bounded number of bytes is under way or in the
// line for the bytes that all may have under way, however many values it puts at once.
//
// Threads: used only by the shard that owns the table. Each pull allocates a little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/rpc/server.h"
#include "refract/rpc/transfer_room.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class PullFetcher {
 public:
  // One request is no longer than this, so that no reply of its session stands behind a long READ; where the
  // channel shares long ones between threads, as long as that takes.
  static constexpr uint64_t kPieceBytes = 256 * kKiB;
  // Under way, of one session and of all. A peer that is gone holds up its own share for as long as its
  // channel takes to close.
  static constexpr uint64_t kPiecesPerSession = 4;
  static constexpr uint64_t kPiecesOfAll = 16 * kPiecesPerSession;

  struct Pull {
    rpc::Responder to;
    uint64_t upload = 0;  // The taker's word for it, likewise the next.
    bool is_draft = false;
    fabric::RemoteSpan source;
    std::span<std::byte> target;
    uint64_t give_up_ns = 0;  // No READ is begun from then on.
  };
  class Taker {
   public:
    virtual ~Taker() = default;
    // kOk: all bytes are there. kAccessDenied: the peer's device refused. kDeadlineExceeded, kUnavailable,
    // kOverloaded.
    virtual void pulled(const Pull& pull, Code code) noexcept = 0;
  };

  // Both outlive it.
  PullFetcher(runtime::Shard& shard, Taker& taker, uint64_t piece_bytes) noexcept
      : shard_(shard), taker_(taker), piece_bytes_(piece_bytes), all_(shard, kPiecesOfAll * piece_bytes) {}
  PullFetcher(const PullFetcher&) = delete;
  PullFetcher& operator=(const PullFetcher&) = delete;
  // What is under way may still land: the targets stay, or all channels have closed.
  ~PullFetcher();

  // Whose channels carry the READs; null: sessions have ended.
  void reach_through(rpc::Server* server) noexcept { server_ = server; }

  void start(const Pull& pull);
  // REQUIRES: the session's channel has closed.
  void end(rpc::SessionId session) noexcept;

  struct Counts {
    uint64_t values = 0;  // That came whole,
    uint64_t bytes = 0;   // theirs,
    uint64_t failed = 0;  // and those that did not.
    uint64_t reads = 0;   // Posted.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // Of all sessions: bytes that are under way.
  [[nodiscard]] uint64_t bytes_under_way() const noexcept { return all_.taken(); }

 private:
  class Fetching;
  struct Running {
    Pull pull;
    runtime::Task<> task;
  };
  struct Session {
    Session(runtime::Shard& shard, uint64_t bytes_max) noexcept : room(shard, bytes_max) {}
    rpc::TransferRoom room;
    bool is_over = false;
    std::vector<std::unique_ptr<Running>> pulls;
  };

  [[nodiscard]] fabric::Channel* channel_of(rpc::SessionId session) const noexcept;
  [[nodiscard]] uint64_t next_piece(rpc::SessionId session, uint64_t bytes_left) const noexcept;
  [[nodiscard]] runtime::Task<> fetch(Session& session, const Pull& pull);

  runtime::Shard& shard_;
  Taker& taker_;
  const uint64_t piece_bytes_;
  rpc::Server* server_ = nullptr;
  rpc::TransferRoom all_;
  Counts counts_;
  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions_;
};

}  // namespace refract::kv
