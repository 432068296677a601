// SPDX-License-Identifier: Apache-2.0
// What happened to each call of a shard, recorded while a session asks for it: when it was taken, with which
// others, when it was answered and how.
//
// Memory is taken when a recording starts and given back when it is fetched or dropped; a full recording
// forgets its oldest records and counts them. Nothing is recorded, and nothing costs more than a branch, at
// all other times.
//
// Threads: used only by its shard.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/node/observe/wire.h"
#include "refract/rpc/server.h"

namespace refract::observe {

class CallTrace final : public rpc::ReplyTap {
 public:
  static constexpr uint64_t kRecordsMax = uint64_t{1} << 16;  // 2 MiB.

  // `clock` outlives the trace.
  explicit CallTrace(const Clock& clock) noexcept : clock_(clock) {}

  // Whether the caller must report batches. Looks at the clock only while recording.
  [[nodiscard]] bool is_on() noexcept { return on_ && is_still_on(); }
  [[nodiscard]] rpc::SessionId owner() const noexcept { return owner_; }

  // Returns how many records it will keep.
  uint64_t start(rpc::SessionId owner, uint64_t duration_ns, uint64_t records_max);
  void stop() noexcept { on_ = false; }
  // Stops, and gives everything back unfetched.
  void drop() noexcept;

  void batch(std::span<const rpc::IncomingCall> calls) noexcept;
  void worked(size_t calls) noexcept;
  void replied(const rpc::Responder& to, Code code, size_t bytes) noexcept override;

  // Stops; the TraceHeader and the records, oldest first, as they travel. The trace is empty afterwards.
  [[nodiscard]] std::string take();

 private:
  [[nodiscard]] bool is_still_on() noexcept;
  void record(const wire::TraceRecord& record) noexcept;

  const Clock& clock_;
  bool on_ = false;
  rpc::SessionId owner_;
  uint64_t started_ns_ = 0;
  uint64_t until_ns_ = 0;
  uint64_t recorded_ = 0;
  std::vector<wire::TraceRecord> records_;  // A ring.
};

}  // namespace refract::observe
