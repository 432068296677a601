// SPDX-License-Identifier: Apache-2.0
// The thread of a LogWriter, and the bell that its shard rings: a thread that has nothing to do sleeps and
// uses no CPU, and while it is awake ringing costs the shard a fence and a load.
//
// Threads: made and destroyed by one thread; ring_bell() and want_progress() are the shard's, wake() is
// any thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "refract/base/report.h"
#include "refract/runtime/shard_thread.h"
#include "refract/storage/log/log_writer.h"
#include "refract/storage/ring/ring.h"

namespace refract::storage {

class LogThread {
 public:
  // `on_progress` is called by the log's thread, after want_progress(), when a position or the state has
  // changed. Writer, ring and clock must outlive the thread.
  [[nodiscard]] static Reported<std::unique_ptr<LogThread>> start(LogWriter& writer, const Ring& ring,
                                                                  const Clock& clock, uint32_t shard,
                                                                  std::function<void()> on_progress);
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;
  // Ends after the round that it is in; what is in the ring then stays there.
  ~LogThread();

  // Wakes the thread if it waits for what has been appended by now.
  void ring_bell() noexcept;
  // Wakes it, if it sleeps, for a request of its writer.
  void wake() noexcept;
  // The next progress is told. A caller that wants to sleep looks at the positions again after this.
  void want_progress() noexcept { is_waited_for_.store(true, std::memory_order_seq_cst); }

 private:
  LogThread(LogWriter& writer, const Ring& ring, const Clock& clock,
            std::function<void()> on_progress) noexcept
      : writer_(writer),
        ring_(ring),
        clock_(clock),
        on_progress_(std::move(on_progress)),
        told_state_(writer.state()) {}
  int run() noexcept;
  void wait_for_work(const LogWriter::Step& next) noexcept;
  void tell_progress() noexcept;
  void end_wait() noexcept;

  LogWriter& writer_;
  const Ring& ring_;
  const Clock& clock_;
  std::function<void()> on_progress_;
  uint64_t told_written_ = 0;
  uint64_t told_synced_ = 0;
  LogState told_state_;
  // The ring position that the sleeping thread waits for; kAwake, or kNoPosition: it waits for time alone.
  static constexpr uint64_t kAwake = UINT64_MAX;
  static constexpr uint64_t kNoPosition = UINT64_MAX - 1;
  alignas(64) std::atomic<uint64_t> wake_at_ = kAwake;
  std::atomic<uint32_t> ticket_ = 0;  // A futex: a waiter sleeps until it changes.
  std::atomic<bool> is_stopping_ = false;
  std::atomic<bool> is_waited_for_ = false;
  std::unique_ptr<runtime::ShardThread> thread_;
};

}  // namespace refract::storage
