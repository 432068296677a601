// SPDX-License-Identifier: Apache-2.0
// In how much time a node could have objects that others have, by what it has measured of its paths to them
// (docs/design/060-rank.md). Nothing is sent for it.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "refract/object/directory/home_table.h"
#include "refract/object/transfer/path_memory.h"

namespace refract::object {

// What is known of the way to one member.
struct KnownPath {
  const PathMemory* measured = nullptr;  // Never null where it is used.
  uint64_t hello_ns = 0;                 // What its answer to hello took, at the session's beginning.
  uint64_t message_bytes = 0;            // The longest answer.
};
struct BringTime {
  uint64_t ns = 0;
  bool is_guessed = false;  // It does not follow from pulls over this path.
};

// Of one object of so many bytes, from one member that does nothing else meanwhile. In this order: what pulls
// of about this size took; the path's round trip and rate, where a pull was longer, or took so long that its
// bytes counted more than the round trips; a guess: one round trip, then as much in each as a pull begins
// with, or what came at most, if that is more.
[[nodiscard]] BringTime bring_time(const KnownPath& path, uint64_t bytes) noexcept;

// Adds up what a node lacks. Each object comes from those of its holders that bring it soonest, behind what
// they are to bring already; different holders bring theirs at the same time.
class BringEstimate {
 public:
  // No more of them bring one object (ObjectTransfer).
  static constexpr size_t kHoldersMax = 4;

  struct Holder {
    MemberIndex member = 0;
    KnownPath path;
  };
  // One that is not there. Of no holders it cannot be had.
  void add(uint64_t bytes, std::span<const Holder> holders);

  [[nodiscard]] uint64_t time_ns() const noexcept { return time_ns_; }
  [[nodiscard]] uint64_t missing_bytes() const noexcept { return missing_bytes_; }
  [[nodiscard]] uint32_t missing() const noexcept { return missing_; }
  [[nodiscard]] uint32_t unreachable() const noexcept { return unreachable_; }
  [[nodiscard]] bool is_guessed() const noexcept { return is_guessed_; }

 private:
  std::map<MemberIndex, uint64_t> busy_ns_;  // Until when each holder brings something.
  uint64_t time_ns_ = 0;
  uint64_t missing_bytes_ = 0;
  uint32_t missing_ = 0;
  uint32_t unreachable_ = 0;
  bool is_guessed_ = false;
};

// Numbers of other nodes are added up, too.
[[nodiscard]] constexpr uint64_t sum_or_most(uint64_t one, uint64_t other) noexcept {
  return other > UINT64_MAX - one ? UINT64_MAX : one + other;
}

}  // namespace refract::object
