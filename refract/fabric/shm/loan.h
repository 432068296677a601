// SPDX-License-Identifier: Apache-2.0
// Memory of a client's that its server maps and READs: docs/design/036-reservations.md.
//
// The client lends a region by a byte on the doorbell, with which its descriptor travels, and a kLend frame
// behind that; it takes it back by kTakeBack. What READs a region says its key, as for every other. A bell
// may still have descriptors that were meant for a server that died, so the frame says of which file it
// speaks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/shm/domain.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/host/shared_buffer.h"

namespace refract::fabric::shm {

// The payload of kLend.
struct LendFrame {
  uint64_t region;  // From kLentRegionFirst on.
  uint64_t key;
  uint64_t bytes;
  uint64_t inode;  // Of the file: which of the descriptors that have come is meant.
};
// The payload of kTakeBack.
struct TakeBackFrame {
  uint64_t region;
};
static_assert(sizeof(LendFrame) == 32 && offsetof(LendFrame, key) == 8 && sizeof(TakeBackFrame) == 8);
static_assert(std::has_unique_object_representations_v<LendFrame>);

// What the loans of all clients of a domain have in common.
struct LoanAccount {
  LoanLimits limits;
  size_t loans = 0;
};

// What one client has lent to its server. Used by the server's shard.
class Loans {
 public:
  // The account outlives it.
  explicit Loans(LoanAccount& account) noexcept : account_(account) {}
  Loans(const Loans&) = delete;
  Loans& operator=(const Loans&) = delete;
  ~Loans() { account_.loans -= loans_.size(); }

  // Takes what is on the doorbell. False: the other end is gone.
  [[nodiscard]] bool hear(int doorbell) noexcept;
  // A frame of the client's; false: nonsense. A loan that is not possible is none: its READs are refused.
  [[nodiscard]] bool lend(std::span<const std::byte> payload, int doorbell) noexcept;
  [[nodiscard]] bool take_back(std::span<const std::byte> payload) noexcept;

  // Null: not lent, not with this key, or not so far.
  [[nodiscard]] const std::byte* find(const RemoteSpan& remote, uint64_t bytes) const noexcept;
  [[nodiscard]] size_t count() const noexcept { return loans_.size(); }

 private:
  static constexpr size_t kDescriptorsHeld = 4;
  struct Loan {
    uint16_t region;
    RemoteKey key;
    SharedView view;
  };

  [[nodiscard]] Descriptor find_descriptor(uint64_t inode, int doorbell) noexcept;
  void forget(uint64_t region) noexcept;
  [[nodiscard]] bool has_room(uint64_t bytes) const noexcept;

  LoanAccount& account_;
  std::vector<Loan> loans_;
  uint64_t bytes_ = 0;
  // That have come and whose frames have not, oldest first.
  std::array<Descriptor, kDescriptorsHeld> descriptors_;
  size_t descriptors_held_ = 0;
};

}  // namespace refract::fabric::shm
