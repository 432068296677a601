// SPDX-License-Identifier: Apache-2.0
// One direction of a connection: frames of any length from one producer to one consumer, in memory that both
// map.
//
// A frame starts on a cache line with one header word; its payload follows at once, so a small message
// arrives in one line. The consumer polls the header word itself.
//   (R1) The header is stored last: a reader that sees it sees the payload.
//   (R2) Before a frame is published, the header word behind it is zeroed, so that bytes of an earlier round
//   never
//        look like a header. Therefore one line more than the frame must be free.
//   (R3) A frame never wraps: a skip frame fills what is left of the ring.
//   (R4) Positions count bytes since the ring was reset and never wrap. The consumer publishes how far it is
//   only
//        every eighth of the ring; what it has not published stays readable.
// The consumer trusts nothing: it copies the header word once and checks every field; the payload it hands on
// may change under the reader.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/units.h"
#include "refract/fabric/shm/connection_memory.h"
#include "refract/memory/remote_visible.h"

namespace refract::fabric::shm {

inline constexpr uint64_t kFrameUnit = 64;
inline constexpr uint64_t kHeaderBytes = 8;
inline constexpr uint64_t kPayloadBytesMax = kMessageBytesMax;
inline constexpr uint64_t kOwnedBytesMax = 4 * kFrameUnit;
inline constexpr uint64_t kConsumedStep = kRingBytes / 8;

enum class FrameKind : uint8_t {
  kSkip = 1,
  kMessage = 2,
  kRead = 3,
  kWrite = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kCompletion = 7,
  kGoodbye = 8,  // The last frame: the producer closes the channel.
  kLend = 9,     // The connecting end's: its oldest descriptor on the doorbell is of this region.
  kTakeBack = 10,
};
inline constexpr uint8_t kFrameKindMax = 10;

// One word: payload bytes, kind, a reserved byte, and a Code (kCompletion) in this order from the low bits.
struct FrameHeader {
  uint32_t payload_bytes = 0;
  FrameKind kind = FrameKind::kSkip;
  uint16_t code = 0;

  [[nodiscard]] constexpr uint64_t word() const noexcept {
    return payload_bytes | uint64_t{static_cast<uint8_t>(kind)} << 32 | uint64_t{code} << 48;
  }
  // From header to header.
  [[nodiscard]] constexpr uint64_t frame_bytes() const noexcept {
    return round_up(kHeaderBytes + payload_bytes, kFrameUnit);
  }
};

[[nodiscard]] constexpr uint64_t frame_bytes(uint64_t payload_bytes) noexcept {
  return round_up(kHeaderBytes + payload_bytes, kFrameUnit);
}
inline constexpr uint64_t kFrameBytesMax = frame_bytes(kPayloadBytesMax);
static_assert(kRingBytes % kFrameUnit == 0 && kRingBytes >= 4 * kFrameBytesMax);

class RingProducer {
 public:
  RingProducer() = default;
  explicit RingProducer(std::byte* ring) noexcept : ring_(ring) {}

  // Room for a payload such that `keep_bytes` stay free behind it; null: there is none now. Nothing is
  // visible to the consumer before publish. REQUIRES: payload_bytes <= kPayloadBytesMax.
  [[nodiscard]] std::byte* reserve(uint64_t payload_bytes, uint64_t keep_bytes) noexcept {
    const uint64_t frame = frame_bytes(payload_bytes);
    const uint64_t left = kRingBytes - offset();
    const uint64_t skip = frame > left ? left : 0;
    if (free_bytes() < skip + frame + kFrameUnit + keep_bytes) [[unlikely]]
      return nullptr;
    if (skip != 0) publish({static_cast<uint32_t>(skip - kHeaderBytes), FrameKind::kSkip, 0});
    return ring_ + offset() + kHeaderBytes;
  }

  // REQUIRES: the last reserve was for this many payload bytes, or more.
  void publish(FrameHeader header) noexcept {
    std::byte* const place = ring_ + offset();
    produced_ += header.frame_bytes();
    publish_u64(ring_ + offset(), 0);   // (R2)
    publish_u64(place, header.word());  // (R1)
    own_next_lines(header.frame_bytes());
  }

