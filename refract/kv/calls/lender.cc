// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/lender.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::kv {
namespace {

// Shelves are powers of two, so that few sizes serve all values.
constexpr uint64_t kShelfBytesMin = 64 * kKiB;

}  // namespace

Lender::~Lender() {
  REFRACT_CHECK(loans_ == 0);
  drop_idle_shelves();
  for (const Shared& shared : shared_) close(shared.region);
}

Lender::Loan Lender::lend(std::span<const std::byte> value, SharedBuffer* shared) {
  REFRACT_DCHECK(!value.empty());
  Loan loan;
  if (!shared_.empty()) drop_retired_buffers();
  if (shared != nullptr) loan = lend_shared(value, *shared);
  if (!loan && value.size() <= options_.copied_bytes_max) loan = lend_copy(value);
  if (!loan) loan = lend_in_place(value);
  if (!loan) ++counts_.refused;
  return loan;
}

Lender::Loan Lender::lend_copy(std::span<const std::byte> value) {
  Loan loan;
  Shelf* const shelf = find_shelf(value.size());
  if (shelf == nullptr) return loan;
  if (shelf->region == 0) {
    const auto opened = open({shelf->memory.get(), shelf->bytes});
    if (!opened) return loan;
    shelf->region = opened->address.region();
    shelf->key = opened->key;
  }
  std::memcpy(shelf->memory.get(), value.data(), value.size());
  shelf->is_lent = true;
  ++counts_.copied;
  ++loans_;
  loan.lender_ = this;
  loan.shelf_ = shelf;
  loan.source_ = {.address = RemotePointer::at(shelf->region, 0), .key = shelf->key};
  return loan;
}

Lender::Loan Lender::lend_shared(std::span<const std::byte> value, SharedBuffer& buffer) {
  Loan loan;
  const std::span<std::byte> all = buffer.bytes();
  const uint64_t offset = static_cast<uint64_t>(value.data() - all.data());
  if (value.data() < all.data() || offset > all.size() || value.size() > all.size() - offset) return loan;
  const Shared* const shared = find_shared(buffer);
  if (shared == nullptr) return loan;
  ++counts_.shared;
  ++loans_;
  loan.lender_ = this;
  loan.source_ = {.address = RemotePointer::at(shared->region, offset), .key = shared->key};
  loan.is_shared_ = true;
  return loan;
}

// Registers it if it is not; null: it cannot be.
Lender::Shared* Lender::find_shared(SharedBuffer& buffer) {
  for (Shared& shared : shared_) {
    if (shared.buffer.get() == &buffer) return &shared;
  }
  const auto opened = open(buffer.bytes(), buffer.descriptor());
  if (!opened) return nullptr;
  shared_.push_back({.buffer = buffer.hold(), .region = opened->address.region(), .key = opened->key});
  return &shared_.back();
}

void Lender::drop_retired_buffers() noexcept {
  std::erase_if(shared_, [this](const Shared& shared) {
    if (!shared.buffer->is_retired()) return false;
    close(shared.region);
    return true;
  });
}

Lender::Loan Lender::lend_in_place(std::span<const std::byte> value) {
  Loan loan;
  // Whole pages, as devices want them; what else lies there the peer may READ, too, for so long.
  const auto first = reinterpret_cast<uintptr_t>(value.data());
  const uintptr_t begin = first / kPageBytes * kPageBytes;
  const uintptr_t end = round_up(first + value.size(), kPageBytes);
  // The region is for READs alone: no peer writes there by it.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the page in which the value begins.
  const auto opened = open({reinterpret_cast<std::byte*>(begin), end - begin});
  if (!opened) return loan;
  ++counts_.in_place;
  ++loans_;
  loan.lender_ = this;
  loan.source_ = {.address = RemotePointer::at(opened->address.region(), first - begin), .key = opened->key};
  return loan;
}

// The smallest one that is free, or a new one where there is room for it.
Lender::Shelf* Lender::find_shelf(uint64_t bytes) {
  Shelf* best = nullptr;
  for (const std::unique_ptr<Shelf>& shelf : shelves_) {
    if (shelf->is_lent || shelf->bytes < bytes) continue;
    if (best == nullptr || shelf->bytes < best->bytes) best = shelf.get();
  }
  if (best != nullptr) return best;
  const uint64_t wanted = std::max(std::bit_ceil(bytes), kShelfBytesMin);
  if (wanted > options_.kept_bytes_max) return nullptr;
  if (kept_bytes_ > options_.kept_bytes_max - wanted) drop_idle_shelves();
  if (kept_bytes_ > options_.kept_bytes_max - wanted) return nullptr;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, wanted));
  if (memory == nullptr) return nullptr;
  shelves_.push_back(std::make_unique<Shelf>(
      Shelf{.memory = std::unique_ptr<std::byte[], Free>(memory), .bytes = wanted, .region = 0, .key = {}}));
  kept_bytes_ += wanted;
  return shelves_.back().get();
}

void Lender::drop_idle_shelves() noexcept {
  std::erase_if(shelves_, [this](const std::unique_ptr<Shelf>& shelf) {
    if (shelf->is_lent) return false;
    if (shelf->region != 0) close(shelf->region);
    kept_bytes_ -= shelf->bytes;
    return true;
  });
}

std::optional<fabric::RemoteSpan> Lender::open(std::span<std::byte> bytes, int lent_file) {
  // A fresh number as long as there are some, so that few are used twice at all.
  if (regions_used_ < kRegionsMax) {
    free_.push_front(static_cast<uint16_t>(kFirstRegion + regions_used_++));
  } else if (free_.empty()) {
    return std::nullopt;
  }
  const uint16_t region = free_.front();
  free_.pop_front();
  const Reported<RemoteKey> key = domain_.register_region({.region = region,
                                                           .base = bytes.data(),
                                                           .bytes = bytes.size(),
                                                           .rights = {.read = true},
                                                           .lent_file = lent_file});
  if (!key) {
    free_.push_back(region);
    return std::nullopt;
  }
  ++counts_.registrations;
  return fabric::RemoteSpan{.address = RemotePointer::at(region, 0), .key = *key};
}

void Lender::close(uint16_t region) noexcept {
  (void)domain_.revoke_region(region);
  free_.push_back(region);
}

void Lender::end(Loan& loan) noexcept {
  --loans_;
  if (!loan.is_settled_) ++counts_.revoked;
  if (loan.is_shared_) {
    if (loan.is_settled_) return;
    const uint16_t region = loan.source_.address.region();
    std::erase_if(shared_, [&](const Shared& shared) { return shared.region == region; });
    return close(region);
  }
  if (loan.shelf_ == nullptr) return close(loan.source_.address.region());
  loan.shelf_->is_lent = false;
  if (loan.is_settled_) return;
  // What comes next to this shelf is another value, under another number and key.
  close(std::exchange(loan.shelf_->region, uint16_t{0}));
}

}  // namespace refract::kv
