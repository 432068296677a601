// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/log_thread.h"

#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "refract/base/units.h"
#include "refract/memory/remote_visible.h"

namespace refract::storage {
namespace {

// Longer sleeps are cut: a clock that stands still for a suspended host costs a look, no more.
constexpr uint64_t kSleepNsMax = 3600 * kSecond_ns;

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, const timespec* timeout) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, timeout, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

Reported<std::unique_ptr<LogThread>> LogThread::start(LogWriter& writer, const Ring& ring, const Clock& clock,
                                                      uint32_t shard, std::function<void()> on_progress) {
  std::unique_ptr<LogThread> log(new LogThread(writer, ring, clock, std::move(on_progress)));
  log->told_written_ = writer.written();
  log->told_synced_ = writer.synced();
  log->told_state_ = writer.state();
  LogThread* const self = log.get();
  Reported<std::unique_ptr<runtime::ShardThread>> thread = runtime::ShardThread::start(
      {.name = fmt::format("refract-log-{}", shard), .on_end = [](int) {}}, [self] { return self->run(); });
  if (!thread) return report(std::move(thread.error()));
  log->thread_ = *std::move(thread);
  return log;
}

LogThread::~LogThread() {
  is_stopping_.store(true, std::memory_order_seq_cst);
  end_wait();
  thread_.reset();
}

int LogThread::run() noexcept {
  while (!is_stopping_.load(std::memory_order_acquire)) {
    const LogWriter::Step next = writer_.step();
    tell_progress();
    if (!next.did_something) wait_for_work(next);
  }
  return 0;
}

void LogThread::tell_progress() noexcept {
  const uint64_t written = writer_.written();
  const uint64_t synced = writer_.synced();
  const LogState state = writer_.state();
  if (written == told_written_ && synced == told_synced_ && state == told_state_) return;
  // A waiter says so, then looks at the positions: so either it sees these, or it is seen here.
  store_load_fence();
  if (!is_waited_for_.load(std::memory_order_seq_cst)) {
    told_state_ = state;
    told_written_ = written;
    told_synced_ = synced;
    return;
  }
  is_waited_for_.store(false, std::memory_order_seq_cst);
  told_state_ = state;
  told_written_ = written;
  told_synced_ = synced;
  if (on_progress_) on_progress_();
}

void LogThread::wait_for_work(const LogWriter::Step& next) noexcept {
  const uint32_t ticket = ticket_.load(std::memory_order_acquire);
  wake_at_.exchange(std::min(next.wake_at, kNoPosition), std::memory_order_seq_cst);
  store_load_fence();
  const uint64_t now_ns = clock_.now_ns();
  const bool is_wanted = ring_.observe_appended() >= next.wake_at || writer_.has_requests() ||
                         is_stopping_.load(std::memory_order_seq_cst) || now_ns >= next.due_ns;
  if (!is_wanted) {
    timespec timeout = {};
    const uint64_t ns = std::min(next.due_ns - now_ns, kSleepNsMax);
    timeout.tv_sec = static_cast<time_t>(ns / kSecond_ns);
    timeout.tv_nsec = static_cast<long>(ns % kSecond_ns);
    futex_wait(ticket_, ticket, &timeout);
  }
  wake_at_.store(kAwake, std::memory_order_relaxed);
}

void LogThread::ring_bell() noexcept {
  // The appended position was stored before; either this load sees that the thread sleeps, or the thread sees
  // the position.
  store_load_fence();
  uint64_t wake_at = wake_at_.load(std::memory_order_relaxed);
  if (ring_.appended() < wake_at) return;
  // Once for each sleep.
  if (wake_at_.compare_exchange_strong(wake_at, kAwake)) end_wait();
}

void LogThread::wake() noexcept {
  store_load_fence();
  if (wake_at_.load(std::memory_order_relaxed) != kAwake) end_wait();
}

void LogThread::end_wait() noexcept {
  ticket_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(ticket_);
}

}  // namespace refract::storage
