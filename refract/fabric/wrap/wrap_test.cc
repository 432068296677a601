// SPDX-License-Identifier: Apache-2.0
// The decorators keep the contract, and do what they are for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/trace_ring.h"
#include "refract/fabric/conformance.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/fabric/wrap/count.h"
#include "refract/fabric/wrap/fault.h"
#include "refract/fabric/wrap/trace.h"

namespace refract::fabric {
namespace {

using Wrap = std::function<std::unique_ptr<Domain>(Domain&)>;

// Both ends wrapped.
class WrappedFixture final : public Fixture {
 public:
  explicit WrappedFixture(const Wrap& wrap)
      : inner_server_(std::make_unique<LoopbackDomain>(hub_, "server")),
        client_(wrap(inner_client_)),
        server_(wrap(*inner_server_)) {}

  [[nodiscard]] Domain& client() override { return *client_; }
  [[nodiscard]] Domain& server() override { return *server_; }
  [[nodiscard]] Reported<Channel*> connect() override { return client_->connect("server"); }
  [[nodiscard]] std::string unused_address() override { return "unused"; }
  [[nodiscard]] bool kill_server() override {
    server_.reset();
    inner_server_.reset();
    return true;
  }

 private:
  LoopbackHub hub_;
  LoopbackDomain inner_client_{hub_, "client"};
  std::unique_ptr<LoopbackDomain> inner_server_;
  std::unique_ptr<Domain> client_;
  std::unique_ptr<Domain> server_;
};

// Another for each domain, or both ends would have their faults at the same moments.
uint64_t next_seed() {
  static uint64_t seed = 100;
  return ++seed;
}

Provider wrapped(std::string name, Wrap wrap) {
  return {std::move(name), [wrap] { return std::make_unique<WrappedFixture>(wrap); }};
}

INSTANTIATE_TEST_SUITE_P(
    Wrapped, ChannelConformance,
    testing::Values(wrapped("count", [](Domain& inner) { return std::make_unique<CountDomain>(inner); }),
                    wrapped("trace", [](Domain& inner) { return std::make_unique<TraceDomain>(inner); }),
                    wrapped("short_counts",
                            [](Domain& inner) {
                              return std::make_unique<FaultDomain>(
                                  inner, FaultOptions{.seed = next_seed(), .short_count_chance = 0.5});
                            }),
                    wrapped("delays",
                            [](Domain& inner) {
                              return std::make_unique<FaultDomain>(
                                  inner, FaultOptions{.seed = next_seed(), .delay_chance = 0.3});
                            })),
    provider_name);

// A channel between two decorated loopback domains, driven by hand.
class WrapTest : public testing::Test {
 protected:
  Channel* open(Domain& client, Domain& server) {
    const Reported<Channel*> channel = client.connect("server");
    EXPECT_TRUE(channel.has_value());
    for (int i = 0; i < 3; ++i) turn(client, server);
    return *channel;
  }
  void turn(Domain& client, Domain& server) {
    std::array<Completion, 64> completions;
    for (Domain* domain : {&client, &server}) {
      const size_t count = domain->poll(completions);
      for (const Completion& completion : std::span(completions).first(count)) seen_.push_back(completion);
      domain->flush();
    }
  }

