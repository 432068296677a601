// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/dispatcher.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "refract/fabric/await.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/fabric/registry.h"

namespace refract::fabric {
namespace {

using runtime::OpResult;
using runtime::Shard;
using runtime::Task;

class Recorder final : public Receiver {
 public:
  void on_messages(std::span<const Completion> messages) noexcept override {
    batches.push_back(messages.size());
    for (const Completion& message : messages) {
      texts.emplace_back(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
    }
  }
  void on_opened(Channel& channel, Code code) noexcept override {
    opened.push_back(code);
    last_opened = &channel;
  }
  void on_closed(Channel& /*channel*/, Code /*code*/) noexcept override { ++closed_count; }

  std::vector<size_t> batches;
  std::vector<std::string> texts;
  std::vector<Code> opened;
  Channel* last_opened = nullptr;
  int closed_count = 0;
};

// Two domains on one shard, and a channel between them.
class DispatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    endpoint_.receiver = &at_client_;
    const Reported<Channel*> channel = client_domain_.connect("server");
    ASSERT_TRUE(channel.has_value());
    attach(**channel, endpoint_);
    run_until([&] { return !at_client_.opened.empty() && !at_server_.opened.empty(); });
  }

  template <typename Done>
  void run_until(Done done) {
    ASSERT_TRUE(shard_.run_until(done, shard_.refresh_now() + 30 * kSecond_ns));
  }

  void send(Channel& channel, std::string text) {
    const Request request = {
        .local = {reinterpret_cast<std::byte*>(text.data()), text.size()}, .tail = {}, .op = Op::kSend};
    ASSERT_EQ(channel.post({&request, 1}), 1u);
  }

