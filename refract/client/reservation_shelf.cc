// SPDX-License-Identifier: Apache-2.0
#include "refract/client/reservation_shelf.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"

namespace refract::client {
namespace {

constexpr uint64_t kBytesMin = 64 * kKiB;
constexpr uint64_t kLargePageBytes = 2 * kMiB;

// Of few sizes, so that one serves for another.
uint64_t memory_for(uint64_t bytes) noexcept {
  if (bytes > kLargePageBytes) return round_up(bytes, kLargePageBytes);
  return std::bit_ceil(std::max(bytes, kBytesMin));
}

}  // namespace

Result<SharedBufferHold> ReservationShelf::make(uint64_t bytes) {
  if (bytes == 0) return fail(Code::kInvalidArgument);
  Reported<SharedBufferHold> buffer = SharedBuffer::make(memory_for(bytes));
  if (!buffer) return fail(buffer.error().code);
  return std::move(*buffer);
}

Result<SharedBufferHold> ReservationShelf::take(uint64_t bytes) {
  if (bytes > 0) {
    const uint64_t wanted = memory_for(bytes);
    const std::scoped_lock guard(mutex_);
    // The one that was used last is the one that is in caches.
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const SharedBufferHold& one) {
      return one->bytes().size() >= wanted && one->bytes().size() / 2 <= wanted;
    });
    if (found != kept_.rend()) {
      SharedBufferHold buffer = std::move(*found);
      kept_bytes_ -= buffer->bytes().size();
      kept_.erase(std::next(found).base());
      return buffer;
    }
  }
  return make(bytes);
}

Result<Reservation> ReservationShelf::reserve(uint64_t bytes) {
  if (bytes > kv::kValueBytesMax) return fail(Code::kTooLarge);
  Result<SharedBufferHold> buffer = take(bytes);
  if (!buffer) return fail(buffer.error());
  references_.fetch_add(1, std::memory_order_relaxed);
  return Reservation(buffer->release(), bytes, this);
}

void ReservationShelf::take_back(SharedBufferHold buffer) noexcept {
  put_back(std::move(buffer));
  release();
}

void ReservationShelf::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void ReservationShelf::put_back(SharedBufferHold buffer) noexcept {
  const std::scoped_lock guard(mutex_);
  const uint64_t bytes = buffer->bytes().size();
  if (is_closed_ || bytes > kKeptBytesMax) return buffer->retire();
  while (kept_bytes_ + bytes > kKeptBytesMax) {
    kept_bytes_ -= kept_.front()->bytes().size();
    kept_.front()->retire();
    kept_.erase(kept_.begin());
  }
  kept_bytes_ += bytes;
  kept_.push_back(std::move(buffer));
}

void ReservationShelf::close() noexcept {
  const std::scoped_lock guard(mutex_);
  is_closed_ = true;
  for (const SharedBufferHold& buffer : kept_) buffer->retire();
  kept_.clear();
  kept_bytes_ = 0;
}

}  // namespace refract::client
