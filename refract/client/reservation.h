// SPDX-License-Identifier: Apache-2.0
// Memory in which a program builds a value, so that a put need not copy it: docs/design/036-reservations.md.
//
//   auto frame = client->reserve(4 << 20);
//   render(frame->bytes());
//   (void)client->put("frame", *frame);   // As often as wanted, with other bytes each time.
//
// On the node's host the server reads the bytes where they are, by one copy; over RDMA its device does, and
// the memory is registered once. Over TCP they are sent like any others.
//
// Threads: moved, destroyed and put by any, of any Client; its bytes must not change while a put has them. A
// forked child must not touch them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "refract/base/api.h"
#include "refract/base/result.h"

namespace refract {

class SharedBuffer;
namespace client {
class ReservationShelf;
}

class REFRACT_API Reservation {
 public:
  // Of no Client, which would keep the memory for the next one: this one gives it back. kInvalidArgument: no
  // bytes. kTooLarge: more than a value has. kNoSpace, kSystem: there is no such memory.
  [[nodiscard]] static Result<Reservation> make(uint64_t bytes);
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    swap(other);
    return *this;
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  // The value. What is in it at first is anything that this process put there.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  // How much of it is the value from now on, at most as much as was reserved; else kTooLarge.
  [[nodiscard]] Code resize(uint64_t bytes) noexcept;
  // For who puts it. Null: moved from.
  [[nodiscard]] SharedBuffer* buffer() const noexcept { return buffer_; }

 private:
  friend class client::ReservationShelf;
  Reservation(SharedBuffer* buffer, uint64_t bytes, client::ReservationShelf* shelf) noexcept;
  void swap(Reservation& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(shelf_, other.shelf_);
    std::swap(bytes_, other.bytes_);
    std::swap(reserved_bytes_, other.reserved_bytes_);
  }

  SharedBuffer* buffer_ = nullptr;             // Held.
  client::ReservationShelf* shelf_ = nullptr;  // Where its memory goes, referred to; null: nowhere.
  std::span<std::byte> bytes_;
  uint64_t reserved_bytes_ = 0;
};

}  // namespace refract
