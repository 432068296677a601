// SPDX-License-Identifier: Apache-2.0
// What the RDMA provider promises beyond the contract: how much it asks of the device, that it needs no CPU
// of the target, and how it comes back from what goes wrong.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/verbs/two_ends.h"

#include "refract/base/units.h"
#include "refract/fabric/verbs/wire.h"

namespace refract::fabric::verbs {
namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr uint16_t kRegion = 3;
constexpr size_t kRegionBytes = kMiB;

class VerbsProvider : public testing::Test {
 protected:
  void SetUp() override {
    region_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, kRegionBytes)));
    std::memset(region_.get(), 0x5a, kRegionBytes);
    serve();
    open();
  }

  void serve() {
    const auto key =
        ends_.server().register_region({.region = kRegion,
                                        .base = region_.get(),
                                        .bytes = kRegionBytes,
                                        .rights = {.read = true, .write = true, .atomic = true}});
    ASSERT_TRUE(key.has_value()) << key.error().to_string();
    key_ = *key;
  }
  void open() {
    const auto channel = ends_.client().connect(ends_.node().address());
    ASSERT_TRUE(channel.has_value()) << channel.error().to_string();
    client_ = *channel;
    ASSERT_TRUE(settle([this] { return opened_ > 0 && accepted_ != nullptr; })) << "it did not open";
  }

  // Both ends, with what the tests look for kept.
  void turn() {
    std::array<Completion, 64> completions;
    const size_t count = ends_.client().poll(completions);
    for (const Completion& each : std::span(completions).first(count)) hear_client(each);
    ends_.client().flush();
    ends_.pump();
    if (!server_runs_) return;
    const size_t answered = ends_.server().poll(completions);
    for (const Completion& each : std::span(completions).first(answered)) {
      if (each.op == Op::kOpened) accepted_ = each.channel;
      if (each.op == Op::kReceive) ++server_received_;
      if (each.op == Op::kClosed) ++server_closed_;
    }
    ends_.server().flush();
  }
  void hear_client(const Completion& each) {
    if (each.op == Op::kOpened && each.code == Code::kOk) ++opened_;
    if (each.op == Op::kClosed) ++(each.value == 1 ? away_ : closed_);
    if (each.op <= Op::kSend) done_.push_back(each);
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      turn();
    }
    return true;
  }
  [[nodiscard]] Code perform(Request request) {
    request.token = ++token_;
    done_.clear();
    EXPECT_EQ(client_->post({&request, 1}), 1u);
    EXPECT_TRUE(settle([this] { return !done_.empty(); })) << "the request never completed";
    return done_.empty() ? Code::kIndeterminate : done_.front().code;
  }
  [[nodiscard]] Request read(std::byte* to, size_t bytes, uint64_t offset = 0) const {
    return {.local = {to, bytes}, .remote = at(offset), .op = Op::kRead};
  }
  [[nodiscard]] RemoteSpan at(uint64_t offset) const { return {RemotePointer::at(kRegion, offset), key_}; }

  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> region_;
  TwoEnds ends_;
  RemoteKey key_;
  Channel* client_ = nullptr;
  Channel* accepted_ = nullptr;
  bool server_runs_ = true;
  int opened_ = 0;
  int away_ = 0;
  int closed_ = 0;
  int server_received_ = 0;
  int server_closed_ = 0;
  uint64_t token_ = 0;
  std::vector<Completion> done_;
};

// The server may speak as soon as it has been greeted, right behind its own greeting.
TEST_F(VerbsProvider, a_message_right_behind_the_introduction_comes_when_the_channel_has_opened) {
  const auto channel = ends_.client().connect(ends_.node().address());
  ASSERT_TRUE(channel.has_value()) << channel.error().to_string();
  std::array<Completion, 64> completions;
  std::array<std::byte, 16> bytes{};
  const Request hello = {.token = 77, .local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend};
  bool has_spoken = false;
  std::vector<Op> heard;
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (heard.size() < 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    const size_t count = ends_.server().poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op != Op::kOpened) continue;
      ASSERT_EQ(each.channel->post({&hello, 1}), 1u);
      has_spoken = true;
    }
    ends_.server().flush();
    ends_.pump();
    // What comes for the client meanwhile is there when it looks again: both at once.
    const size_t told = ends_.client().poll(completions);
    for (const Completion& each : std::span(completions).first(told)) heard.push_back(each.op);
    ends_.client().flush();
  }
  EXPECT_TRUE(has_spoken);
  EXPECT_EQ(heard, (std::vector<Op>{Op::kOpened, Op::kReceive}));
}

