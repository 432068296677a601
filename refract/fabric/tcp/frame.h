// SPDX-License-Identifier: Apache-2.0
// The frames of a connection: a header word, then the payload, then zeros up to a multiple of 8 bytes.
// All integers are little-endian. Worked example: docs/formats/tcp.md.
//
//   bits 0..47   payload bytes, without the zeros
//   bits 48..55  kind
//   bits 56..63  a code (codes.def), in kDone and kGoodbye
//
// Answers come in the order of the one-sided requests. A READ is answered by kData with exactly the bytes
// asked for, and, if those are more than kCopiedBytesMax, by kDone behind them, which says whether the region
// stood to the end; or by kDone alone, when it is refused or empty. All else is answered by kDone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "refract/base/result.h"
#include "refract/fabric/tcp/tuning.h"

namespace refract::fabric::tcp {

enum class FrameKind : uint8_t {
  kMessage = 1,
  kRead = 2,
  kWrite = 3,
  kCompareSwap = 4,
  kFetchAdd = 5,
  kDone = 6,
  kData = 7,
  kGoodbye = 8,
  // Of the handshake (handshake.h), before everything else.
  kHello = 16,
  kChallenge = 17,
  kProof = 18,
  kWelcome = 19,
  kRefused = 20,
};

struct FrameHeader {
  static constexpr uint64_t kBytesMax = (uint64_t{1} << 48) - 1;

  uint64_t bytes = 0;
  FrameKind kind = FrameKind::kMessage;
  uint8_t code = 0;

  [[nodiscard]] constexpr uint64_t word() const noexcept {
    return bytes | uint64_t{static_cast<uint8_t>(kind)} << 48 | uint64_t{code} << 56;
  }
  [[nodiscard]] static constexpr FrameHeader from(uint64_t word) noexcept {
    return {word & kBytesMax, static_cast<FrameKind>(static_cast<uint8_t>(word >> 48)),
            static_cast<uint8_t>(word >> 56)};
  }
};
inline constexpr size_t kHeaderBytes = sizeof(uint64_t);

[[nodiscard]] constexpr uint64_t padding_of(uint64_t bytes) noexcept {
  return (8 - bytes % 8) % 8;
}
// Header, payload and zeros.
[[nodiscard]] constexpr uint64_t frame_bytes(uint64_t payload_bytes) noexcept {
  return kHeaderBytes + payload_bytes + padding_of(payload_bytes);
}

// What a one-sided request's payload begins with.
struct Target {
  uint64_t address;  // A RemotePointer.
  uint64_t key;
};
// kRead: bytes. kFetchAdd: the addend. kWrite has its data instead.
struct TargetAndOperand {
  Target place;
  uint64_t operand;
};
struct TargetAndSwap {
  Target place;
  uint64_t operand;  // The new value.
  uint64_t compare;
};
static_assert(sizeof(Target) == 16 && sizeof(TargetAndOperand) == 24 && sizeof(TargetAndSwap) == 32);
static_assert(std::has_unique_object_representations_v<TargetAndSwap>);

inline constexpr uint64_t kDoneBytes = sizeof(uint64_t);  // The old value of an atomic, else 0.

// How much of an established connection's frame must have arrived before it can be acted upon; the rest of
// kWrite and kData goes straight to its place. 0: nonsense.
[[nodiscard]] constexpr uint64_t head_bytes(const FrameHeader& header) noexcept {
  const bool may_have_code = header.kind == FrameKind::kDone || header.kind == FrameKind::kGoodbye;
  if (header.code != 0 && !may_have_code) return 0;
  const auto exactly = [&header](uint64_t bytes) { return header.bytes == bytes ? kHeaderBytes + bytes : 0; };
  switch (header.kind) {
    case FrameKind::kMessage:
      return header.bytes <= kMessageBytesMax ? frame_bytes(header.bytes) : 0;
    case FrameKind::kRead:
    case FrameKind::kFetchAdd:
      return exactly(sizeof(TargetAndOperand));
    case FrameKind::kCompareSwap:
      return exactly(sizeof(TargetAndSwap));
    case FrameKind::kWrite:
      return header.bytes >= sizeof(Target) ? kHeaderBytes + sizeof(Target) : 0;
    case FrameKind::kDone:
      return exactly(kDoneBytes);
    case FrameKind::kData:
      return kHeaderBytes;
    case FrameKind::kGoodbye:
      return exactly(0);
    default:
      return 0;
  }
}

}  // namespace refract::fabric::tcp
