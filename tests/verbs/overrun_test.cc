// SPDX-License-Identifier: Apache-2.0
// Queues that are filled to their bounds, beyond them, and by peers that keep no bound.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/verbs/endpoint.h"
#include "tests/verbs/failure_fixture.h"

#include "refract/base/testing/needed.h"
#include "refract/fabric/verbs/tuning.h"
#include "refract/fabric/verbs/wire.h"
#include "refract/fabric/verbs/work_batch.h"

namespace refract::fabric::verbs {
namespace {

using test::Endpoint;

// How long the devices are left alone with what is under way; nothing is asserted about time, more of it only
// makes the queues fuller.
void leave_alone() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
}

Request message_of(std::span<std::byte> bytes) {
  return {.token = 77, .local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend};
}

// A peer that was admitted and keeps no rule: introduced over TCP as any peer, with a queue pair by hand.
class Hostile {
 public:
  explicit Hostile(Serving& serving)
      : tcp_(test::needed(tcp::ClientDomain::create({}))),
        device_(test::needed(OpenDevice::open(wish_on("veth0")))),
        endpoint_(device_->calls(), device_->context()),
        channel_(test::needed(tcp_->connect(serving.address()))) {}

  void turn() {
    std::array<Completion, 16> completions;
    const size_t count = tcp_->poll(completions);
    for (const Completion& each : std::span(completions).first(count)) hear(each);
    tcp_->flush();
  }
  // Eight bytes each, which return no credit.
  void flood(uint32_t messages) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND_WITH_IMM;
    for (uint32_t i = 0; i < messages; ++i) endpoint_.post(request, 0, 8);
  }
  [[nodiscard]] uint32_t delivered() {
    ibv_wc done;
    while (endpoint_.poll(done)) {
      delivered_ += done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_SEND ? 1 : 0;
    }
    return delivered_;
  }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  [[nodiscard]] bool is_cut() const { return is_cut_; }

 private:
  void hear(const Completion& told) {
    if (told.op == Op::kOpened) introduce();
    if (told.op == Op::kReceive) meet(told.bytes);
    if (told.op == Op::kClosed) is_cut_ = true;
  }
  template <typename T>
  void say(T message) {
    const Request request = message_of(std::as_writable_bytes(std::span(&message, 1)));
    EXPECT_EQ(channel_->post({&request, 1}), 1u);
  }
  void introduce() {
    const DeviceChoice& choice = device_->choice();
    say(Introduction{.header = header_of(Kind::kIntroduction),
                     .queue_pair = endpoint_.queue_pair_number(),
                     .packet_sequence = Endpoint::kFirstPacket,
                     .gid = choice.gid.gid,
                     .lid = choice.lid,
                     .gid_kind = static_cast<uint8_t>(choice.gid.kind),
                     .link_layer = static_cast<uint8_t>(choice.link_layer),
                     .mtu_bytes = choice.mtu_bytes,
                     .reads_in_max = 4,
                     .reads_out_max = 4,
                     .credits = kCredits,
                     .message_bytes_max = kMessageBytesMax,
                     .way = Way::kExchange,
                     .port = 0,
                     .token = 0});
  }
  void meet(std::span<const std::byte> said) {
    const auto peer = decode_introduction(said);
    ASSERT_TRUE(peer.has_value());
    endpoint_.connect({.queue_pair = peer->queue_pair, .packet = peer->packet_sequence, .gid = peer->gid},
                      device_->choice());
    const Header greeting = header_of(Kind::kGreeting);
    std::memcpy(endpoint_.buffer().data(), &greeting, sizeof(greeting));
    endpoint_.post_receive(Endpoint::kBufferBytes / 2, kMessageBytesMax);
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND_WITH_IMM;
    request.imm_data = htonl(kIsGreeting);
    endpoint_.post(request, 0, std::min(peer->mtu_bytes, device_->choice().mtu_bytes));
    is_ready_ = true;
  }

  std::unique_ptr<tcp::ClientDomain> tcp_;
  std::unique_ptr<OpenDevice> device_;
  Endpoint endpoint_;
  Channel* channel_;
  uint32_t delivered_ = 0;
  bool is_ready_ = false;
  bool is_cut_ = false;
};

class VerbsQueueFailure : public VerbsFailure {
 protected:
  void turn() override {
    VerbsFailure::turn();
    if (hostile_) hostile_->turn();
  }
  void let_hostile_in() {
    const size_t before = serving_.channels().size();
    hostile_ = std::make_unique<Hostile>(serving_);
    ASSERT_TRUE(settle([&] { return hostile_->is_ready() && serving_.channels().size() == before + 1; }));
  }

  std::unique_ptr<Hostile> hostile_;
};