// The counts that docs/design/021 promises. What a region is called at the device is asked once.
TEST_F(VerbsProvider, a_cached_get_is_two_reads_one_doorbell_and_one_completion) {
  std::array<std::byte, 512> bytes{};
  ASSERT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  const DomainCounters before = ends_.client().counters();
  const DomainCounters idle = ends_.server().counters();
  std::array<Request, 2> get = {read(bytes.data(), 256), read(bytes.data() + 256, 64, 4096)};
  get[0].token = 1;
  get[1].token = 2;
  done_.clear();
  ASSERT_EQ(client_->post(get), 2u);
  server_runs_ = false;  // It is not polled, and need not be.
  ASSERT_TRUE(settle([this] { return done_.size() == 2; }));
  const DomainCounters& after = ends_.client().counters();
  EXPECT_EQ(after.reads - before.reads, 2u);
  EXPECT_EQ(after.work_requests - before.work_requests, 2u);
  EXPECT_EQ(after.doorbells - before.doorbells, 1u);
  EXPECT_EQ(after.signalled - before.signalled, 1u);
  EXPECT_EQ(after.completions - before.completions, 1u);
  EXPECT_EQ(after.questions, before.questions);
  EXPECT_EQ(ends_.server().counters().receives, idle.receives) << "the server took no part";
  EXPECT_EQ(bytes[300], std::byte{0x5a});
}

TEST_F(VerbsProvider, sixteen_gets_are_32_reads_one_doorbell_and_one_completion) {
  std::vector<std::byte> bytes(32 * 256);
  ASSERT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  const DomainCounters before = ends_.client().counters();
  std::vector<Request> gets;
  for (uint64_t i = 0; i < 32; ++i) {
    gets.push_back(read(bytes.data() + 256 * i, 256, 4096 * i));
    gets.back().token = i + 1;
  }
  done_.clear();
  ASSERT_EQ(client_->post(gets), gets.size());
  ASSERT_TRUE(settle([this] { return done_.size() == 32; }));
  const DomainCounters& after = ends_.client().counters();
  EXPECT_EQ(after.reads - before.reads, 32u);
  EXPECT_EQ(after.work_requests - before.work_requests, 32u);
  EXPECT_EQ(after.doorbells - before.doorbells, 1u);
  EXPECT_EQ(after.signalled - before.signalled, 1u);
  EXPECT_EQ(after.completions - before.completions, 1u);
}

TEST_F(VerbsProvider, a_call_is_one_send_each_way) {
  std::array<std::byte, 64> bytes{};
  const DomainCounters client = ends_.client().counters();
  const DomainCounters server = ends_.server().counters();
  ASSERT_EQ(perform({.local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend}), Code::kOk);
  ASSERT_TRUE(settle([this] { return server_received_ == 1; }));
  const Request reply{.local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend};
  ASSERT_EQ(accepted_->post({&reply, 1}), 1u);
  ASSERT_TRUE(settle([&] { return ends_.client().counters().receives == client.receives + 1; }));
  for (const auto& [after, before] :
       {std::pair(ends_.client().counters(), client), std::pair(ends_.server().counters(), server)}) {
    EXPECT_EQ(after.sends - before.sends, 1u);
    EXPECT_EQ(after.inline_sends - before.inline_sends, 1u);
    EXPECT_EQ(after.work_requests - before.work_requests, 1u);
    EXPECT_EQ(after.doorbells - before.doorbells, 1u);
  }
}

TEST_F(VerbsProvider, a_region_is_one_registration_and_one_question) {
  EXPECT_EQ(ends_.server().counters().registrations, 1u);
  std::vector<std::byte> bytes(kRegionBytes);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(perform(read(bytes.data(), bytes.size())), Code::kOk);
  EXPECT_EQ(ends_.client().counters().questions, 1u);
  EXPECT_EQ(std::memcmp(bytes.data(), region_.get(), bytes.size()), 0);
}

// What refuses a request before anything is sent costs no work request and does not end the channel.
TEST_F(VerbsProvider, what_the_answer_does_not_cover_is_refused_without_asking_the_device) {
  std::array<std::byte, 8> bytes{};
  ASSERT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  const DomainCounters before = ends_.client().counters();
  EXPECT_EQ(perform(read(bytes.data(), 8, kRegionBytes - 7)), Code::kAccessDenied);
  EXPECT_EQ(perform({.remote = at(4), .op = Op::kFetchAdd}), Code::kInvalidArgument);
  EXPECT_EQ(ends_.client().counters().work_requests, before.work_requests);
  EXPECT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  EXPECT_EQ(away_, 0);
}

