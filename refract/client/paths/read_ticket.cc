// SPDX-License-Identifier: Apache-2.0
#include "refract/client/paths/read_ticket.h"

#include <sys/mman.h>

#include <memory>

#include "refract/base/check.h"

namespace refract::client {
namespace {

constexpr size_t kPageBytes = 4096;
static_assert(sizeof(ReadTicket) <= kPageBytes);

}  // namespace

OwnTicket::OwnTicket() noexcept {
  void* const page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REFRACT_CHECK(page != MAP_FAILED);  // There is no memory left.
  is_wiped_ = ::madvise(page, kPageBytes, MADV_WIPEONFORK) == 0;
  ticket_ = std::construct_at(static_cast<ReadTicket*>(page));
}

OwnTicket::~OwnTicket() {
  (void)::munmap(ticket_, kPageBytes);
}

void OwnTicket::grant(uint64_t made, uint64_t more) noexcept {
  const uint64_t left = is_wiped_ ? more : 0;
  made_.store(made, std::memory_order_relaxed);
  granted_.store(left, std::memory_order_relaxed);
  ticket_->left.store(left, std::memory_order_relaxed);
}

uint64_t OwnTicket::made() const noexcept {
  // In a child the page is empty, and what was made is not known any more.
  const uint64_t left = ticket_->left.load(std::memory_order_relaxed);
  const uint64_t granted = granted_.load(std::memory_order_relaxed);
  return made_.load(std::memory_order_relaxed) + (granted > left ? granted - left : 0);
}

}  // namespace refract::client
