// SPDX-License-Identifier: Apache-2.0
// How two queue pairs come to be connected, or how their owners are told why not: by exchange and by
// librdmacm, over a path that loses everything, and with strangers that come to librdmacm's port.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/verbs/rdma_cm.h"
#include "tests/verbs/two_ends.h"

#include "refract/base/testing/needed.h"
#include "refract/fabric/verbs/wire.h"

namespace refract::fabric::verbs {
namespace {

constexpr std::chrono::seconds kPatience{60};

Options by(ConnectBy way) {
  return {.device = {}, .channels_max = 0, .connect_by = way};
}

// A machine with one device has the interface, too, but what its two ends say does not go that way.
bool has_cable() {
  const auto devices = list_devices();
  return devices && devices->size() > 1 && ::access("/sys/class/net/veth0", F_OK) == 0;
}

// Nothing passes between the two devices while this lives.
class Loss {
 public:
  Loss() { EXPECT_EQ(std::system("tc qdisc add dev veth0 root netem loss 100%"), 0); }
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;
  ~Loss() { EXPECT_EQ(std::system("tc qdisc del dev veth0 root"), 0); }
};

class Meeting {
 public:
  Meeting(ConnectBy server, ConnectBy client) : ends_(by(server), by(client)) {}

  void connect() {
    opened_.clear();
    const auto channel = ends_.client().connect(ends_.node().address());
    ASSERT_TRUE(channel.has_value()) << channel.error().to_string();
  }
  void client_turn() {
    std::array<Completion, 16> completions;
    const size_t count = ends_.client().poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op == Op::kOpened) opened_.push_back(each.code);
    }
    ends_.client().flush();
  }
  void turn() {
    client_turn();
    ends_.pump();
    std::array<Completion, 16> completions;
    (void)ends_.server().poll(completions);
    ends_.server().flush();
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      turn();
    }
    return true;
  }
  // What the client is told of the channel that it asked for last.
  [[nodiscard]] Code outcome() {
    EXPECT_TRUE(settle([this] { return !opened_.empty(); })) << "it was told nothing";
    return opened_.empty() ? Code::kIndeterminate : opened_.front();
  }
  [[nodiscard]] const std::vector<Code>& opened() const { return opened_; }
  [[nodiscard]] std::string refusal() const { return ends_.client().last_refusal().to_string(); }
  [[nodiscard]] bool refusal_says(std::string_view words) const {
    return refusal().find(words) != std::string::npos;
  }
  [[nodiscard]] TwoEnds& ends() { return ends_; }

 private:
  mutable TwoEnds ends_;
  std::vector<Code> opened_;
};

TEST(VerbsIntroduction, each_way_that_both_ends_take_opens_a_channel) {
  for (const auto& [server, client] : {std::pair(ConnectBy::kExchange, ConnectBy::kExchange),
                                       std::pair(ConnectBy::kExchange, ConnectBy::kAuto),
                                       std::pair(ConnectBy::kAuto, ConnectBy::kExchange)}) {
    Meeting meeting(server, client);
    meeting.connect();
    EXPECT_EQ(meeting.outcome(), Code::kOk) << meeting.refusal();
    EXPECT_EQ(meeting.refusal(), Report{}.to_string());
  }
}

TEST(VerbsIntroduction, rdma_cm_opens_a_channel_wherever_one_end_wants_it_and_the_other_one_can) {
  for (const auto& [server, client] :
       {std::pair(ConnectBy::kRdmaCm, ConnectBy::kRdmaCm), std::pair(ConnectBy::kRdmaCm, ConnectBy::kAuto),
        std::pair(ConnectBy::kAuto, ConnectBy::kRdmaCm)}) {
    Meeting meeting(server, client);
    for (int round = 0; round < 3; ++round) {
      meeting.connect();
      EXPECT_EQ(meeting.outcome(), Code::kOk) << meeting.refusal();
    }
    EXPECT_EQ(meeting.ends().server().counters().unknown_tokens, 0u);
  }
}