// A key that was revoked while the notice was under way meets the device's own refusal. The request says so,
// the channel comes back by itself, and another channel notices nothing.
TEST_F(VerbsProvider, a_key_the_device_refuses_costs_one_request_and_the_channel_comes_back) {
  Channel* const first = client_;
  accepted_ = nullptr;
  const int opened_before = opened_;
  const auto other = ends_.client().connect(ends_.node().address());
  ASSERT_TRUE(other.has_value());
  ASSERT_TRUE(settle([&] { return opened_ > opened_before && accepted_ != nullptr; }));
  std::array<std::byte, 8> bytes{};
  ASSERT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  // Posted and flushed before the client is told anything.
  Request late = read(bytes.data(), 8);
  late.token = ++token_;
  done_.clear();
  ends_.server().revoke_region(kRegion);
  ASSERT_EQ(first->post({&late, 1}), 1u);
  ends_.client().flush();
  ASSERT_TRUE(settle([this] { return !done_.empty(); }));
  EXPECT_EQ(done_.front().code, Code::kAccessDenied);
  ASSERT_TRUE(settle([&] { return away_ == 1 && opened_ == opened_before + 2; })) << "it stayed away";
  EXPECT_EQ(ends_.client().counters().remote_access_errors, 1u);
  serve();
  for (Channel* const each : {first, *other}) {
    client_ = each;
    EXPECT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  }
  EXPECT_EQ(away_, 1) << "the other channel lived through it";
}

// A node that restarts has other device keys and other keys of ours: the channel comes back over the
// introducer, and what it had learned is forgotten.
TEST_F(VerbsProvider, a_channel_outlives_the_server_that_restarts) {
  std::array<std::byte, 8> bytes{};
  ASSERT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  server_runs_ = false;
  ends_.kill_server();
  ASSERT_TRUE(settle([this] { return away_ == 1; }));
  EXPECT_EQ(perform(read(bytes.data(), 8)), Code::kUnavailable);
  ends_.restart_server();
  server_runs_ = true;
  const RemoteKey old_key = key_;
  serve();
  ASSERT_TRUE(settle([this] { return opened_ == 2; })) << "it did not come back";
  EXPECT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  key_ = old_key;
  EXPECT_EQ(perform(read(bytes.data(), 8)), Code::kAccessDenied);
  EXPECT_EQ(closed_, 0);
}

// The server's port also serves clients that know no RDMA; their first message tells them from others.
TEST_F(VerbsProvider, a_plain_client_of_the_introducer_is_served_beside) {
  auto plain = tcp::ClientDomain::create({});
  ASSERT_TRUE(plain.has_value());
  const auto channel = (*plain)->connect(ends_.node().address());
  ASSERT_TRUE(channel.has_value());
  std::array<std::byte, 16> bytes{};
  const Request hello{.token = 9, .local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend};
  const Request one_sided = {.token = 10, .local = {bytes.data(), 8}, .remote = at(0), .op = Op::kRead};
  bool posted = false;
  bool is_read = false;
  ASSERT_TRUE(settle([&] {
    std::array<Completion, 16> completions;
    const size_t count = (*plain)->poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op == Op::kOpened) {
        posted = (*channel)->post({&hello, 1}) == 1 && (*channel)->post({&one_sided, 1}) == 1;
      }
      is_read = is_read || (each.op == Op::kRead && each.code == Code::kOk);
    }
    (*plain)->flush();
    return server_received_ == 1 && is_read;
  })) << "posted "
      << posted;
  EXPECT_EQ(bytes[0], std::byte{0x5a}) << "the region's key is the introducer's, too";
  std::array<std::byte, 8> word{};
  EXPECT_EQ(perform(read(word.data(), 8)), Code::kOk);
}