  LoopbackHub hub_;
  LoopbackDomain client_{hub_, "client"};
  LoopbackDomain server_{hub_, "server"};
  std::vector<Completion> seen_;
};

TEST_F(WrapTest, count_tells_requests_messages_bytes_and_round_trips) {
  CountDomain client(client_);
  CountDomain server(server_);
  alignas(8) std::byte memory[128] = {};
  const Reported<RemoteKey> key =
      server.register_region({.region = 1, .base = memory, .bytes = 128, .rights = {.read = true}});
  ASSERT_TRUE(key.has_value());
  Channel* channel = open(client, server);
  client.reset_counts();
  std::byte local[100] = {};
  const Request read = {
      .token = 1, .local = {local, 64}, .remote = {RemotePointer::at(1, 0), *key}, .op = Op::kRead};
  const Request write = {.local = {local, 8}, .remote = {RemotePointer::at(1, 0), *key}, .op = Op::kWrite};
  const Request send = {.local = {local, 100}, .tail = {}, .op = Op::kSend};
  ASSERT_EQ(channel->post({&read, 1}) + channel->post({&write, 1}) + channel->post({&send, 1}), 3u);
  turn(client, server);
  turn(client, server);
  ASSERT_EQ(channel->post({&read, 1}), 1u);
  turn(client, server);
  turn(client, server);
  const FabricCounts& counts = client.counts();
  EXPECT_EQ(counts.requests_of(Op::kRead), 2u);
  EXPECT_EQ(counts.requests_of(Op::kWrite), 1u);
  EXPECT_EQ(counts.requests_of(Op::kSend), 1u);
  EXPECT_EQ(counts.failed_requests, 1u) << "the region cannot be written";
  EXPECT_EQ(counts.bytes_received, 128u);
  EXPECT_EQ(counts.bytes_sent, 108u);
  EXPECT_EQ(counts.round_trips, 2u) << "what leaves together makes the way together";
  EXPECT_EQ(counts.doorbells, 2u);
  EXPECT_EQ(server.counts().messages_received, 1u);
  EXPECT_EQ(server.counts().bytes_received, 100u);
}

TEST_F(WrapTest, trace_records_requests_and_completions) {
  TraceDomain client(client_);
  Channel* channel = open(client, server_);
  std::byte local[8] = {};
  const Request read = {.token = 987654321, .local = {local, 8}, .remote = {}, .op = Op::kRead};
  ASSERT_EQ(channel->post({&read, 1}), 1u);
  for (int i = 0; i < 3; ++i) turn(client, server_);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  // Only this thread's last events matter, and they fit into a pipe.
  dump_trace(pipe_ends[1]);
  ::close(pipe_ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = ::read(pipe_ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<size_t>(got));
  }
  ::close(pipe_ends[0]);
  EXPECT_NE(text.find("fabric post op 0 token 987654321 bytes 8"), std::string::npos) << text;
  EXPECT_NE(text.find("fabric complete op 0 token 987654321 code 12"), std::string::npos) << text;
}

TEST_F(WrapTest, fault_cuts_and_delays_from_its_seed_and_every_request_still_ends) {
  uint64_t cut_counts[2] = {};
  for (uint64_t& cut_count : cut_counts) {
    LoopbackHub hub;
    LoopbackDomain inner(hub, "client");
    LoopbackDomain server(hub, "server");
    FaultDomain client(inner,
                       {.seed = 5, .short_count_chance = 0.2, .delay_chance = 0.3, .cut_chance = 0.02});
    uint64_t token = 0;
    for (int round = 0; round < 50; ++round) {
      seen_.clear();
      Channel* channel = open(client, server);
      uint64_t posted = 0;
      uint64_t closed = 0;
      uint64_t ended = 0;
      std::byte byte{};
      while (closed == 0) {
        for (const Completion& completion : seen_) {
          closed += completion.op == Op::kClosed && completion.channel == channel ? 1 : 0;
          ended += completion.op == Op::kSend ? 1 : 0;
        }
        seen_.clear();
        if (closed > 0) break;
        const Request send = {.token = ++token, .local = {&byte, 1}, .tail = {}, .op = Op::kSend};
        posted += channel->post({&send, 1});
        turn(client, server);
      }
      EXPECT_EQ(ended, posted);
    }
    cut_count = client.counts().cut;
    EXPECT_GT(client.counts().delayed, 0u);
    EXPECT_GT(client.counts().short_polls, 0u);
  }
  EXPECT_GE(cut_counts[0], 50u);
  EXPECT_EQ(cut_counts[0], cut_counts[1]) << "the same seed, the same faults";
}

}  // namespace
}  // namespace refract::fabric