TEST(VerbsIntroduction, rdma_cm_that_only_one_end_takes_is_refused_with_a_sentence) {
  for (const auto& [server, client] : {std::pair(ConnectBy::kExchange, ConnectBy::kRdmaCm),
                                       std::pair(ConnectBy::kRdmaCm, ConnectBy::kExchange)}) {
    Meeting meeting(server, client);
    meeting.connect();
    EXPECT_EQ(meeting.outcome(), Code::kUnsupported);
    EXPECT_TRUE(meeting.refusal_says(fmt::format("connect_by {}", text(server)))) << meeting.refusal();
  }
}

TEST(VerbsIntroduction, without_a_path_fails_and_names_both_addresses) {
  if (!has_cable()) GTEST_SKIP() << "there are no two devices joined by a cable";
  Meeting meeting(ConnectBy::kAuto, ConnectBy::kExchange);
  {
    const Loss loss;
    meeting.connect();
    EXPECT_EQ(meeting.outcome(), Code::kUnavailable);
  }
  for (const VerbsDomain* const end : {static_cast<VerbsDomain*>(&meeting.ends().client()),
                                       static_cast<VerbsDomain*>(&meeting.ends().server())}) {
    EXPECT_TRUE(meeting.refusal_says(end->device().gid.to_string())) << meeting.refusal();
    EXPECT_TRUE(meeting.refusal_says(fmt::format("MTU {}", end->device().mtu_bytes))) << meeting.refusal();
  }
  EXPECT_TRUE(meeting.refusal_says("refract doctor --peer")) << meeting.refusal();
  EXPECT_EQ(meeting.ends().client().counters().greetings_lost, 1u);
  EXPECT_EQ(meeting.ends().server().counters().opened, 0u) << "no owner was told of a channel that never was";
  meeting.connect();
  EXPECT_EQ(meeting.outcome(), Code::kOk) << meeting.refusal();
}

// Of a channel that comes back: the last request that fails does so though no other follows it. The serving
// end answers late, so that all of the introduction but its greeting is over by then.
TEST(VerbsIntroduction, what_is_posted_until_a_channel_is_back_completes_by_itself) {
  if (!has_cable()) GTEST_SKIP() << "there are no two devices joined by a cable";
  TwoEnds ends;
  Channel* const channel = test::needed(ends.client().connect(ends.node().address()));
  std::array<std::byte, 16> bytes{};
  uint64_t posted = 0;
  const auto post = [&] {
    const Request request = {
        .token = posted + 1, .local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend};
    posted += channel->post({&request, 1});
  };
  uint64_t done = 0;
  uint64_t turns = 0;
  // Until `wanted`; false: it does not come.
  const auto await = [&](Op wanted, const std::function<void()>& first) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    for (bool found = false; !found;) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      first();
      std::array<Completion, 64> completions;
      const size_t count = ends.client().poll(completions);
      for (const Completion& each : std::span(completions).first(count)) {
        found = found || each.op == wanted;
        done += each.op == Op::kSend ? 1 : 0;
      }
      ends.client().flush();
      ends.pump();
      if (++turns % 50 != 0) continue;
      (void)ends.server().poll(completions);
      ends.server().flush();
    }
    return true;
  };
  ASSERT_TRUE(await(Op::kOpened, [] {}));
  {
    const Loss loss;
    post();
    ASSERT_TRUE(await(Op::kClosed, [] {}));
    ASSERT_TRUE(channel->reconnects());
  }
  ASSERT_TRUE(await(Op::kOpened, post));
  while (done < posted) ASSERT_TRUE(await(Op::kSend, [] {})) << posted - done << " are still to come";
  EXPECT_EQ(done, posted);
}