  // How many frames of the largest size can be reserved one after the other, `keep_bytes` staying free.
  [[nodiscard]] uint64_t frames_max(uint64_t keep_bytes) const noexcept {
    const uint64_t free = free_bytes();
    if (free < kFrameUnit + keep_bytes) return 0;
    const uint64_t usable = free - kFrameUnit - keep_bytes;
    const uint64_t left = kRingBytes - offset();
    if (usable <= left) return usable / kFrameBytesMax;
    return left / kFrameBytesMax + (usable - left) / kFrameBytesMax;
  }

  // Takes over what the consumer published. False: it cannot be, the consumer lies.
  [[nodiscard]] bool set_consumed(uint64_t consumed) noexcept {
    if (consumed < consumed_ || consumed > produced_) return false;
    consumed_ = consumed;
    return true;
  }
  [[nodiscard]] uint64_t used_bytes() const noexcept { return produced_ - consumed_; }
  [[nodiscard]] uint64_t consumed() const noexcept { return consumed_; }

 private:
  // Stores leave in order, so a header would wait until the lines before it and the one that is zeroed have
  // come over from the consumer's cache. Fetching them now, for another frame of this size, takes that off
  // the path. The line at offset() itself is left alone: the consumer is polling it.
  void own_next_lines(uint64_t bytes) const noexcept {
    bytes = std::min(bytes, kOwnedBytesMax);
    for (uint64_t line = kFrameUnit; line <= bytes; line += kFrameUnit) {
      const std::byte* place = ring_ + (produced_ + line) % kRingBytes;
      // A no-op where the processor does not know it. GCC's builtin would fetch the line shared, which is no
      // use.
      asm volatile("prefetchw %0" : : "m"(*place));
    }
  }
  [[nodiscard]] uint64_t offset() const noexcept { return produced_ % kRingBytes; }
  [[nodiscard]] uint64_t free_bytes() const noexcept { return kRingBytes - used_bytes(); }

  std::byte* ring_ = nullptr;
  uint64_t produced_ = 0;
  uint64_t consumed_ = 0;
};

class RingConsumer {
 public:
  enum class Look : uint8_t { kEmpty, kFrame, kNonsense };

  struct Frame {
    FrameKind kind = FrameKind::kSkip;
    uint16_t code = 0;
    std::span<const std::byte> payload;  // 8-byte aligned; the producer may still be changing it.
  };

  RingConsumer() = default;
  explicit RingConsumer(const std::byte* ring) noexcept : ring_(ring) {}

  // Whether there is something at the head, also nonsense.
  [[nodiscard]] bool ready() const noexcept { return observe_u64(ring_ + offset()) != 0; }

  // Reads the frame at the head, checked. It stays the head until advance.
  [[nodiscard]] Look look(Frame& frame) noexcept {
    const uint64_t word = observe_u64(ring_ + offset());
    if (word == 0) return Look::kEmpty;
    return parse(word, frame);
  }
  // REQUIRES: the last look returned kFrame.
  void advance() noexcept { position_ += head_bytes_; }

  [[nodiscard]] uint64_t position() const noexcept { return position_; }

 private:
  // The header's line has come over from the producer's cache; those behind it would only when the payload is
  // read, one after the other.
  void fetch_behind(uint64_t frame) const noexcept {
    if (frame == kFrameUnit) return;
    const std::byte* next = ring_ + offset() + kFrameUnit;
    __builtin_prefetch(next);
    if (frame > 2 * kFrameUnit) __builtin_prefetch(next + kFrameUnit);
  }
  [[nodiscard]] Look parse(uint64_t word, Frame& frame) noexcept;
  [[nodiscard]] uint64_t offset() const noexcept { return position_ % kRingBytes; }

  const std::byte* ring_ = nullptr;
  uint64_t position_ = 0;
  uint64_t head_bytes_ = 0;
};

}  // namespace refract::fabric::shm
