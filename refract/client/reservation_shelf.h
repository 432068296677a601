// SPDX-License-Identifier: Apache-2.0
// The memory of a Client's reservations that have ended, for the next ones: fresh memory costs a page fault
// for each page, here and at the server.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "refract/base/result.h"
#include "refract/memory/host/shared_buffer.h"

namespace refract::client {

class ReservationShelf {
 public:
  static constexpr uint64_t kKeptBytesMax = uint64_t{64} << 20;

  ReservationShelf() = default;
  ReservationShelf(const ReservationShelf&) = delete;
  ReservationShelf& operator=(const ReservationShelf&) = delete;
  ~ReservationShelf() { close(); }

  // At least `bytes`. kInvalidArgument: none. kNoSpace, kSystem: there is no such memory.
  [[nodiscard]] static Result<SharedBufferHold> make(uint64_t bytes);
  // The same, of what is kept if something fits.
  [[nodiscard]] Result<SharedBufferHold> take(uint64_t bytes);
  void put_back(SharedBufferHold buffer) noexcept;
  // The Client has ended: nothing is kept any more.
  void close() noexcept;

 private:
  std::mutex mutex_;                    // Of all that follows.
  std::vector<SharedBufferHold> kept_;  // The longest unused first.
  uint64_t kept_bytes_ = 0;
  bool is_closed_ = false;
};

}  // namespace refract::client