// READs of a queue pair take effect one after the other: of two that are posted together, the second never
// sees less of a growing counter than the first. A reader of slot and buffer relies on it.
TEST_F(VerbsProvider, reads_of_one_channel_take_effect_in_the_order_posted) {
  auto* const words = reinterpret_cast<uint64_t*>(region_.get());
  std::array<uint64_t, 2> seen{};
  uint64_t counter = 0;
  for (int round = 0; round < 500; ++round) {
    std::array<Request, 2> requests;
    for (size_t i = 0; i < 2; ++i) {
      requests[i] = read(reinterpret_cast<std::byte*>(&seen[i]), 8, 0);
      requests[i].token = i + 1;
    }
    done_.clear();
    ASSERT_EQ(client_->post(requests), 2u);
    ends_.client().flush();
    while (done_.size() < 2) {
      std::atomic_ref(words[0]).store(++counter, std::memory_order_release);
      turn();
    }
    ASSERT_LE(seen[0], seen[1]) << "round " << round;
  }
}

// What a peer says before it has a queue pair may be anything: each is refused, and costs no other peer
// anything.
TEST_F(VerbsProvider, introductions_that_make_no_sense_are_refused_and_others_go_on) {
  auto plain = tcp::ClientDomain::create({});
  ASSERT_TRUE(plain.has_value());
  const Introduction far_away{.header = header_of(Kind::kIntroduction),
                              .queue_pair = 1,
                              .packet_sequence = 1,
                              .gid = {},
                              .lid = 0,
                              .gid_kind = static_cast<uint8_t>(GidKind::kRoce1),
                              .link_layer = static_cast<uint8_t>(LinkLayer::kEthernet),
                              .mtu_bytes = 1024,
                              .reads_in_max = 1,
                              .reads_out_max = 1,
                              .credits = 1,
                              .message_bytes_max = 64,
                              .way = Way::kExchange,
                              .port = 0,
                              .token = 0};
  Introduction impossible = far_away;
  impossible.mtu_bytes = 1500;
  Introduction later = far_away;
  later.header.version = static_cast<uint16_t>(kWireVersion + 1);
  const std::array<std::pair<Introduction, Code>, 3> cases = {std::pair(far_away, Code::kUnsupported),
                                                              std::pair(impossible, Code::kMalformed),
                                                              std::pair(later, Code::kUnsupported)};
  for (const auto& [introduction, expected] : cases) {
    const auto channel = (*plain)->connect(ends_.node().address());
    ASSERT_TRUE(channel.has_value());
    Introduction copy = introduction;
    const Request hello{
        .local = {reinterpret_cast<std::byte*>(&copy), sizeof(copy)}, .tail = {}, .op = Op::kSend};
    Code refused = Code::kOk;
    ASSERT_TRUE(settle([&] {
      std::array<Completion, 16> completions;
      const size_t count = (*plain)->poll(completions);
      for (const Completion& each : std::span(completions).first(count)) {
        if (each.op == Op::kOpened) {
          EXPECT_EQ((*channel)->post({&hello, 1}), 1u);
        }
        if (each.op != Op::kReceive) continue;
        const auto why = decode_refusal(each.bytes);
        refused = why ? why->code : Code::kCorrupt;
      }
      (*plain)->flush();
      return refused != Code::kOk;
    })) << "it was not answered";
    EXPECT_EQ(refused, expected);
    std::array<std::byte, 8> bytes{};
    EXPECT_EQ(perform(read(bytes.data(), 8)), Code::kOk);
  }
  EXPECT_EQ(ends_.server().counters().malformed, 2u);
  EXPECT_EQ(away_, 0);
}

TEST_F(VerbsProvider, a_domain_says_which_device_it_uses_and_why) {
  EXPECT_FALSE(ends_.client().device().why.empty());
  EXPECT_GT(ends_.client().channels_max(), 0u);
}

TEST_F(VerbsProvider, a_server_without_free_channels_refuses_with_a_sentence) {
  TwoEnds small({.device = {}, .channels_max = 1});
  const auto one = small.client().connect(small.node().address());
  const auto two = small.client().connect(small.node().address());
  ASSERT_TRUE(one.has_value() && two.has_value());
  int opened = 0;
  Code refused = Code::kOk;
  ASSERT_TRUE(settle([&] {
    std::array<Completion, 16> completions;
    const size_t count = small.client().poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op == Op::kOpened && each.code == Code::kOk) ++opened;
      if (each.op == Op::kOpened && each.code != Code::kOk) refused = each.code;
    }
    small.client().flush();
    small.pump();
    (void)small.server().poll(completions);
    small.server().flush();
    return opened == 1 && refused != Code::kOk;
  }));
  EXPECT_EQ(refused, Code::kOverloaded);
  EXPECT_NE(small.client().last_refusal().what.find("taken"), std::string::npos)
      << small.client().last_refusal().to_string();
}

}  // namespace
}  // namespace refract::fabric::verbs
