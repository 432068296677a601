// SPDX-License-Identifier: Apache-2.0
// Real processes over RDMA: stopped, killed, and cut off from each other by a path that loses everything.
#include "refract/base/testing/processes/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/verbs/two_ends.h"

#include "refract/base/testing/needed.h"

namespace refract::fabric::verbs {
namespace {

constexpr std::chrono::seconds kPatience{40};
constexpr uint16_t kRegion = 5;
constexpr size_t kRegionBytes = 65'536;

// What the server's process tells its clients.
struct Invitation {
  std::array<char, 64> address;
  uint64_t key;
};

std::byte pattern(size_t at) {
  return static_cast<std::byte>(at * 13 + at / 251);
}

[[noreturn]] void serve(int invitations) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  tcp::TestNode node;
  auto server = ServerDomain::create(node.server(), {.device = wish_for(/*is_server=*/true)});
  if (!server) ::_exit(10);
  auto* const region = static_cast<std::byte*>(std::aligned_alloc(4096, kRegionBytes));
  for (size_t i = 0; i < kRegionBytes; ++i) region[i] = pattern(i);
  const auto key = (*server)->register_region(
      {.region = kRegion, .base = region, .bytes = kRegionBytes, .rights = {.read = true}});
  if (!key) ::_exit(11);
  Invitation invitation{.address = {}, .key = key->bits};
  node.address().copy(invitation.address.data(), invitation.address.size() - 1);
  if (::write(invitations, &invitation, sizeof(invitation)) != sizeof(invitation)) ::_exit(12);
  std::array<Completion, 64> completions;
  for (;;) {
    node.pump();
    (void)(*server)->poll(completions);
    (*server)->flush();
  }
}

class VerbsProcesses : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    // Before this process opens a device: what is registered does not survive a fork.
    server_ = ::fork();
    if (server_ == 0) serve(ends[1]);
    ::close(ends[1]);
    ASSERT_EQ(::read(ends[0], &invitation_, sizeof(invitation_)), ssize_t{sizeof(invitation_)})
        << "the server did not start";
    ::close(ends[0]);
    tcp_ = test::needed(tcp::ClientDomain::create({}));
    auto client = ClientDomain::create(*tcp_, {.device = wish_for(/*is_server=*/false)});
    ASSERT_TRUE(client.has_value()) << client.error().to_string();
    client_ = std::move(*client);
    const auto channel = client_->connect(invitation_.address.data());
    ASSERT_TRUE(channel.has_value()) << channel.error().to_string();
    channel_ = *channel;
    ASSERT_TRUE(settle([this] { return opened_ == 1; })) << client_->last_refusal().to_string();
  }
  void TearDown() override {
    client_.reset();
    tcp_.reset();
    if (server_ <= 0) return;
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
  }

  void turn() {
    std::array<Completion, 64> completions;
    const size_t count = client_->poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op == Op::kOpened && each.code == Code::kOk) ++opened_;
      if (each.op == Op::kClosed) ++away_;
      if (each.op == Op::kRead) codes_.push_back(each.code);
    }
    client_->flush();
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      turn();
    }
    return true;
  }
  void post_read(size_t bytes, size_t offset) {
    const Request request{.token = ++token_,
                          .local = {bytes_.data(), bytes},
                          .remote = {RemotePointer::at(kRegion, offset), {invitation_.key}},
                          .op = Op::kRead};
    ASSERT_EQ(channel_->post({&request, 1}), 1u);
    client_->flush();
  }
  [[nodiscard]] Code read(size_t bytes, size_t offset) {
    codes_.clear();
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0});
    post_read(bytes, offset);
    if (!settle([this] { return !codes_.empty(); })) return Code::kIndeterminate;
    for (size_t i = 0; i < bytes && codes_[0] == Code::kOk; ++i) {
      if (bytes_[i] != pattern(offset + i)) return Code::kCorrupt;
    }
    return codes_[0];
  }

  pid_t server_ = -1;
  Invitation invitation_{};
  std::unique_ptr<tcp::ClientDomain> tcp_;
  std::unique_ptr<ClientDomain> client_;
  Channel* channel_ = nullptr;
  std::array<std::byte, 4096> bytes_{};
  std::vector<Code> codes_;
  int opened_ = 0;
  int away_ = 0;
  uint64_t token_ = 0;
};

