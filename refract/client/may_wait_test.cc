// SPDX-License-Identifier: Apache-2.0
// Calls that are ended by who asked for them, and reads that never wait.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/testing/test_node.h"

namespace refract {
namespace {

using test::server_of;
using test::TestNode;
using test::value_of;

// What the calls of this test ask.
std::atomic<uint64_t> g_may_wait_ns = kForever_ns;
std::atomic<uint64_t> g_asked = 0;

uint64_t may_wait_ns() {
  // A while the first time, as a binding has it.
  return g_asked.fetch_add(1) == 0 ? 20 * kMillisecond_ns : g_may_wait_ns.load();
}

ClientOptions options() {
  return {.timeout_ns = 60 * kSecond_ns, .may_wait_ns = &may_wait_ns};
}

// Each claim for a client of either way. The server stands.
void expect_that_each_call_is_ended(Client& client, bool reads_ask) {
  const std::string large = value_of(1, 2'000'000);
  const auto ended = [](auto&& call) {
    g_asked = 0;
    g_may_wait_ns = 0;
    const Code code = call();
    EXPECT_GE(g_asked, 2U);
    g_may_wait_ns = kForever_ns;
    return code;
  };
  EXPECT_EQ(ended([&] { return client.put("a", "2").code(); }), Code::kIndeterminate);
  EXPECT_EQ(ended([&] { return client.put("a", "2", {.if_absent = true}).code(); }), Code::kIndeterminate);
  EXPECT_EQ(ended([&] { return client.put("a", large).code(); }), Code::kIndeterminate);
  EXPECT_EQ(ended([&] { return client.erase("a").code(); }), Code::kIndeterminate);
  EXPECT_EQ(ended([&] { return client.ping().code(); }), Code::kDeadlineExceeded);
  Batch batch;
  batch.add("n", 1).put("a", "3");
  EXPECT_EQ(ended([&] { return client.commit(batch).code(); }), Code::kIndeterminate);
  std::array<PutItem, 2> puts = {PutItem{.key = "a", .value = "4"}, PutItem{.key = "b", .value = large}};
  EXPECT_EQ(ended([&] {
              client.multi_put(puts);
              return puts[0].result.code() == puts[1].result.code() ? puts[0].result.code() : Code::kOk;
            }),
            Code::kIndeterminate);
  if (!reads_ask) return;
  std::string value;
  EXPECT_EQ(ended([&] { return client.get("a", value).code(); }), Code::kDeadlineExceeded);
  EXPECT_EQ(ended([&] { return client.view("a").code(); }), Code::kDeadlineExceeded);
  EXPECT_EQ(ended([&] { return client.exists("a").code(); }), Code::kDeadlineExceeded);
  EXPECT_EQ(ended([&] { return client.scan(0).code(); }), Code::kDeadlineExceeded);
  std::array<GetItem, 2> gets = {GetItem{.key = "a"}, GetItem{.key = "b"}};
  EXPECT_EQ(ended([&] {
              client.multi_get(gets);
              return gets[1].result.code();
            }),
            Code::kDeadlineExceeded);
  std::string room(200'000, '.');
  std::array<GetIntoItem, 2> intos = {
      GetIntoItem{.key = "a", .buffer = std::as_writable_bytes(std::span(room))},
      GetIntoItem{.key = "b", .buffer = {}}};
  EXPECT_EQ(ended([&] {
              client.multi_get_into(intos);
              return intos[1].result.code();
            }),
            Code::kDeadlineExceeded);
  const std::array<Bytes, 2> prefix = {Bytes("a"), Bytes("b")};
  EXPECT_EQ(ended([&] { return client.prefix_exists(prefix).code(); }), Code::kDeadlineExceeded);
  std::array<ExistsItem, 2> looks = {ExistsItem{.key = "a"}, ExistsItem{.key = "b"}};
  EXPECT_EQ(ended([&] {
              client.multi_exists(looks);
              return looks[1].result.code();
            }),
            Code::kDeadlineExceeded);
}

// By a second of waiting at most, and 60 s otherwise. The client works behind it.
TEST(MayWait, each_call_of_a_stopped_server_is_ended_where_it_is_not_to_wait) {
  const TestNode node({"--listen-address", "127.0.0.1:0"});
  const std::array<std::string, 2> addresses = {node.socket(), "refract://" + node.tcp() + "?transport=tcp"};
  for (const std::string& address : addresses) {
    Client client = TestNode::connect_to(address, options());
    ASSERT_TRUE(client.put("a", "1").has_value());
    const pid_t server = server_of(node.connect());
    ASSERT_EQ(::kill(server, SIGSTOP), 0);
    expect_that_each_call_is_ended(client, address != node.socket());
    ASSERT_EQ(::kill(server, SIGCONT), 0);
    for (int i = 0; i < 10; ++i) {
      const std::string value = value_of(static_cast<uint64_t>(i), 100'000);
      ASSERT_TRUE(client.put("after", value).has_value());
      EXPECT_EQ(client.get("after").value(), value);
    }
  }
}

void do_nothing(int /*signal*/) {}

TEST(MayWait, a_signal_has_it_asked_at_once) {
  const TestNode node;
  Client client = node.connect(options());
  ASSERT_TRUE(client.put("a", "1").has_value());
  struct sigaction action = {};
  action.sa_handler = &do_nothing;
  struct sigaction before;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const pid_t server = server_of(client);
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  // The first answer would be for a minute.
  g_asked = 1;
  g_may_wait_ns = 60 * kSecond_ns;
  const pthread_t caller = ::pthread_self();
  std::thread other([&] {
    ASSERT_TRUE(test::becomes_true([] { return g_asked > 1; }));
    g_may_wait_ns = 0;
    const auto is_over = [&] { return g_asked > 2; };
    EXPECT_TRUE(test::becomes_true([&] {
      (void)::pthread_kill(caller, SIGUSR1);
      return is_over();
    }));
  });
  const uint64_t begun_ns = system_clock().now_ns();
  EXPECT_EQ(client.put("a", "2").code(), Code::kIndeterminate);
  EXPECT_LT(system_clock().now_ns() - begun_ns, 50 * kSecond_ns);
  other.join();
  ASSERT_EQ(::kill(server, SIGCONT), 0);
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  g_may_wait_ns = kForever_ns;
}

TEST(MayWait, reads_by_loads_alone_say_what_is_there_or_that_they_do_not_know) {
  const TestNode node({"--server-shards", "2", "--listen-address", "127.0.0.1:0"});
  Client client = node.connect();
  const std::string large = value_of(1, 100'000);
  ASSERT_TRUE(client.put("a", "1").has_value() && client.put("large", large).has_value());
  const pid_t server = server_of(client);
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  EXPECT_EQ(client.view_at_once("a").value().text(), "1");
  EXPECT_EQ(client.view_at_once("large").value().text(), large);
  EXPECT_EQ(client.view_at_once("none").code(), Code::kNotFound);
  EXPECT_EQ(client.view_at_once("").code(), Code::kInvalidArgument);
  EXPECT_EQ(client.exists_at_once("large").value().value_bytes, 100'000U);
  EXPECT_EQ(client.exists_at_once("none").code(), Code::kNotFound);
  std::array<ExistsItem, 3> looks = {ExistsItem{.key = "a"}, ExistsItem{.key = "none"},
                                     ExistsItem{.key = ""}};
  client.multi_exists(looks);
  EXPECT_TRUE(looks[0].result.has_value());
  EXPECT_EQ(looks[1].result.code(), Code::kNotFound);
  EXPECT_EQ(looks[2].result.code(), Code::kInvalidArgument);
  ASSERT_EQ(::kill(server, SIGCONT), 0);
  Client far = TestNode::connect_to("refract://" + node.tcp() + "?transport=tcp");
  EXPECT_EQ(far.exists("a").value().value_bytes, 1U);
  EXPECT_EQ(far.view_at_once("a").code(), Code::kInvalidated);
  EXPECT_EQ(far.exists_at_once("a").code(), Code::kInvalidated);
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back(std::to_string(i % 2 == 0 ? i : -i));
  for (int i = 0; i < 300; i += 2) ASSERT_TRUE(far.put(keys[static_cast<size_t>(i)], "").has_value());
  std::vector<ExistsItem> many(keys.size());
  for (size_t i = 0; i < many.size(); ++i) many[i].key = keys[i];
  far.multi_exists(many);
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i].result.has_value(), i % 2 == 0) << i;
}

}  // namespace
}  // namespace refract