TEST_F(VerbsQueueFailure, a_peer_that_sends_beyond_its_credits_is_cut_and_nobody_else_is_told) {
  let_hostile_in();
  const size_t before = serving_.channels().size();
  hostile_->flood(2 * kCredits);
  leave_alone();
  ASSERT_TRUE(settle([&] { return hostile_->is_cut() && serving_.channels().size() == before - 1; }));
  EXPECT_GE(serving_.domain().counters().overrun_peers, 1u);
  EXPECT_LE(serving_.messages(), size_t{kCredits}) << "no more than it had credits for";
  bystander_goes_on();
  EXPECT_EQ(victim_.losses(), 0u);
  // And its receives serve others again.
  std::array<std::byte, 8> bytes{};
  const Request hello = message_of(bytes);
  const size_t heard = serving_.messages();
  ASSERT_EQ(victim_.post({&hello, 1}), 1u);
  EXPECT_TRUE(settle([&] { return serving_.messages() == heard + 1; }));
}

// All receives of the domain are taken by a peer that floods it, while the server does not look. An honest
// message then has to wait, READs of others continue, and one look of the server ends it.
TEST_F(VerbsQueueFailure, receives_that_run_dry_come_back_with_the_next_look_of_the_server) {
  let_hostile_in();
  hostile_->flood(Endpoint::kDepth - 2);
  leave_alone();
  ASSERT_GE(hostile_->delivered(), 3 * kReceivesEach) << "there are receives left";
  std::array<std::byte, 8> bytes{};
  const Request hello = message_of(bytes);
  ASSERT_EQ(victim_.post({&hello, 1}), 1u);
  const uint64_t before = bystander_.good();
  while (bystander_.good() < before + kSomeReads) turn_callers();
  ASSERT_TRUE(settle([&] { return hostile_->is_cut() && !victim_.others.empty(); }));
  bystander_goes_on();
  // It may have waited for too long for its patience, but it was not forgotten.
  EXPECT_TRUE(victim_.others.front().code == Code::kOk || victim_.others.front().code == Code::kUnavailable);
  EXPECT_TRUE(is_back(victim_));
}

// If the server never looks again, an honest message fails within the transport's patience.
TEST_F(VerbsQueueFailure, receives_that_stay_dry_fail_a_message_and_do_not_keep_it_for_ever) {
  let_hostile_in();
  hostile_->flood(Endpoint::kDepth - 2);
  leave_alone();
  std::array<std::byte, 8> bytes{};
  const Request hello = message_of(bytes);
  ASSERT_EQ(victim_.post({&hello, 1}), 1u);
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (victim_.others.empty() && std::chrono::steady_clock::now() < give_up) turn_callers();
  ASSERT_FALSE(victim_.others.empty()) << "it waits for ever";
  EXPECT_EQ(victim_.others.front().code, Code::kUnavailable);
  EXPECT_GE(victim_.domain().counters().retries_exceeded, 1u);
  bystander_goes_on();
  EXPECT_TRUE(is_back(victim_));
}

// A domain whose channels can be made to have as much under way as they ever may.
class Filler {
 public:
  static constexpr size_t kChannels = 3;
  static constexpr uint64_t kReads = kSendQueue / 2 - 1;
  static constexpr uint64_t kChunk = 8 * kKiB;

  explicit Filler(const Serving& serving)
      : tcp_(test::needed(tcp::ClientDomain::create({}))),
        domain_(std::move(
            ClientDomain::create(
                *tcp_, {.device = wish_on("veth0"), .channels_max = kChannels, .chunk_bytes_max = kChunk})
                .value())) {
    EXPECT_TRUE(domain_->register_region({.region = 1, .base = memory(), .bytes = kBytes, .rights = {}}));
    for (Channel*& channel : channels_) channel = test::needed(domain_->connect(serving.address()));
  }

  // Each READ lies across the bounds of two registrations here, so that it is two work requests.
  void post(RemoteSpan remote, uint64_t reads) {
    done_ = 0;
    for (Channel* const channel : channels_) {
      for (uint64_t i = 0; i < reads; ++i) {
        const Request request{.token = i + 1,
                              .local = {memory() + i * kChunk + kChunk / 2, kChunk},
                              .remote = remote,
                              .op = Op::kRead};
        EXPECT_EQ(channel->post({&request, 1}), 1u);
      }
    }
    domain_->flush();
  }
  void turn() {
    std::array<Completion, 64> completions;
    const size_t count = domain_->poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op == Op::kOpened && each.code == Code::kOk) ++opened_;
      if (each.op == Op::kReceive) ++received_;
      if (each.op != Op::kRead) continue;
      ++done_;
      if (each.code == Code::kAccessDenied) ++denied_;
      if (each.code == Code::kUnavailable) ++unavailable_;
    }
    domain_->flush();
  }

  [[nodiscard]] std::byte* memory() { return memory_.get(); }
  [[nodiscard]] const DomainCounters& counters() const { return domain_->counters(); }
  [[nodiscard]] size_t opened() const { return opened_; }
  [[nodiscard]] size_t done() const { return done_; }
  [[nodiscard]] size_t received() const { return received_; }
  [[nodiscard]] size_t denied() const { return denied_; }
  [[nodiscard]] size_t unavailable() const { return unavailable_; }

 private:
  static constexpr uint64_t kBytes = kSendQueue * kChunk;
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_{static_cast<std::byte*>(std::aligned_alloc(4096, kBytes))};
  std::unique_ptr<tcp::ClientDomain> tcp_;
  std::unique_ptr<ClientDomain> domain_;
  std::array<Channel*, kChannels> channels_{};
  size_t opened_ = 0;
  size_t done_ = 0;
  size_t received_ = 0;
  size_t denied_ = 0;
  size_t unavailable_ = 0;
};

