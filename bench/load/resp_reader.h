// SPDX-License-Identifier: Apache-2.0
// Takes apart what a Redis server answers (RESP 2), as it comes in. Long values are received straight into
// their place.
//
//   readv(socket, reader.room());  reader.received(bytes);
//   while ((reply = reader.next()).kind != Reply::Kind::kNone) ...
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace refract::bench {

struct Reply {
  enum class Kind : uint8_t {
    kNone,       // Receive more.
    kStatus,     // "+OK".
    kValue,      // Its bytes are at the start of the target.
    kMissing,    // "$-1".
    kArray,      // "*2": so many replies follow, in `bytes`.
    kError,      // "-ERR ...", in `text`.
    kMalformed,  // The stream makes no sense from here on.
  };
  Kind kind = Kind::kNone;
  uint64_t bytes = 0;          // Of a value; how many there are in an array.
  std::string_view text = {};  // Of a status or error, until the next call.
};

class RespReader {
 public:
  // Values are put into `target`, which stays the caller's; longer ones are malformed.
  explicit RespReader(std::span<std::byte> target) : target_(target), buffer_(kBufferBytes) {}

  // Where the next bytes from the socket go. Call it when next() has said kNone.
  [[nodiscard]] std::span<iovec> room() noexcept;
  void received(size_t bytes) noexcept;
  [[nodiscard]] Reply next() noexcept;

 private:
  static constexpr size_t kBufferBytes = size_t{64} << 10;

  [[nodiscard]] std::optional<std::string_view> line() noexcept;
  [[nodiscard]] Reply value_part() noexcept;

  std::span<std::byte> target_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // In the buffer: what has come and is not taken apart yet.
  size_t end_ = 0;
  bool in_value_ = false;
  uint64_t value_bytes_ = 0;
  uint64_t value_left_ = 0;
  std::array<iovec, 2> room_ = {};
};

}  // namespace refract::bench
