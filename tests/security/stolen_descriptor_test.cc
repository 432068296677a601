// SPDX-License-Identifier: Apache-2.0
// What the descriptors that a client was given are worth in other hands: inherited, or passed over a socket,
// on purpose or by mistake.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "tests/security/neighbour.h"

#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/memory/remote_visible.h"

namespace refract::test {
namespace {

// Another user where the test may be one.
uid_t thief() {
  return is_root() ? kStranger : owner();
}

class StolenDescriptor : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(node.is_up()) << node.errors(); }
  // Attached by a process of the owner's that is gone when this returns; its descriptors are what is left.
  [[nodiscard]] Attached steal() const {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const Descriptor here(ends[0]);
    const Descriptor there(ends[1]);
    Process victim = run_as(owner(), [&] {
      const auto attached = attach(node.socket_path());
      if (!attached || attached->regions.size() != 1) return 1;
      const std::array<int, 3> given = {attached->page.get(), attached->memory.get(),
                                        attached->regions.front().descriptor.get()};
      const auto entry = std::as_bytes(std::span(&attached->regions.front().entry, 1));
      return fabric::shm::send_message(there.get(), entry, given) ? 0 : 2;
    });
    EXPECT_EQ(victim.wait(), 0);
    Attached stolen;
    stolen.regions.resize(1);
    std::array<Descriptor, 3> taken;
    const auto received = fabric::shm::receive_message(
        here.get(), std::as_writable_bytes(std::span(&stolen.regions.front().entry, 1)), taken);
    EXPECT_EQ(received.descriptor_count, taken.size());
    stolen.page = std::move(taken[0]);
    stolen.memory = std::move(taken[1]);
    stolen.regions.front().descriptor = std::move(taken[2]);
    return stolen;
  }

  Node node{owned()};
};

TEST_F(StolenDescriptor, of_a_region_reads_in_any_hands_and_writes_in_none) {
  const std::string value = "a value that is not to be met by chance";
  ASSERT_TRUE(node.connect().put("key", value));
  const Attached stolen = steal();
  Process hostile = run_as(thief(), [&] {
    if (!can_be_seen(stolen, value)) return 100;
    return ways_to_write(stolen);
  });
  EXPECT_EQ(hostile.wait(), 0);
}

// It cannot be taken back: it shows what comes later, and keeps the memory when client and node are gone.
TEST_F(StolenDescriptor, of_a_region_reads_on_whatever_becomes_of_its_client_and_the_node) {
  const Attached stolen = steal();
  const std::string value = "a value that was put after the descriptor had gone";
  ASSERT_TRUE(node.connect().put("key", value));
  EXPECT_TRUE(can_be_seen(stolen, value));
  EXPECT_EQ(node.stop(), 0);
  EXPECT_TRUE(can_be_seen(stolen, value));
}

TEST_F(StolenDescriptor, of_a_connection_is_worth_nothing_once_its_client_has_left) {
  const Attached stolen = steal();
  Client honest = node.connect();
  ASSERT_TRUE(honest.put("key", "value"));
  ASSERT_TRUE(becomes_true([&] { return honest.stat().value().connections == 1; }));
  const auto memory =
      fabric::shm::map_shared(stolen.memory.get(), fabric::shm::kConnectionBytes, /*writable=*/true);
  ASSERT_TRUE(memory);
  auto& words = *reinterpret_cast<fabric::shm::ConnectionMemory*>(memory->data());
  std::memset(words.requests, 0x5A, sizeof(words.requests));
  std::memset(words.pins.slot, 0x40, sizeof(words.pins.slot));
  announce_u64(&words.client.ring_incarnation, 1);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(honest.put("key", "value " + std::to_string(i)));
  EXPECT_EQ(honest.stat().value().connections, 1U);
  EXPECT_TRUE(becomes_true([&] { return honest.stat().value().bytes_retired == 0; }));
}

}  // namespace
}  // namespace refract::test
