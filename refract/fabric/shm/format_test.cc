// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/formats/shm.md, byte for byte.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/shm/ring.h"
#include "refract/fabric/shm/wire.h"

namespace refract::fabric::shm {
namespace {

std::vector<uint8_t> bytes_of(const void* data, size_t bytes) {
  const auto* begin = static_cast<const uint8_t*>(data);
  return {begin, begin + bytes};
}

TEST(Format, a_message_in_a_ring_is_the_documented_bytes) {
  struct alignas(64) Ring {
    std::byte bytes[kRingBytes];
  };
  const auto ring = std::make_unique<Ring>();
  std::memset(ring->bytes + 64, 0xff, 64);
  RingProducer producer(ring->bytes);
  std::byte* place = producer.reserve(11, 0);
  ASSERT_NE(place, nullptr);
  std::memcpy(place, "hello world", 11);
  producer.publish({11, FrameKind::kMessage, 0});
  const std::vector<uint8_t> expected = {0x0b, 0,   0,   0,   0x02, 0,   0,   0,   'h', 'e', 'l',
                                         'l',  'o', ' ', 'w', 'o',  'r', 'l', 'd', 0,   0,   0,
                                         0,    0,   0,   0,   0,    0,   0,   0,   0,   0};
  EXPECT_EQ(bytes_of(ring->bytes, 32), expected);
  EXPECT_EQ(bytes_of(ring->bytes + 64, 8), std::vector<uint8_t>(8)) << "no next header yet";
}

TEST(Format, a_hello_is_the_documented_bytes) {
  const Hello hello{head_of(MessageKind::kHello), 1, 1, 4711};
  const std::vector<uint8_t> expected = {'R', 's', 'h', 'm', 1, 0, 0, 0, 1, 0, 1, 0, 0x67, 0x12, 0, 0};
  EXPECT_EQ(bytes_of(&hello, sizeof(hello)), expected);
}

TEST(Format, the_pages_lie_as_documented) {
  NodePage page{};
  page.magic = kNodePageMagic;
  EXPECT_EQ(std::memcmp(&page, "erfcnode", 8), 0);
  EXPECT_EQ(offsetof(NodePage, server_pid), 48u);
  EXPECT_EQ(offsetof(NodePage, space_bytes_max), 56u);
  EXPECT_EQ(offsetof(NodePage, shard_index), 80u);
  EXPECT_EQ(offsetof(NodePage, shard_count), 88u);
  EXPECT_EQ(offsetof(NodePage, tcp_port), 96u);
  EXPECT_EQ(offsetof(NodePage, regions), 112u);
  EXPECT_EQ(offsetof(ClientPage, reply_consumed), 8u);
  EXPECT_EQ(offsetof(ClientPage, wants_room), 24u);
  EXPECT_EQ(offsetof(ClientPage, pin_tables), 32u);
  EXPECT_EQ(offsetof(ServerPage, wants_room), 16u);
  EXPECT_EQ(kConnectionBytes, 540'672u);
  EXPECT_EQ(offsetof(ConnectionMemory, replies), 278'528u);
}

TEST(Format, further_tables_of_pins_lie_behind_the_rings) {
  EXPECT_EQ(connection_bytes(1), 540'672u);
  EXPECT_EQ(connection_bytes(258), 1'593'344u);
  for (size_t tables = 1; tables <= kPinTablesMax; ++tables) {
    EXPECT_EQ(pin_tables_in(connection_bytes(tables)), tables);
  }
  for (const uint64_t nonsense : {uint64_t{0}, uint64_t{540'671}, uint64_t{540'673}, uint64_t{544'767},
                                  uint64_t{1'593'345}, uint64_t{1'597'440}, ~uint64_t{0}}) {
    EXPECT_EQ(pin_tables_in(nonsense), 0u) << nonsense;
  }
  const auto memory = std::make_unique<std::array<ConnectionMemory, 2>>();
  EXPECT_EQ(reinterpret_cast<const std::byte*>(further_pins((*memory)[0])),
            reinterpret_cast<const std::byte*>(memory.get()) + 540'672);
}

}  // namespace
}  // namespace refract::fabric::shm
