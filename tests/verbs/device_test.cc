// SPDX-License-Identifier: Apache-2.0
// The devices of the machine that scripts/verbs-vm starts do what our provider asks of a device.
//
// Method: the first and the last device, which are one and the same where there is one, are connected over
// the kind of address that REFRACT_VERBS_FAMILY names (ipv4 or ipv6), and every operation goes over that
// connection. What is between two devices is a cable, whose counters show that the packets were on it. No
// device is a failure and no reason to skip: a run of this must show that there are some.
#include "refract/fabric/verbs/device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "tests/verbs/endpoint.h"
#include "tests/verbs/rdma_cm.h"

namespace refract::test {
namespace {

namespace verbs = fabric::verbs;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t packets_on_the_cable() {
  uint64_t count = 0;
  std::ifstream("/sys/class/net/veth0/statistics/tx_packets") >> count;
  return count;
}

class VerbsMachine : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = verbs::list_devices();
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    ASSERT_FALSE(found->empty()) << "no RDMA device here";
    devices_ = *found;
    const bool is_ipv6 = setting("REFRACT_VERBS_FAMILY") == "ipv6";
    kind_ = is_ipv6 ? verbs::GidKind::kRoce2Ipv6 : verbs::GidKind::kRoce2Ipv4;
    for (const verbs::DeviceFacts& device : {devices_.front(), devices_.back()}) {
      ASSERT_EQ(device.ports.size(), 1u) << device.name;
      ASSERT_NE(verbs::gid_of_kind(device.ports.front(), kind_), nullptr) << device.name;
    }
  }

  [[nodiscard]] const verbs::GidFacts& gid_of(const verbs::DeviceFacts& device) const {
    return *verbs::gid_of_kind(device.ports.front(), kind_);
  }

  [[nodiscard]] std::unique_ptr<verbs::OpenDevice> open(const verbs::DeviceFacts& device) const {
    const auto index = static_cast<int32_t>(gid_of(device).index);
    auto opened = verbs::OpenDevice::open({.device = device.name, .port = 1, .gid_index = index});
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
    return std::move(*opened);
  }

  [[nodiscard]] bool has_two_devices() const { return devices_.size() > 1; }

  std::vector<verbs::DeviceFacts> devices_;
  verbs::GidKind kind_ = verbs::GidKind::kRoce2Ipv4;
};

// Two endpoints that are connected.
class VerbsConnection : public VerbsMachine {
 protected:
  void SetUp() override {
    VerbsMachine::SetUp();
    if (HasFatalFailure()) return;
    near_device_ = open(devices_.front());
    far_device_ = open(devices_.back());
    near_ = std::make_unique<Endpoint>(near_device_->calls(), near_device_->context());
    far_ = std::make_unique<Endpoint>(far_device_->calls(), far_device_->context());
    near_->connect(*far_, gid_of(devices_.back()), near_device_->choice());
    far_->connect(*near_, gid_of(devices_.front()), far_device_->choice());
  }

  [[nodiscard]] ibv_send_wr one_sided(ibv_wr_opcode operation, size_t remote_offset) const {
    ibv_send_wr request{};
    request.opcode = operation;
    request.wr.rdma.remote_addr = far_->address_of(remote_offset);
    request.wr.rdma.rkey = far_->rkey();
    return request;
  }

  [[nodiscard]] ibv_send_wr atomic(ibv_wr_opcode operation, uint64_t compare_add, uint64_t swap) const {
    ibv_send_wr request{};
    request.opcode = operation;
    request.wr.atomic.remote_addr = far_->address_of(0);
    request.wr.atomic.rkey = far_->rkey();
    request.wr.atomic.compare_add = compare_add;
    request.wr.atomic.swap = swap;
    return request;
  }

  std::unique_ptr<verbs::OpenDevice> near_device_;
  std::unique_ptr<verbs::OpenDevice> far_device_;
  std::unique_ptr<Endpoint> near_;
  std::unique_ptr<Endpoint> far_;
};

uint64_t number_at(Endpoint& endpoint, size_t offset) {
  uint64_t value = 0;
  std::memcpy(&value, &endpoint.buffer()[offset], sizeof(value));
  return value;
}

void set_number(Endpoint& endpoint, size_t offset, uint64_t value) {
  std::memcpy(&endpoint.buffer()[offset], &value, sizeof(value));
}

