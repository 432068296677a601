// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/ring.h"

namespace refract::fabric::shm {

RingConsumer::Look RingConsumer::parse(uint64_t word, Frame& frame) noexcept {
  // At most one skip frame stands before a frame: what follows it lies at offset 0, where no skip is allowed.
  for (;;) {
    const auto payload_bytes = static_cast<uint32_t>(word);
    const auto kind = static_cast<uint8_t>(word >> 32);
    const auto reserved = static_cast<uint8_t>(word >> 40);
    const uint64_t left = kRingBytes - offset();
    const uint64_t bytes = frame_bytes(payload_bytes);
    if (kind == 0 || kind > kFrameKindMax || reserved != 0 || bytes > left) return Look::kNonsense;
    if (kind != static_cast<uint8_t>(FrameKind::kSkip)) {
      if (payload_bytes > kPayloadBytesMax) return Look::kNonsense;
      frame.kind = static_cast<FrameKind>(kind);
      frame.code = static_cast<uint16_t>(word >> 48);
      frame.payload = {ring_ + offset() + kHeaderBytes, payload_bytes};
      head_bytes_ = bytes;
      fetch_behind(bytes);
      return Look::kFrame;
    }
    if (bytes != left || left == kRingBytes) return Look::kNonsense;
    position_ += left;
    word = observe_u64(ring_ + offset());
    if (word == 0) return Look::kEmpty;
  }
}

}  // namespace refract::fabric::shm
