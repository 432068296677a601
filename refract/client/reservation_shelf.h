// SPDX-License-Identifier: Apache-2.0
// The memory of a client's reservations that have ended, for the next ones: fresh memory costs a page fault
// for each page, here and at the server.
//
// It lives as long as something refers to it: the client, and each reservation, which may outlive that.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "refract/base/result.h"
#include "refract/client/reservation.h"
#include "refract/memory/host/shared_buffer.h"

namespace refract::client {

class ReservationShelf {
 public:
  static constexpr uint64_t kKeptBytesMax = uint64_t{64} << 20;

  struct Release {
    void operator()(ReservationShelf* shelf) const noexcept { shelf->release(); }
  };
  using Owned = std::unique_ptr<ReservationShelf, Release>;
  // With one reference, which is the client's.
  [[nodiscard]] static Owned make_empty() { return Owned(new ReservationShelf); }
  ReservationShelf(const ReservationShelf&) = delete;
  ReservationShelf& operator=(const ReservationShelf&) = delete;

  // As Client::reserve().
  [[nodiscard]] Result<Reservation> reserve(uint64_t bytes);
  // Of a reservation that has ended, which lets go of its reference.
  void take_back(SharedBufferHold buffer) noexcept;

  // At least `bytes`. kInvalidArgument: none. kNoSpace, kSystem: there is no such memory.
  [[nodiscard]] static Result<SharedBufferHold> make(uint64_t bytes);
  // The same, of what is kept if something fits.
  [[nodiscard]] Result<SharedBufferHold> take(uint64_t bytes);
  void put_back(SharedBufferHold buffer) noexcept;
  // The client has ended: nothing is kept any more.
  void close() noexcept;

 private:
  ReservationShelf() = default;
  ~ReservationShelf() { close(); }
  void release() noexcept;

  std::atomic<uint32_t> references_ = 1;
  std::mutex mutex_;                    // Of all that follows.
  std::vector<SharedBufferHold> kept_;  // The longest unused first.
  uint64_t kept_bytes_ = 0;
  bool is_closed_ = false;
};

}  // namespace refract::client