// The client sleeps once both ends have said all they can: it is its own alarm, or librdmacm, that wakes it.
TEST(VerbsIntroduction, without_a_path_tries_rdma_cm_too_and_names_both_reasons) {
  if (!has_cable()) GTEST_SKIP() << "there are no two devices joined by a cable";
  Meeting meeting(ConnectBy::kAuto, ConnectBy::kAuto);
  const Loss loss;
  meeting.connect();
  ClientDomain& client = meeting.ends().client();
  ASSERT_TRUE(meeting.settle([&client] { return client.counters().greetings_lost == 1; }));
  for (int turns = 0; turns < 1'000; ++turns) meeting.turn();
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (meeting.opened().empty()) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "it overslept";
    meeting.client_turn();
    if (client.prepare_sleep()) {
      std::vector<pollfd> waiting;
      for (const int descriptor : client.wake_descriptors()) waiting.push_back({descriptor, POLLIN, 0});
      ASSERT_GT(::poll(waiting.data(), waiting.size(), 30'000), 0) << "nothing woke it";
    }
    client.woke();
  }
  EXPECT_EQ(meeting.outcome(), Code::kUnavailable);
  EXPECT_TRUE(meeting.refusal_says("by exchange")) << meeting.refusal();
  EXPECT_TRUE(meeting.refusal_says("by librdmacm")) << meeting.refusal();
}

// An introduction as a client says it, by hand: what comes of it is up to the test.
class Stranger {
 public:
  explicit Stranger(Meeting& meeting) : meeting_(meeting), tcp_(test::needed(tcp::ClientDomain::create({}))) {
    const auto channel = tcp_->connect(meeting.ends().node().address());
    EXPECT_TRUE(channel.has_value());
    channel_ = *channel;
  }

  // The server's answer. Not sound: there was none.
  [[nodiscard]] Introduction introduce(Introduction introduction) {
    Introduction answer{};
    const Request hello{.local = {reinterpret_cast<std::byte*>(&introduction), sizeof(introduction)},
                        .tail = {},
                        .op = Op::kSend};
    EXPECT_TRUE(meeting_.settle([&] {
      std::array<Completion, 16> completions;
      const size_t count = tcp_->poll(completions);
      for (const Completion& each : std::span(completions).first(count)) {
        if (each.op == Op::kOpened) {
          EXPECT_EQ(channel_->post({&hello, 1}), 1u);
        }
        if (each.op != Op::kReceive) continue;
        const auto decoded = decode_introduction(each.bytes);
        if (decoded) answer = *decoded;
      }
      tcp_->flush();
      return answer.header.kind == Kind::kAcceptance;
    })) << "it was not accepted";
    return answer;
  }

 private:
  Meeting& meeting_;
  std::unique_ptr<tcp::ClientDomain> tcp_;
  Channel* channel_ = nullptr;
};

TEST(VerbsIntroduction, rdma_cm_turns_down_who_shows_no_token_of_ours_and_goes_on) {
  Meeting meeting(ConnectBy::kAuto, ConnectBy::kRdmaCm);
  Stranger stranger(meeting);
  const DeviceChoice& here = meeting.ends().client().device();
  const Introduction answer = stranger.introduce({.header = header_of(Kind::kIntroduction),
                                                  .queue_pair = 1,
                                                  .packet_sequence = 1,
                                                  .gid = here.gid.gid,
                                                  .lid = 0,
                                                  .gid_kind = static_cast<uint8_t>(here.gid.kind),
                                                  .link_layer = static_cast<uint8_t>(here.link_layer),
                                                  .mtu_bytes = here.mtu_bytes,
                                                  .reads_in_max = 1,
                                                  .reads_out_max = 1,
                                                  .credits = 1,
                                                  .message_bytes_max = 64,
                                                  .way = Way::kRdmaCm,
                                                  .port = 0,
                                                  .token = 0});
  const std::string there = meeting.ends().server().device().gid.to_string();
  const Token wrong{.header = header_of(Kind::kToken), .token = answer.token ^ 1};
  const std::array<std::byte, 16> nonsense{std::byte{7}};
  for (const auto& bytes : {std::as_bytes(std::span(&wrong, 1)), std::span<const std::byte>(nonsense)}) {
    test::CmEnd caller;
    caller.begin_connecting(here.gid.to_string(), there, static_cast<uint16_t>(answer.port), bytes);
    ASSERT_TRUE(meeting.settle([&caller] { return caller.has_news(); })) << "it was left waiting";
    caller.expect_rejection();
  }
  EXPECT_EQ(meeting.ends().server().counters().unknown_tokens, 1u);
  EXPECT_EQ(meeting.ends().server().counters().opened, 0u);
  meeting.connect();
  EXPECT_EQ(meeting.outcome(), Code::kOk) << meeting.refusal();
}

}  // namespace
}  // namespace refract::fabric::verbs