// `count` messages there and as many back, each of which holds what the one before it held, plus one.
void bounce(Endpoint& near, Endpoint& far, uint32_t bytes, uint64_t count) {
  constexpr size_t kReceived = Endpoint::kBufferBytes / 2;
  ibv_send_wr message{};
  message.opcode = IBV_WR_SEND;
  Endpoint* const ends[] = {&near, &far};
  uint64_t value = 0;
  for (uint64_t turn = 0; turn < 2 * count; ++turn) {
    Endpoint& from = *ends[turn % 2];
    Endpoint& to = *ends[1 - turn % 2];
    to.post_receive(kReceived, bytes);
    set_number(from, 0, ++value);
    set_number(from, bytes - sizeof(value), ~value);
    from.post(message, 0, bytes);
    const ibv_wc sent = from.next_completion();
    ASSERT_EQ(sent.status, IBV_WC_SUCCESS) << "turn " << turn;
    const ibv_wc received = to.next_completion();
    ASSERT_EQ(received.status, IBV_WC_SUCCESS) << "turn " << turn;
    ASSERT_EQ(received.opcode, IBV_WC_RECV);
    ASSERT_EQ(received.byte_len, bytes);
    ASSERT_EQ(number_at(to, kReceived), value);
    ASSERT_EQ(number_at(to, kReceived + bytes - sizeof(value)), ~value);
  }
}

TEST_F(VerbsMachine, every_device_has_an_active_port_of_the_mtu_that_was_asked_for) {
  const std::string wanted = setting("REFRACT_VERBS_MTU");
  for (const verbs::DeviceFacts& device : devices_) {
    EXPECT_TRUE(device.ports.front().is_active) << device.name << " is " << device.ports.front().state;
    if (!wanted.empty()) {
      EXPECT_EQ(std::to_string(device.ports.front().mtu_bytes), wanted) << device.name;
    }
    EXPECT_TRUE(device.limits.has_atomics) << device.name;
    EXPECT_GT(device.limits.receives_max, 0u) << device.name << " has no shared receive queues";
  }
}

TEST_F(VerbsConnection, messages_go_to_and_fro_and_over_the_cable) {
  const uint64_t before = packets_on_the_cable();
  bounce(*near_, *far_, 64, 100);
  bounce(*near_, *far_, 20'000, 5);
  if (has_two_devices()) {
    EXPECT_GE(packets_on_the_cable(), before + 100);
  }
}

TEST_F(VerbsConnection, a_write_and_a_read_of_many_packets_move_what_they_name) {
  constexpr uint32_t kBytes = 100'000;
  for (size_t at = 0; at < kBytes; ++at) near_->buffer()[at] = static_cast<std::byte>(at * 7 + 1);
  near_->post(one_sided(IBV_WR_RDMA_WRITE, 8), 0, kBytes);
  ASSERT_EQ(near_->next_completion().status, IBV_WC_SUCCESS);
  ASSERT_EQ(std::memcmp(&near_->buffer()[0], &far_->buffer()[8], kBytes), 0);
  near_->post(one_sided(IBV_WR_RDMA_READ, 8), kBytes, kBytes);
  ASSERT_EQ(near_->next_completion().status, IBV_WC_SUCCESS);
  ASSERT_EQ(std::memcmp(&near_->buffer()[0], &near_->buffer()[kBytes], kBytes), 0);
}

TEST_F(VerbsConnection, atomics_return_what_was_there_and_change_it) {
  set_number(*far_, 0, 40);
  near_->post(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0), 16, 8);
  ASSERT_EQ(near_->next_completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(number_at(*near_, 16), 40u);
  near_->post(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7), 16, 8);
  ASSERT_EQ(near_->next_completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(number_at(*near_, 16), 42u);
  near_->post(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 42, 8), 16, 8);
  ASSERT_EQ(near_->next_completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(number_at(*near_, 16), 7u);
  EXPECT_EQ(number_at(*far_, 0), 7u);
}

TEST_F(VerbsConnection, a_wrong_key_is_refused_and_moves_nothing) {
  set_number(*near_, 0, 0x5555);
  set_number(*far_, 0, 0x7777);
  ibv_send_wr request = one_sided(IBV_WR_RDMA_WRITE, 0);
  request.wr.rdma.rkey ^= 0x55;
  near_->post(request, 0, 8);
  EXPECT_EQ(near_->next_completion().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(number_at(*far_, 0), 0x7777u);
}

TEST_F(VerbsConnection, a_peer_that_is_gone_is_noticed_without_its_help) {
  const ibv_send_wr request = one_sided(IBV_WR_RDMA_READ, 0);
  far_.reset();
  near_->post(request, 0, 8);
  EXPECT_EQ(near_->next_completion().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(VerbsMachine, rdma_cm_connects_two_ends_which_then_exchange_messages) {
  const std::string near_address = gid_of(devices_.front()).to_string();
  const std::string far_address = gid_of(devices_.back()).to_string();
  const uint64_t before = packets_on_the_cable();
  CmEnd listening;
  CmEnd connecting;
  const uint16_t port = listening.listen(far_address);
  connecting.begin_connecting(near_address, far_address, port);
  listening.accept();
  connecting.finish_connecting();
  listening.finish_accepting();
  bounce(connecting.endpoint(), listening.endpoint(), 64, 20);
  if (has_two_devices()) {
    EXPECT_GE(packets_on_the_cable(), before + 20);
  }
}

}  // namespace
}  // namespace refract::test
