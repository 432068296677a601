// SPDX-License-Identifier: Apache-2.0
// What a direct read of a node's only shard has to look at, and no more: how many reads may still be made
// before there is something to look after, and by which reader. It lies in a page that is empty in a child of
// the process, so that no read asks whether it is in one.
//
// Threads: changed by one thread, the owner's; `left` is read by any.
#pragma once

#include <atomic>
#include <cstdint>

#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/direct/quick_reader.h"

namespace refract::client {

struct ReadTicket {
  using Reader = kv::QuickReader<kv::MappedMemory>;

  Reader* reader = nullptr;  // Null: there is no such way.
  uint64_t hash_seed = 0;
  std::atomic<uint64_t> left = 0;  // The last one is for looking after things.

  [[nodiscard]] uint64_t reads() const noexcept { return left.load(std::memory_order_relaxed); }
  [[nodiscard]] static bool is_good(uint64_t reads) noexcept { return reads > 1; }
  // One read of so many. REQUIRES: that is good, and what reads() said.
  void take(uint64_t reads) noexcept { left.store(reads - 1, std::memory_order_relaxed); }
};

// A ticket in a page of its own.
class OwnTicket {
 public:
  OwnTicket() noexcept;
  OwnTicket(const OwnTicket&) = delete;
  OwnTicket& operator=(const OwnTicket&) = delete;
  ~OwnTicket();

  [[nodiscard]] ReadTicket& operator*() const noexcept { return *ticket_; }
  [[nodiscard]] ReadTicket* operator->() const noexcept { return ticket_; }

  // So many reads have been made, and so many more until there is something to look after.
  void grant(uint64_t made, uint64_t more) noexcept;
  [[nodiscard]] uint64_t made() const noexcept;

 private:
  ReadTicket* ticket_;
  bool is_wiped_ = false;  // A child finds the page empty. Else nothing is granted.
  std::atomic<uint64_t> made_ = 0;
  std::atomic<uint64_t> granted_ = 0;
};

}  // namespace refract::client
