// SPDX-License-Identifier: Apache-2.0
// READs that leave together and are waited for together: one round trip.
//
//   batch.clear();
//   const size_t buffer = batch.add(remote_buffer, bytes);
//   const size_t slot = batch.add(remote_slot, 8);
//   const Code code = co_await batch.run(session.endpoint(), shard, deadline_ns);
//   if (code == Code::kOk && batch.code(slot) == Code::kOk) use(batch.word(slot));
//
// They are posted in the order added, and so is their effect. What they bring lies in memory of the batch.
// After run() has ended early (its deadline, its task dropped) READs may still land there: while
// is_under_way(), the batch must stay until its channel has closed.
//
// Threads: used only by the endpoint's shard. Nothing allocates once as much has been read at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/dispatcher.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class ReadBatch {
 public:
  ReadBatch() = default;
  ReadBatch(const ReadBatch&) = delete;
  ReadBatch& operator=(const ReadBatch&) = delete;
  ~ReadBatch() = default;

  // REQUIRES: nothing is under way.
  void clear() noexcept;
  // The READ's number.
  size_t add(const fabric::RemoteSpan& remote, size_t bytes);
  // Takes the last ones back.
  void cut(size_t size) noexcept;
  [[nodiscard]] size_t size() const noexcept { return reads_.size(); }

  // Once between two clear(). kOk: each READ has its own code, kOk or kAccessDenied. Else nothing was read:
  // kUnavailable, kDeadlineExceeded, kOverloaded. `endpoint` outlives the task.
  [[nodiscard]] runtime::Task<Code> run(const fabric::Endpoint& endpoint, runtime::Shard& shard,
                                        uint64_t deadline_ns);

  [[nodiscard]] Code code(size_t read) const noexcept { return reads_[read].code; }
  [[nodiscard]] std::span<const std::byte> bytes(size_t read) const noexcept {
    return {memory_.data() + reads_[read].at, reads_[read].bytes};
  }
  // REQUIRES: the READ was of 8 bytes at least.
  [[nodiscard]] uint64_t word(size_t read) const noexcept {
    uint64_t word = 0;
    std::memcpy(&word, memory_.data() + reads_[read].at, sizeof(word));
    return word;
  }

  [[nodiscard]] bool is_under_way() const noexcept { return landed_ < posted_; }
  // No task waits for what is under way any more.
  void stop_waiting() noexcept { operations_.clear(); }
  // The channel has closed.
  void forget_under_way() noexcept { landed_ = posted_; }

 private:
  struct Read {
    fabric::RemoteSpan remote;
    size_t at = 0;  // In memory_.
    size_t bytes = 0;
    Code code = Code::kOk;
  };

  [[nodiscard]] bool prepare(runtime::Shard& shard, uint64_t deadline_ns);
  void post_more(fabric::Channel& channel) noexcept;
  void settle(size_t read, Code code) noexcept;

  std::vector<Read> reads_;
  size_t memory_bytes_ = 0;
  std::vector<std::byte> memory_;
  std::vector<fabric::Request> requests_;
  std::vector<runtime::Pending> operations_;
  size_t posted_ = 0;
  size_t landed_ = 0;
  Code outcome_ = Code::kOk;
};

}  // namespace refract::kv
