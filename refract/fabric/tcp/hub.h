// SPDX-License-Identifier: Apache-2.0
// What the connections of a domain share, and the turn in which each gets its share.
//
// Few active connections are read without asking epoll first: a shard that spins on one of them makes one
// system call a poll. With many, epoll says which to read. A connection that was quiet for long is left to
// epoll altogether. Events are edge-triggered, so that no connection has to change what it is watched for;
// only while the shard spins without ever sleeping, its few busy connections are not watched at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/fabric/region_table.h"
#include "refract/fabric/tcp/block_pool.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/output.h"

namespace refract::fabric::tcp {

class Connection;

class Hub {
 public:
  static constexpr size_t kCompletionsMax = 4096;
  // In an epoll event's word, where no connection's address stands.
  static constexpr uint64_t kBell = 1;
  static constexpr uint64_t kTimer = 2;

  // `accepted`: the connections are of the accepting side.
  Hub(bool accepted, uint64_t output_bytes_max);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;
  virtual ~Hub() = default;

  // Control path. Makes the epoll descriptor.
  [[nodiscard]] Reported<> open();
  [[nodiscard]] bool watch(int fd, uint64_t word) noexcept;
  [[nodiscard]] bool watch(int fd, Connection& connection) noexcept;
  void unwatch(int fd) noexcept;
  // Of the epoll descriptor alone.
  [[nodiscard]] std::span<const int> wake_descriptors() const noexcept { return wake_descriptors_; }
  // Before each further connection, so that the data path allocates nothing for it.
  void make_room_for(size_t connections);

  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept;
  void flush() noexcept;
  [[nodiscard]] bool prepare_sleep() noexcept;
  void woke() noexcept { woken_ = true; }

  [[nodiscard]] bool has_room() const noexcept { return completed_tail_ - completed_head_ < kCompletionsMax; }
  [[nodiscard]] bool is_drained() const noexcept { return completed_head_ == completed_tail_; }
  void complete(const Completion& completion) noexcept {
    completed_[completed_tail_++ % kCompletionsMax] = completion;
  }
  // What waits for peers that do not read is as much as it may be.
  [[nodiscard]] bool is_over_budget() const noexcept {
    return blocks.taken() * kBlockBytes > output_bytes_max_;
  }

  void activate(Connection& connection) noexcept;
  [[nodiscard]] bool has_others_active() const noexcept { return active_.size() > 1; }
  void will_flush(Connection& connection) noexcept { to_flush_.push_back(&connection); }
  // Bytes of a region are on their way in or out of it: a revocation concerns it.
  void moves(Connection& connection) noexcept { moving_.push_back(&connection); }
  [[nodiscard]] uint64_t revoke(uint16_t region) noexcept;
  void holds_delivered(Connection& connection) noexcept { delivered_.push_back(&connection); }
  void count_unwatched(bool unwatched) noexcept { unwatched_ += unwatched ? size_t{1} : ~size_t{0}; }
  void count_blocked(bool blocked) noexcept { blocked_ += blocked ? size_t{1} : ~size_t{0}; }
  // Takes it out of every list. The connection stays valid until destroy_closed().
  void forget(Connection& connection) noexcept;

  const bool accepted;
  RegionTable regions;
  DomainCounters counters;
  BlockPool blocks;
  OutputPool outputs{blocks};
  std::unique_ptr<Block> sink = std::make_unique<Block>();  // Where refused bytes go.

 protected:
  // An event of a descriptor that is no connection's.
  virtual void heard(uint64_t word) noexcept = 0;
  // The connection's phase is kDead or kWaiting: its last completion has been given out.
  virtual void ended(Connection& connection) noexcept = 0;
  // Frees what ended in the poll before.
  virtual void destroy_closed() noexcept = 0;
  [[nodiscard]] virtual bool has_dead() const noexcept = 0;
  // Something is being opened, so that events are wanted at once.
  [[nodiscard]] virtual bool is_opening() const noexcept = 0;

 private:
  [[nodiscard]] int hear_events() noexcept;
  void watch_all() noexcept;
  void unwatch_busy() noexcept;
  [[nodiscard]] size_t poll_active(std::span<Completion> completions) noexcept;
  [[nodiscard]] size_t drain(std::span<Completion> completions) noexcept;
  void release_delivered() noexcept;

  Descriptor epoll_;
  std::array<int, 1> wake_descriptors_{-1};
  uint64_t output_bytes_max_;
  std::vector<Completion> completed_;  // Of requests that were done when posted; a ring.
  uint64_t completed_head_ = 0;
  uint64_t completed_tail_ = 0;
  std::vector<Connection*> to_flush_;  // Have something to send since the last flush.
  std::vector<Connection*> active_;
  std::vector<Connection*> delivered_;  // Gave out bytes of their blocks in the last poll.
  std::vector<Connection*> moving_;
  size_t blocked_ = 0;      // Connections that wait for their socket to take more.
  size_t connections_ = 0;  // All that there are.
  uint32_t polls_until_events_ = 0;
  uint32_t polls_awake_ = 0;  // Since the last sleep.
  size_t unwatched_ = 0;      // All of them active.
  bool woken_ = false;        // By an event that is still to be heard.
};

}  // namespace refract::fabric::tcp
