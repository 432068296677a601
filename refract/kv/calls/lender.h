// SPDX-License-Identifier: Apache-2.0
// Memory of this process that the peers of a domain may READ while a call is under way.
//
//   Lender::Loan loan = lender.lend(value);
//   if (!loan) ...                          // Not possible: send the bytes.
//   ... tell the peer loan.source(), and await its answer ...
//   loan.settle();                          // It has answered: it READs nothing more.
//
// A loan that ends without settle() is revoked before its destructor returns: a peer that READs then is
// refused, and never sees bytes that the memory's owner puts there later. Short values are copied into memory
// that stays registered, longer ones are registered where they lie, with the pages that they touch
// (docs/design/024). Values that were built in a shared buffer are registered with it (036).
//
// Threads: used only by the domain's shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/memory/host/shared_buffer.h"

namespace refract::kv {

struct LenderOptions {
  uint64_t copied_bytes_max = kMiB;     // Longer values are registered where they lie.
  uint64_t kept_bytes_max = 16 * kMiB;  // Of the memory for copies.
};

class Lender {
 public:
  // Regions of the domain with numbers from here on are the lender's, far from all others.
  static constexpr uint16_t kFirstRegion = fabric::kLentRegionFirst;
  static constexpr size_t kRegionsMax = 0x4000;

  class Loan;

  // The domain outlives it.
  explicit Lender(fabric::Domain& domain, const LenderOptions& options = {}) noexcept
      : domain_(domain), options_(options) {}
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;
  // REQUIRES: all loans have ended.
  ~Lender();

  // Control path where a region has to be registered. `value` stays as it is until the loan ends; not empty.
  // `shared`: where it lies, unless null; stays registered until it is retired.
  [[nodiscard]] Loan lend(std::span<const std::byte> value, SharedBuffer* shared = nullptr);

  struct Counts {
    uint64_t copied = 0;         // Loans,
    uint64_t in_place = 0;       // likewise,
    uint64_t shared = 0;         // of shared buffers,
    uint64_t refused = 0;        // and those that were not possible.
    uint64_t registrations = 0;  // Made,
    uint64_t revoked = 0;        // and ended because the peer might still READ.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  [[nodiscard]] uint64_t kept_bytes() const noexcept { return kept_bytes_; }
  [[nodiscard]] size_t loans() const noexcept { return loans_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
  };
  // A piece of memory for copies.
  struct Shelf {
    std::unique_ptr<std::byte[], Free> memory;
    uint64_t bytes = 0;
    uint16_t region = 0;  // 0: not registered.
    RemoteKey key;
    bool is_lent = false;
  };

  // A shared buffer that is registered.
  struct Shared {
    SharedBufferHold buffer;
    uint16_t region = 0;
    RemoteKey key;
  };

  [[nodiscard]] Loan lend_copy(std::span<const std::byte> value);
  [[nodiscard]] Loan lend_shared(std::span<const std::byte> value, SharedBuffer& buffer);
  [[nodiscard]] Shared* find_shared(SharedBuffer& buffer);
  void drop_retired_buffers() noexcept;
  [[nodiscard]] Loan lend_in_place(std::span<const std::byte> value);
  [[nodiscard]] Shelf* find_shelf(uint64_t bytes);
  void drop_idle_shelves() noexcept;
  // Nothing: refused.
  [[nodiscard]] std::optional<fabric::RemoteSpan> open(std::span<std::byte> bytes, int lent_file = -1);
  void close(uint16_t region) noexcept;
  void end(Loan& loan) noexcept;

  fabric::Domain& domain_;
  LenderOptions options_;
  std::vector<std::unique_ptr<Shelf>> shelves_;
  std::vector<Shared> shared_;
  uint64_t kept_bytes_ = 0;
  std::deque<uint16_t> free_;  // Of regions, the longest closed first.
  uint32_t regions_used_ = 0;  // From kFirstRegion on.
  size_t loans_ = 0;
  Counts counts_;
};

class Lender::Loan {
 public:
  Loan() noexcept = default;
  Loan(Loan&& other) noexcept { *this = std::move(other); }
  Loan& operator=(Loan&& other) noexcept {
    std::swap(lender_, other.lender_);
    std::swap(shelf_, other.shelf_);
    std::swap(source_, other.source_);
    std::swap(is_shared_, other.is_shared_);
    std::swap(is_settled_, other.is_settled_);
    return *this;
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    if (lender_ != nullptr) lender_->end(*this);
  }

  // False: there is none.
  [[nodiscard]] explicit operator bool() const noexcept { return lender_ != nullptr; }
  // Where the value's first byte is for the peer.
  [[nodiscard]] const fabric::RemoteSpan& source() const noexcept { return source_; }
  // The peer has said that it is done.
  void settle() noexcept { is_settled_ = true; }

 private:
  friend class Lender;

  Lender* lender_ = nullptr;
  Shelf* shelf_ = nullptr;  // Null: the value lies where it was.
  fabric::RemoteSpan source_{};
  bool is_shared_ = false;
  bool is_settled_ = false;
};

}  // namespace refract::kv
