// SPDX-License-Identifier: Apache-2.0
// The consumer on arbitrary bytes: it ends, stays inside the ring, and never hands on more than is there.
#include <cstring>
#include <memory>

#include "refract/base/check.h"
#include "refract/fabric/shm/ring.h"

namespace {

using refract::fabric::shm::kRingBytes;
using refract::fabric::shm::RingConsumer;

struct alignas(64) Ring {
  std::byte bytes[kRingBytes];
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static const auto ring = std::make_unique<Ring>();
  // The input lies at the start and at the end, so that wrapping round is near.
  std::memset(ring->bytes, 0, kRingBytes);
  const size_t length = bytes < kRingBytes / 2 ? bytes : kRingBytes / 2;
  if (length > 0) {
    std::memcpy(ring->bytes, data, length);
    std::memcpy(ring->bytes + (kRingBytes - length) / 64 * 64, data, length / 64 * 64);
  }
  RingConsumer consumer(ring->bytes);
  unsigned sum = 0;
  for (int frames = 0; frames < 20'000; ++frames) {
    RingConsumer::Frame frame;
    if (consumer.look(frame) != RingConsumer::Look::kFrame) {
      // An empty place is skipped by hand, to reach what lies behind it.
      if (consumer.look(frame) == RingConsumer::Look::kNonsense) break;
      std::byte* place = ring->bytes + consumer.position() % kRingBytes;
      const uint64_t word =
          refract::fabric::shm::FrameHeader{56, refract::fabric::shm::FrameKind::kMessage, 0}.word();
      std::memcpy(place, &word, sizeof(word));
      continue;
    }
    REFRACT_CHECK(frame.payload.data() >= ring->bytes);
    REFRACT_CHECK(frame.payload.data() + frame.payload.size() <= ring->bytes + kRingBytes);
    if (!frame.payload.empty()) sum += static_cast<unsigned>(frame.payload.front() ^ frame.payload.back());
    consumer.advance();
    if (consumer.position() > 2 * kRingBytes) break;
  }
  return sum == ~0U ? 1 : 0;
}
