// SPDX-License-Identifier: Apache-2.0
// Takes apart what a memcached answers (its binary protocol), as it comes in. Long values are received
// straight into their place. Used like RespReader.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace refract::bench {

enum class MemcachedOp : uint8_t { kGet = 0, kSet = 1 };
enum class MemcachedStatus : uint16_t { kOk = 0, kMissing = 1, kOtherVersion = 2 };

// The head of a request or an answer, big-endian on the wire. The key's bytes and the value's follow.
inline constexpr size_t kMemcachedHeadBytes = 24;
struct MemcachedRequest {
  MemcachedOp op = MemcachedOp::kGet;
  size_t key_bytes = 0;
  size_t value_bytes = 0;  // Of a set.
  uint64_t version = 0;    // Of a set that is done only if this is there; 0: whatever is there.
};
// With the extras of a set: flags and expiry, both 0. Returns how many bytes.
inline constexpr size_t kMemcachedRequestBytesMax = kMemcachedHeadBytes + 8;
size_t write_request(const MemcachedRequest& request, std::span<char, kMemcachedRequestBytesMax> to) noexcept;

struct MemcachedReply {
  enum class Kind : uint8_t {
    kNone,       // Receive more.
    kAnswer,     // To a request; a value's bytes are at the start of the target.
    kMalformed,  // The stream makes no sense from here on.
  };
  Kind kind = Kind::kNone;
  MemcachedOp op = MemcachedOp::kGet;
  uint16_t status = 0;
  uint64_t version = 0;
  uint64_t bytes = 0;          // Of a value.
  std::string_view text = {};  // What it says when the status is not kOk, until the next call.
};

class MemcachedReader {
 public:
  // Values are put into `target`, which stays the caller's; longer ones are malformed.
  explicit MemcachedReader(std::span<std::byte> target) : target_(target), buffer_(kBufferBytes) {}

  // Where the next bytes from the socket go. Call it when next() has said kNone.
  [[nodiscard]] std::span<iovec> room() noexcept;
  void received(size_t bytes) noexcept;
  [[nodiscard]] MemcachedReply next() noexcept;

 private:
  static constexpr size_t kBufferBytes = size_t{64} << 10;

  [[nodiscard]] MemcachedReply value_part() noexcept;

  std::span<std::byte> target_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // In the buffer: what has come and is not taken apart yet.
  size_t end_ = 0;
  bool in_value_ = false;
  MemcachedReply reply_;
  uint64_t value_left_ = 0;
  std::array<iovec, 2> room_ = {};
};

}  // namespace refract::bench