TEST_F(VerbsProcesses, a_stopped_server_answers_reads_and_uses_no_processor_time) {
  ASSERT_EQ(read(64, 0), Code::kOk);
  ASSERT_EQ(::kill(server_, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(server_, &status, WUNTRACED), server_);
  ASSERT_TRUE(WIFSTOPPED(status));
  const uint64_t before = test::cpu_ticks(server_);
  for (size_t i = 0; i < 2'000; ++i) {
    ASSERT_EQ(read(64 + i % 1024, i % 60'000), Code::kOk) << "read " << i;
  }
  EXPECT_EQ(test::cpu_ticks(server_), before);
  EXPECT_EQ(away_, 0);
  ASSERT_EQ(::kill(server_, SIGCONT), 0);
}

TEST_F(VerbsProcesses, a_killed_server_ends_what_is_in_flight_at_once) {
  ASSERT_EQ(read(64, 0), Code::kOk);
  ASSERT_EQ(::kill(server_, SIGKILL), 0);
  ASSERT_EQ(::waitpid(server_, nullptr, 0), server_);
  server_ = -1;
  codes_.clear();
  for (size_t i = 0; i < 8; ++i) post_read(64, 0);
  ASSERT_TRUE(settle([this] { return codes_.size() == 8 && away_ == 1; }));
  // Its memory is gone with it, so none can have been answered.
  for (const Code code : codes_) EXPECT_EQ(code, Code::kUnavailable);
}

TEST_F(VerbsProcesses, a_killed_client_costs_the_server_nothing_but_its_channel) {
  ASSERT_EQ(read(64, 0), Code::kOk);
  for (int round = 0; round < 3; ++round) {
    const pid_t other = ::fork();
    if (other == 0) {
      // What was registered before the fork is the parent's; this process makes its own.
      auto tcp = tcp::ClientDomain::create({});
      auto client = tcp ? ClientDomain::create(**tcp, {.device = wish_for(/*is_server=*/false)})
                        : Reported<std::unique_ptr<ClientDomain>>(report(tcp.error()));
      if (!client || !(*client)->connect(invitation_.address.data())) ::_exit(1);
      std::array<Completion, 16> completions;
      for (;;) {
        const size_t count = (*client)->poll(completions);
        for (const Completion& each : std::span(completions).first(count)) {
          if (each.op == Op::kOpened) ::kill(::getpid(), SIGKILL);
        }
        (*client)->flush();
      }
    }
    int status = 0;
    ASSERT_EQ(::waitpid(other, &status, 0), other);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it did not get as far as to open a channel";
    EXPECT_EQ(read(512, 100), Code::kOk);
  }
  EXPECT_EQ(away_, 0);
}

TEST_F(VerbsProcesses, a_path_that_loses_all_ends_requests_and_heals_when_it_comes_back) {
  if (::access("/sys/class/net/veth0", F_OK) != 0) GTEST_SKIP() << "the devices are not joined by a cable";
  ASSERT_EQ(read(64, 0), Code::kOk);
  ASSERT_EQ(std::system("tc qdisc add dev veth0 root netem loss 100%"), 0);
  EXPECT_EQ(read(64, 0), Code::kUnavailable);
  EXPECT_GE(client_->counters().retries_exceeded, 1u);
  EXPECT_TRUE(settle([this] { return away_ >= 1; }));
  ASSERT_EQ(std::system("tc qdisc del dev veth0 root"), 0);
  ASSERT_TRUE(settle([this] { return opened_ >= 2; })) << "it did not come back";
  ASSERT_TRUE(settle([this] { return read(64, 0) == Code::kOk; }));
}

TEST_F(VerbsProcesses, a_path_that_loses_some_delays_and_tells_no_lies) {
  if (::access("/sys/class/net/veth0", F_OK) != 0) GTEST_SKIP() << "the devices are not joined by a cable";
  ASSERT_EQ(std::system("tc qdisc add dev veth0 root netem loss 2% delay 1ms reorder 10%"), 0);
  for (size_t i = 0; i < 60; ++i) EXPECT_EQ(read(4096, 64 * i), Code::kOk) << "read " << i;
  EXPECT_EQ(std::system("tc qdisc del dev veth0 root"), 0);
  EXPECT_EQ(away_, 0);
}

}  // namespace
}  // namespace refract::fabric::verbs