  LoopbackHub hub_;
  LoopbackDomain client_domain_{hub_, "client", {.depth = 8, .message_bytes_max = 64}};
  LoopbackDomain server_domain_{hub_, "server", {.depth = 8, .message_bytes_max = 64}};
  Shard shard_{system_clock()};
  Recorder at_client_;
  Recorder at_server_;
  Endpoint endpoint_;
  Dispatcher client_{client_domain_, shard_};
  Dispatcher server_{server_domain_, shard_, &at_server_};
};

TEST_F(DispatcherTest, messages_of_one_turn_arrive_in_one_call) {
  const Reported<Channel*> second = client_domain_.connect("server");
  ASSERT_TRUE(second.has_value());
  Endpoint other = {.channel = nullptr, .receiver = &at_client_};
  attach(**second, other);
  run_until([&] { return at_server_.opened.size() == 2; });
  for (const char* text : {"a", "b", "c"}) send(*endpoint_.channel, text);
  send(**second, "d");
  run_until([&] { return at_server_.texts.size() == 4; });
  EXPECT_EQ(at_server_.batches, std::vector<size_t>{4}) << "also across channels, for the same receiver";
  detach(other);
}

TEST_F(DispatcherTest, requests_of_coroutines_return_their_results) {
  alignas(8) std::byte memory[64] = {};
  const Reported<RemoteKey> key = server_domain_.register_region(
      {.region = 3, .base = memory, .bytes = 64, .rights = {true, true, true}});
  ASSERT_TRUE(key.has_value());
  const RemoteSpan word = {RemotePointer::at(3, 8), *key};
  uint64_t written = 40;
  uint64_t back = 0;
  const LocalSpan from = {reinterpret_cast<std::byte*>(&written), 8};
  const LocalSpan to = {reinterpret_cast<std::byte*>(&back), 8};
  EXPECT_EQ(runtime::block_on(shard_, write(endpoint_, shard_, word, from, kForever_ns)).code, Code::kOk);
  EXPECT_EQ(runtime::block_on(shard_, fetch_add(endpoint_, shard_, word, 2, kForever_ns)).value, 40u);
  EXPECT_EQ(runtime::block_on(shard_, compare_swap(endpoint_, shard_, word, {42, 7}, kForever_ns)).value,
            42u);
  EXPECT_EQ(runtime::block_on(shard_, read(endpoint_, shard_, word, to, kForever_ns)).code, Code::kOk);
  EXPECT_EQ(back, 7u);
  const RemoteSpan denied = {RemotePointer::at(3, 8), {key->bits ^ 2}};
  EXPECT_EQ(runtime::block_on(shard_, read(endpoint_, shard_, denied, to, kForever_ns)).code,
            Code::kAccessDenied);
}

TEST_F(DispatcherTest, more_requests_than_the_channel_holds_all_get_through) {
  alignas(8) std::byte memory[64] = {};
  const Reported<RemoteKey> key = server_domain_.register_region(
      {.region = 3, .base = memory, .bytes = 64, .rights = {true, true, true}});
  ASSERT_TRUE(key.has_value());
  int done = 0;
  struct Body {
    static Task<> add_one(const Endpoint& endpoint, Shard& shard, RemoteSpan word, int* done) {
      const OpResult result = co_await fetch_add(endpoint, shard, word, 1, kForever_ns);
      if (result.code == Code::kOk) ++*done;
    }
  };
  for (int i = 0; i < 100; ++i) {
    shard_.spawn(Body::add_one(endpoint_, shard_, {RemotePointer::at(3, 0), *key}, &done));
  }
  run_until([&] { return done == 100; });
  uint64_t sum = 0;
  std::memcpy(&sum, memory, sizeof(sum));
  EXPECT_EQ(sum, 100u);
}

TEST_F(DispatcherTest, a_closed_channel_empties_its_endpoint_and_fails_what_waits) {
  alignas(8) std::byte memory[64] = {};
  const Reported<RemoteKey> key = server_domain_.register_region(
      {.region = 3, .base = memory, .bytes = 64, .rights = {true, true, true}});
  ASSERT_TRUE(key.has_value());
  const RemoteSpan word = {RemotePointer::at(3, 0), *key};
  Task<OpResult> add = fetch_add(endpoint_, shard_, word, 1, kForever_ns);
  uint64_t local = 0;
  Task<OpResult> load = read(endpoint_, shard_, word, {reinterpret_cast<std::byte*>(&local), 8}, kForever_ns);
  add.start();
  load.start();
  endpoint_.channel->close();
  run_until([&] { return at_client_.closed_count == 1 && add.done() && load.done(); });
  EXPECT_EQ(endpoint_.channel, nullptr);
  EXPECT_EQ(add.take().code, Code::kIndeterminate) << "what was sent may have happened";
  EXPECT_EQ(load.take().code, Code::kUnavailable);
  EXPECT_EQ(runtime::block_on(shard_, fetch_add(endpoint_, shard_, word, 1, kForever_ns)).code,
            Code::kUnavailable);
}

TEST_F(DispatcherTest, messages_for_a_detached_channel_are_dropped_and_counted) {
  detach(endpoint_);
  send(*at_server_.last_opened, "late");
  run_until([&] { return client_.counts().dropped_messages == 1; });
  EXPECT_TRUE(at_client_.texts.empty());
}

TEST_F(DispatcherTest, a_request_without_token_that_fails_is_counted) {
  const Request request = {.remote = {}, .op = Op::kFetchAdd};
  ASSERT_EQ(endpoint_.channel->post({&request, 1}), 1u);
  run_until([&] { return client_.counts().failed_silent == 1; });
}

TEST(Registry, an_unknown_provider_is_refused_with_the_names_there_are) {
  LoopbackHub hub;
  const ProviderRow rows[] = {
      {"loopback", "domains of one thread",
       [&hub] { return Reported<std::unique_ptr<Domain>>(std::make_unique<LoopbackDomain>(hub, "here")); }}};
  const Reported<std::unique_ptr<Domain>> domain = open_domain(rows, "loopback");
  ASSERT_TRUE(domain.has_value());
  EXPECT_EQ((*domain)->provider(), "loopback");
  const Reported<std::unique_ptr<Domain>> none = open_domain(rows, "carrier-pigeon");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kUnsupported);
  EXPECT_NE(none.error().next.find("loopback"), std::string::npos);
}

TEST(Registry, an_address_is_split_at_its_first_colon) {
  const Reported<ProviderAddress> address = split_address("shm:/run/a:b");
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->provider, "shm");
  EXPECT_EQ(address->rest, "/run/a:b");
  for (const char* bad : {"", "shm", "shm:", ":/run"}) EXPECT_FALSE(split_address(bad).has_value()) << bad;
}

}  // namespace
}  // namespace refract::fabric