// A domain admits so many channels that all they can have under way fits its completion queue. Here all of
// them have all of it under way, receives too, and all of it ends at once while no thread polls.
TEST_F(VerbsQueueFailure, a_completion_queue_has_room_for_everything_that_its_channels_can_cause) {
  constexpr uint16_t kRevoked = Serving::kRegion + 1;
  const size_t others = serving_.channels().size();
  Filler filler(serving_);
  const auto key =
      serving_.domain().register_region({.region = kRevoked,
                                         .base = filler.memory(),
                                         .bytes = Filler::kChunk,
                                         .rights = {.read = true, .write = false, .atomic = false}});
  ASSERT_TRUE(key.has_value());
  const RemoteSpan remote{RemotePointer::at(kRevoked, 0), *key};
  ASSERT_TRUE(settle([&] { return filler.turn(), filler.opened() == Filler::kChannels; }));
  filler.post(remote, 1);
  ASSERT_TRUE(settle([&] { return filler.turn(), filler.done() == Filler::kChannels; }));

  const DomainCounters before = filler.counters();
  std::array<std::byte, 8> hello{};
  const std::vector<Request> messages(kCredits, message_of(hello));
  for (Channel* const channel : std::span(serving_.channels()).subspan(others)) {
    ASSERT_EQ(channel->post(messages), messages.size());
  }
  serving_.domain().flush();
  // Known to the device alone, since the domain does not look: the first READ breaks its queue pair.
  serving_.domain().revoke_region(kRevoked);
  filler.post(remote, Filler::kReads);
  leave_alone();
  constexpr size_t kAll = Filler::kChannels * Filler::kReads;
  ASSERT_TRUE(settle([&] { return filler.turn(), filler.done() == kAll; }));
  EXPECT_EQ(filler.denied(), Filler::kChannels) << "one for each channel was refused";
  EXPECT_EQ(filler.unavailable(), kAll - Filler::kChannels) << "the rest went down with it";
  EXPECT_EQ(filler.received(), Filler::kChannels * kCredits) << "messages that had arrived are not lost";
  EXPECT_GE(filler.counters().completions - before.completions, 2 * kAll) << "all at once in the queue";
  EXPECT_EQ(filler.counters().device_events, before.device_events) << "the queue overran";
  ASSERT_TRUE(settle([&] { return filler.turn(), filler.opened() == 2 * Filler::kChannels; }))
      << "the channels did not come back";
  bystander_goes_on();
}

// What a smaller queue would come to: the device says that it has failed, the domain makes a new one.
TEST_F(VerbsQueueFailure, a_completion_queue_that_overran_costs_the_channels_of_its_domain_and_is_made_anew) {
  Caller small(serving_, wish_on("veth0"), {.device = {}, .channels_max = 1, .completions_max = 7});
  const size_t others = serving_.channels().size();
  ASSERT_TRUE(small.connect());
  ASSERT_TRUE(
      settle([&] { return small.turn(), small.good() > 0 && serving_.channels().size() == others + 1; }));
  std::array<std::byte, 8> hello{};
  const std::vector<Request> messages(kCredits, message_of(hello));
  ASSERT_EQ(serving_.channels().back()->post(messages), messages.size());
  serving_.domain().flush();
  leave_alone();
  ASSERT_TRUE(settle([&] { return small.turn(), small.has_ended(); })) << "not noticed";
  EXPECT_TRUE(says(small.domain().last_refusal(), "completion queue"))
      << small.domain().last_refusal().to_string();
  EXPECT_EQ(small.wrong(), 0u);
  bystander_goes_on();
  EXPECT_EQ(victim_.losses(), 0u) << "which has a queue of its own";
  const uint64_t before = small.good();
  EXPECT_TRUE(settle([&] {
    (void)small.connect();
    small.turn();
    return small.good() > before;
  })) << small.domain().last_refusal().to_string();
}

}  // namespace
}  // namespace refract::fabric::verbs
