// SPDX-License-Identifier: Apache-2.0
// What a Client is behind its public header: what it was told, and a ThreadState for each thread that has
// used it. See docs/design/014-client-threads.md.
//
// Invariants: (T1) A thread state is in `threads_` until its thread or the Client ends; the one that takes it
// out destroys it. (T2) What can still name a ClientState holds one of its references: the Client, each
// thread that has a state of it, each creation and subscription, so that no address is used
// again while a thread remembers it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/client/client.h"
#include "refract/client/link/forks.h"
#include "refract/client/link/settings.h"
#include "refract/client/reservation.h"
#include "refract/client/reservation_shelf.h"
#include "refract/client/thread_state.h"

namespace refract::client {

class ClientState {
 public:
  [[nodiscard]] static Reported<Client> connect(std::string_view address, const ClientOptions& options);

  ClientState(const ClientState&) = delete;
  ClientState& operator=(const ClientState&) = delete;

  // Whether mine_at_once() is the calling thread's: so it is, unless it used another Client last.
  [[nodiscard]] bool has_mine_at_once() const noexcept { return latest_.client_id == id_; }
  [[nodiscard]] static ThreadState& mine_at_once() noexcept { return *latest_.state; }
  // The calling thread's; made if there is none. Null in a child of the process that made the Client.
  [[nodiscard]] ThreadState* mine();

  [[nodiscard]] Result<Reservation> reserve(uint64_t bytes) { return shelf_->reserve(bytes); }
  // The same without a bound on the length, for objects. Goes back by take_back() behind a refer().
  [[nodiscard]] Result<SharedBufferHold> take_memory(uint64_t bytes) { return shelf_->take(bytes); }
  // Of a creation that has ended, perhaps after the Client. Lets go of a reference.
  void take_back(SharedBufferHold memory) noexcept;
  // One reference more, and one less, which may be the last.
  void refer() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;
  // Only what holds its memory is left.
  [[nodiscard]] bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }

  [[nodiscard]] uint64_t timeout_ns() const noexcept { return settings_->options.timeout_ns; }

  // Of the Client: ends everything but what views hold.
  void end() noexcept;
  [[nodiscard]] ClientCounters counters() const noexcept;

 private:
  struct Latest {
    uint64_t client_id = 0;  // 0: none.
    ThreadState* state = nullptr;
  };
  struct Entry {
    ClientState* client;
    ThreadState* state;  // Valid unless the Client has ended.
  };
  class ThreadEntries;

  explicit ClientState(std::unique_ptr<const Settings> settings);
  ~ClientState() = default;
  [[nodiscard]] ThreadState* make_mine();
  // What the thread had of this Client goes, unless the Client went first.
  void thread_ended(const ThreadState* state) noexcept;

  // The thread's last answer of mine(). Initial-exec, because a call to find it would cost as much as a get.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit Latest latest_;
  static thread_local ThreadEntries entries_;

  const uint64_t id_;  // Never used twice in a process.
  const std::unique_ptr<const Settings> settings_;
  const ForkGuard guard_;
  const ReservationShelf::Owned shelf_ = ReservationShelf::make_empty();
  std::atomic<uint32_t> references_ = 1;
  std::atomic<bool> ended_ = false;
  mutable std::mutex mutex_;  // Of what follows.
  std::vector<std::unique_ptr<ThreadState>> threads_;
  std::unique_ptr<ThreadState> spare_;  // Connected by connect(), for the first thread that calls.
  ClientCounters ended_counters_;
};

}  // namespace refract::client
