// SPDX-License-Identifier: Apache-2.0
#include "refract/client/reservation.h"

#include "refract/client/reservation_shelf.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/host/shared_buffer.h"

namespace refract {

Reservation::Reservation(SharedBuffer* buffer, uint64_t bytes, client::ReservationShelf* shelf) noexcept
    : buffer_(buffer), shelf_(shelf), bytes_(buffer->bytes().first(bytes)), reserved_bytes_(bytes) {}

Result<Reservation> Reservation::make(uint64_t bytes) {
  if (bytes > kv::kValueBytesMax) return fail(Code::kTooLarge);
  Result<SharedBufferHold> buffer = client::ReservationShelf::make(bytes);
  if (!buffer) return fail(buffer.error());
  return Reservation(buffer->release(), bytes, nullptr);
}

Code Reservation::resize(uint64_t bytes) noexcept {
  if (buffer_ == nullptr || bytes > reserved_bytes_) return Code::kTooLarge;
  bytes_ = buffer_->bytes().first(bytes);
  return Code::kOk;
}

Reservation::~Reservation() {
  // A child has only a copy of what its parent continues to use.
  if (buffer_ == nullptr || !buffer_->is_of_this_process()) return;
  SharedBufferHold buffer = SharedBufferHold::adopt(buffer_);
  if (shelf_ != nullptr) {
    shelf_->take_back(std::move(buffer));
  } else {
    buffer->retire();
  }
}

}  // namespace refract
