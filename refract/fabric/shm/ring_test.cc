// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "refract/base/prng.h"

namespace refract::fabric::shm {
namespace {

struct alignas(64) Ring {
  std::byte bytes[kRingBytes];
};

using Look = RingConsumer::Look;

// A message that says how long it is and which number it has, in every byte.
void fill(std::byte* place, size_t bytes, uint64_t number) {
  for (size_t i = 0; i < bytes; ++i) place[i] = static_cast<std::byte>(mix(number) + i);
}
bool is_filled(std::span<const std::byte> payload, uint64_t number) {
  for (size_t i = 0; i < payload.size(); ++i) {
    if (payload[i] != static_cast<std::byte>(mix(number) + i)) return false;
  }
  return true;
}

bool produce(RingProducer& producer, size_t bytes, uint64_t number, uint64_t keep = 0) {
  std::byte* place = producer.reserve(bytes, keep);
  if (place == nullptr) return false;
  fill(place, bytes, number);
  producer.publish({static_cast<uint32_t>(bytes), FrameKind::kMessage, 0});
  return true;
}

TEST(Ring, frames_of_every_length_arrive_whole_and_in_order_over_many_rounds) {
  const auto ring = std::make_unique<Ring>();
  RingProducer producer(ring->bytes);
  RingConsumer consumer(ring->bytes);
  Prng prng(1);
  uint64_t produced = 0;
  uint64_t consumed = 0;
  std::vector<size_t> lengths;
  while (consumed < 20'000) {
    const size_t bytes = prng.chance(0.1) ? prng.below(kPayloadBytesMax + 1) : prng.below(300);
    if (prng.chance(0.5) && produce(producer, bytes, produced)) {
      lengths.push_back(bytes);
      ++produced;
    }
    RingConsumer::Frame frame;
    if (prng.chance(0.5)) continue;
    const Look look = consumer.look(frame);
    ASSERT_NE(look, Look::kNonsense);
    ASSERT_EQ(look == Look::kFrame, consumed < produced) << "what was published is seen, and nothing else";
    if (look == Look::kEmpty) continue;
    ASSERT_EQ(frame.payload.size(), lengths[consumed]);
    ASSERT_TRUE(is_filled(frame.payload, consumed));
    consumer.advance();
    ++consumed;
    if (prng.chance(0.8)) continue;
    ASSERT_TRUE(producer.set_consumed(consumer.position()));
  }
}

// Payloads full of bytes that are valid headers, one lap before: the consumer must not take one for a frame.
TEST(Ring, bytes_of_an_earlier_round_never_look_like_a_header) {
  const auto ring = std::make_unique<Ring>();
  RingProducer producer(ring->bytes);
  RingConsumer consumer(ring->bytes);
  const uint64_t lure = FrameHeader{8, FrameKind::kMessage, 0}.word();
  Prng prng(2);
  for (int round = 0; round < 5'000; ++round) {
    const size_t bytes = 8 * prng.below(kPayloadBytesMax / 8 + 1);
    std::byte* place = producer.reserve(bytes, 0);
    ASSERT_NE(place, nullptr);
    for (size_t at = 0; at < bytes; at += 8) std::memcpy(place + at, &lure, 8);
    producer.publish({static_cast<uint32_t>(bytes), FrameKind::kMessage, 0});
    RingConsumer::Frame frame;
    ASSERT_EQ(consumer.look(frame), Look::kFrame);
    ASSERT_EQ(frame.payload.size(), bytes);
    consumer.advance();
    ASSERT_EQ(consumer.look(frame), Look::kEmpty);
    ASSERT_TRUE(producer.set_consumed(consumer.position()));
  }
}

TEST(Ring, frames_max_is_what_really_fits) {
  const auto ring = std::make_unique<Ring>();
  for (const uint64_t keep : {uint64_t{0}, uint64_t{25'000}}) {
    Prng prng(3);
    RingProducer producer(ring->bytes);
    for (int round = 0; round < 500; ++round) {
      RingProducer trial = producer;
      uint64_t fits = 0;
      while (produce(trial, kPayloadBytesMax, fits, keep)) ++fits;
      ASSERT_EQ(producer.frames_max(keep), fits);
      if (!produce(producer, prng.below(5'000), 0)) {
        ASSERT_TRUE(producer.set_consumed(producer.consumed() + producer.used_bytes()));
      }
    }
  }
}

TEST(Ring, a_consumed_position_that_cannot_be_is_refused) {
  const auto ring = std::make_unique<Ring>();
  RingProducer producer(ring->bytes);
  ASSERT_TRUE(produce(producer, 100, 0));
  EXPECT_FALSE(producer.set_consumed(129));
  EXPECT_FALSE(producer.set_consumed(~uint64_t{0}));
  EXPECT_TRUE(producer.set_consumed(128));
  EXPECT_FALSE(producer.set_consumed(64));
}

TEST(Ring, every_header_outside_the_rules_is_nonsense) {
  const auto ring = std::make_unique<Ring>();
  const auto look = [&](uint64_t word) {
    std::memcpy(ring->bytes, &word, sizeof(word));
    RingConsumer consumer(ring->bytes);
    RingConsumer::Frame frame;
    return consumer.look(frame);
  };
  EXPECT_EQ(look(FrameHeader{0, FrameKind::kMessage, 0}.word()), Look::kFrame);
  EXPECT_EQ(look(FrameHeader{kPayloadBytesMax, FrameKind::kMessage, 0}.word()), Look::kFrame);
  EXPECT_EQ(look(FrameHeader{kPayloadBytesMax + 1, FrameKind::kMessage, 0}.word()), Look::kNonsense);
  EXPECT_EQ(look(FrameHeader{~uint32_t{0}, FrameKind::kMessage, 0}.word()), Look::kNonsense);
  EXPECT_EQ(look(5), Look::kNonsense) << "no kind";
  EXPECT_EQ(look(uint64_t{kFrameKindMax + 1} << 32), Look::kNonsense);
  EXPECT_EQ(look(FrameHeader{0, FrameKind::kMessage, 0}.word() | uint64_t{1} << 40), Look::kNonsense);
  EXPECT_EQ(look(FrameHeader{56, FrameKind::kSkip, 0}.word()), Look::kNonsense) << "skips to no end";
  EXPECT_EQ(look(FrameHeader{kRingBytes - 8, FrameKind::kSkip, 0}.word()), Look::kNonsense) << "skips all";
}

// Both threads on one mapping, so that the thread sanitizer sees everything.
TEST(Ring, two_threads_exchange_frames_without_a_race) {
  constexpr uint64_t kFrames = 100'000;
  const auto ring = std::make_unique<Ring>();
  uint64_t consumed_word = 0;
  std::thread other([&] {
    RingConsumer consumer(ring->bytes);
    Prng prng(4);
    uint64_t published = 0;
    for (uint64_t number = 0; number < kFrames;) {
      RingConsumer::Frame frame;
      const Look look = consumer.look(frame);
      ASSERT_NE(look, Look::kNonsense);
      if (look == Look::kEmpty) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(frame.payload.size(), prng.below(200));
      ASSERT_TRUE(is_filled(frame.payload, number));
      consumer.advance();
      ++number;
      if (consumer.position() - published >= kConsumedStep) {
        publish_u64(&consumed_word, published = consumer.position());
      }
    }
  });
  RingProducer producer(ring->bytes);
  Prng prng(4);
  for (uint64_t number = 0; number < kFrames; ++number) {
    const size_t bytes = prng.below(200);
    while (!produce(producer, bytes, number)) {
      std::this_thread::yield();
      ASSERT_TRUE(producer.set_consumed(observe_u64(&consumed_word)));
    }
  }
  other.join();
}

}  // namespace
}  // namespace refract::fabric::shm
