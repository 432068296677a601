// SPDX-License-Identifier: Apache-2.0
// Numbered writes of a client against a real node: what they do, the order of a tag, and counting while the
// server is killed again and again.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/testing/test_node.h"
#include "refract/kv/functions/functions.h"

namespace refract::client {
namespace {

using refract::test::becomes_true;
using refract::test::server_of;
using refract::test::TemporaryFolder;
using refract::test::TestNode;
using runtime::Shard;
using runtime::Task;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

std::array<std::byte, 8> bytes_of(int64_t number) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}
int64_t number_of(std::span<const std::byte> bytes) {
  int64_t number = 0;
  if (bytes.size() == sizeof(number)) std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}
// Its argument lives as long as the operation.
KeyOperation add(const std::array<std::byte, 8>& addend, uint32_t tag = 0) {
  return {.kind = KeyOperation::Kind::kFunction,
          .function = static_cast<uint8_t>(kv::functions::Function::kAdd),
          .tag = tag,
          .value = Bytes(addend)};
}

class Operate : public testing::Test {
 protected:
  void connect(ClientOptions options = {}) {
    auto connected = runtime::block_on(shard, AsyncClient::connect(shard, node.socket(), options));
    ASSERT_TRUE(connected.has_value());
    client = std::move(*connected);
  }
  void TearDown() override {
    shard.drop_tasks();
    runtime::block_on(shard, turn(shard));
  }
  [[nodiscard]] Operated operate(Bytes key, const KeyOperation& operation) {
    return block_on(shard, client->operate(key, operation));
  }
  [[nodiscard]] std::string get(Bytes key) {
    std::string value;
    const auto got = block_on(shard, client->get(key, value));
    return got ? value : std::string(text(got.code()));
  }
  [[nodiscard]] static Task<> turn(Shard& on) { co_await on.sleep_for(0); }
  [[nodiscard]] pid_t server() const { return static_cast<pid_t>(client->route().server_pid); }

  // A server that was killed is followed at once.
  TestNode node{{"--restart-backoff", "0ns"}};
  Shard shard{system_clock()};
  std::unique_ptr<AsyncClient> client;
};

TEST_F(Operate, puts_erasures_functions_and_conditions_do_what_they_say) {
  connect();
  const Operated put = operate("key", {.value = "1"});
  ASSERT_EQ(put.code, Code::kOk) << text(put.code);
  EXPECT_EQ(operate("key", {.if_absent = true, .value = "2"}).code, Code::kExists);
  EXPECT_EQ(operate("none", {.if_present = true, .value = "2"}).code, Code::kNotFound);
  EXPECT_EQ(operate("key", {.if_version = put.version + 1, .value = "2"}).code, Code::kVersionMismatch);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kCondition, .if_version = put.version}).code,
            Code::kOk);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kCondition, .if_absent = true}).code, Code::kExists);
  const auto addend = bytes_of(41);
  const Operated sum = operate("key", add(addend));
  ASSERT_EQ(sum.code, Code::kOk);
  EXPECT_EQ(number_of(sum.answer()), 42);
  EXPECT_GT(sum.version, put.version);
  EXPECT_EQ(get("key"), "42");
  const Operated erased = operate("key", {.kind = KeyOperation::Kind::kErase});
  EXPECT_EQ(erased.code, Code::kOk);
  EXPECT_EQ(number_of(erased.answer()), static_cast<int64_t>(sum.version));
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kErase}).code, Code::kNotFound);
  ASSERT_EQ(operate("key", {.value = "text"}).code, Code::kOk);
  const Operated refused = operate("key", add(addend));
  EXPECT_EQ(refused.code, Code::kInvalidArgument);
  ASSERT_EQ(refused.answer_bytes, 1);
  EXPECT_EQ(refused.bytes[0], static_cast<std::byte>(kv::functions::Refusal::kNoInteger));
}

TEST_F(Operate, what_makes_no_sense_is_refused_without_a_message) {
  connect();
  ASSERT_EQ(operate("key", {.value = "1"}).code, Code::kOk);
  const uint64_t before = client->messages_sent();
  EXPECT_EQ(operate("", {.value = "1"}).code, Code::kInvalidArgument);
  EXPECT_EQ(operate(std::string(70'000, 'k'), {}).code, Code::kTooLarge);
  EXPECT_EQ(operate("key", {.if_absent = true, .if_version = 1}).code, Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kErase, .if_absent = true}).code,
            Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kErase, .value = "1"}).code, Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.keeps_ttl = true, .ttl_ns = 1}).code, Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.ttl_ns = 1, .expires_wall_ns = 1}).code, Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kFunction}).code, Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kCondition}).code, Code::kInvalidArgument);
  const std::string much(size_t{1} << 20, 'v');
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kFunction, .function = 3, .value = much}).code,
            Code::kTooLarge);
  EXPECT_EQ(client->messages_sent(), before);
}

TEST_F(Operate, times_to_live_are_set_kept_and_begin_at_the_owner) {
  connect();
  ASSERT_EQ(operate("key", {.ttl_ns = 3'600 * kSecond_ns, .value = "1"}).code, Code::kOk);
  const auto expiry = [this] { return runtime::block_on(shard, client->exists("key"))->expires_wall_ns; };
  const uint64_t expires_ns = expiry();
  EXPECT_NE(expires_ns, 0U);
  ASSERT_EQ(operate("key", {.keeps_ttl = true, .value = "2"}).code, Code::kOk);
  EXPECT_EQ(expiry(), expires_ns);
  ASSERT_EQ(operate("key", {.expires_wall_ns = expires_ns + kSecond_ns, .value = "3"}).code, Code::kOk);
  EXPECT_EQ(expiry(), expires_ns + kSecond_ns);
  ASSERT_EQ(operate("key", {.value = "4"}).code, Code::kOk);
  EXPECT_EQ(expiry(), 0U);
}

// Is told by a call.
struct Told final : OperationCall {
  void over(const Operated& outcome) noexcept override { told.push_back(outcome.code); }
  std::vector<Code> told;
};

TEST_F(Operate, one_is_told_by_a_call_and_may_begin_again) {
  connect();
  Told one;
  const auto until_told = [&](size_t count) {
    return shard.run_until([&] { return one.told.size() == count; }, shard.refresh_now() + kPatience_ns);
  };
  const auto addend = bytes_of(20);
  for (size_t i = 1; i <= 2; ++i) {
    ASSERT_EQ(one.begin(*client, "key", add(addend)), Code::kOk);
    EXPECT_TRUE(one.is_under_way());
    EXPECT_TRUE(until_told(i));
    EXPECT_FALSE(one.is_under_way());
  }
  EXPECT_EQ(one.told, std::vector<Code>(2, Code::kOk));
  EXPECT_EQ(get("key"), "40");
  EXPECT_EQ(one.begin(*client, "", {.value = "1"}), Code::kInvalidArgument);
  EXPECT_EQ(one.begin(*client, "key", {.if_absent = true, .if_present = true}), Code::kInvalidArgument);
  EXPECT_FALSE(one.is_under_way());
}

TEST_F(Operate, one_that_is_given_up_is_not_executed_or_is_told_what_became_of_it) {
  connect();
  const auto one = bytes_of(1);
  ASSERT_EQ(operate("key", add(one)).code, Code::kOk);
  Told unsent;
  ASSERT_EQ(unsent.begin(*client, "key", add(one)), Code::kOk);
  EXPECT_TRUE(unsent.give_up()) << "it has not left";
  EXPECT_FALSE(unsent.is_under_way());
  Told sent;
  ASSERT_EQ(sent.begin(*client, "key", add(one)), Code::kOk);
  const uint64_t before = client->messages_sent();
  ASSERT_TRUE(
      shard.run_until([&] { return client->messages_sent() > before; }, shard.refresh_now() + kPatience_ns));
  EXPECT_FALSE(sent.is_under_way() && sent.give_up());
  ASSERT_TRUE(shard.run_until([&] { return !sent.told.empty(); }, shard.refresh_now() + kPatience_ns));
  EXPECT_EQ(sent.told, std::vector<Code>(1, Code::kOk)) << "it came before its withdrawal";
  EXPECT_EQ(get("key"), "2");
  EXPECT_TRUE(unsent.told.empty());
}

struct Writes {
  AsyncClient& client;
  uint64_t done = 0;
  uint64_t in_doubt = 0;
  uint64_t failed = 0;
  bool is_over = false;
};

Task<> write_in_order(Writes& writes, uint32_t tag, int number, std::vector<int>& ended) {
  const std::string value = std::to_string(number);
  const Operated outcome =
      co_await writes.client.operate("of " + std::to_string(tag), {.tag = tag, .value = value});
  writes.done += outcome.code == Code::kOk ? 1 : 0;
  ended.push_back(number);
}

TEST_F(Operate, many_of_several_tags_share_calls_and_keep_their_order) {
  connect();
  Writes writes{.client = *client};
  std::vector<std::vector<int>> ended(9);
  const uint64_t before = client->messages_sent();
  for (int number = 0; number < 1'000; ++number) {
    for (uint32_t tag = 1; tag < ended.size(); ++tag)
      shard.spawn(write_in_order(writes, tag, number, ended[tag]));
  }
  ASSERT_TRUE(shard.run_until([&] { return shard.gate().count() == 0; }, shard.refresh_now() + kPatience_ns));
  EXPECT_EQ(writes.done, 8'000U);
  EXPECT_LE(client->messages_sent() - before, 8'000U / 16 + 16);
  for (uint32_t tag = 1; tag < ended.size(); ++tag) {
    EXPECT_EQ(get("of " + std::to_string(tag)), "999");
    EXPECT_TRUE(std::ranges::is_sorted(ended[tag]));
  }
}

Task<> count(Writes& writes, std::string key, uint32_t tag) {
  const auto one = bytes_of(1);
  while (!writes.is_over) {
    const Operated outcome = co_await writes.client.operate(key, add(one, tag));
    writes.done += outcome.code == Code::kOk ? 1 : 0;
    writes.in_doubt += outcome.code == Code::kIndeterminate ? 1 : 0;
    writes.failed += outcome.code != Code::kOk && outcome.code != Code::kIndeterminate ? 1 : 0;
  }
}

struct Way {
  std::string name;
  std::vector<std::string> flags;
  bool is_over_tcp = false;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class Counting : public testing::TestWithParam<Way> {};

// Each server lives for some milliseconds of work; the memory stays, so that nothing is in doubt.
TEST_P(Counting, is_exact_while_the_server_is_killed_again_and_again) {
  constexpr int kKills = 20;
  constexpr uint32_t kCounters = 4;
  std::vector<std::string> flags = {"--restart-backoff", "0ns"};
  flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
  const TemporaryFolder folder;
  flags.insert(flags.end(), {"--data-folder", folder.path() + "/data"});
  const TestNode node(flags);
  Client watching = node.connect();
  Shard shard(system_clock());
  const std::string address = GetParam().is_over_tcp ? "tcp:" + node.tcp() : node.socket();
  auto client = runtime::block_on(shard, AsyncClient::connect(shard, address, {.timeout_ns = kPatience_ns}));
  ASSERT_TRUE(client.has_value());
  Writes writes{.client = **client};
  const auto comes_true = [&shard](auto done) {
    return shard.run_until(done, shard.refresh_now() + kPatience_ns);
  };
  for (uint32_t tag = 0; tag < 64; ++tag) {
    shard.spawn(count(writes, "counter " + std::to_string(tag % kCounters), tag % 16));
  }
  bool is_well = true;
  for (int kill = 0; kill < kKills && is_well; ++kill) {
    const uint64_t before = writes.done;
    is_well = comes_true([&] { return writes.done > before + 200; });
    const pid_t killed = server_of(watching);
    is_well = is_well && ::kill(killed, SIGKILL) == 0;
    is_well =
        is_well && comes_true([&] { return server_of(watching) != killed && watching.ping().has_value(); });
  }
  writes.is_over = true;
  is_well = comes_true([&] { return shard.gate().count() == 0; }) && is_well;
  shard.drop_tasks();
  EXPECT_TRUE(is_well);
  EXPECT_EQ(writes.failed, 0U);
  EXPECT_EQ(writes.in_doubt, 0U);
  uint64_t sum = 0;
  for (uint32_t counter = 0; counter < kCounters; ++counter) {
    sum += std::stoull(watching.get("counter " + std::to_string(counter)).value_or("0"));
  }
  EXPECT_EQ(sum, writes.done);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Counting,
    testing::Values(Way{.name = "shm", .flags = {}}, Way{.name = "shards", .flags = {"--server-shards", "3"}},
                    Way{.name = "always", .flags = {"--data-durability", "always"}},
                    Way{.name = "tcp", .flags = {"--listen-address", "127.0.0.1:0"}, .is_over_tcp = true}),
    [](const auto& way) { return way.param.name; });

// A server that stands still does not answer whether it has executed what it was sent; when it continues,
// that is what the next ones find.
TEST_F(Operate, a_server_that_stands_still_leaves_writes_in_doubt_in_time_and_none_runs_twice) {
  connect({.timeout_ns = kSecond_ns});
  const auto one = bytes_of(1);
  ASSERT_EQ(operate("counter", add(one)).code, Code::kOk);
  ASSERT_EQ(::kill(server(), SIGSTOP), 0);
  const uint64_t begun_ns = system_clock().now_ns();
  const Code stopped = operate("counter", add(one)).code;
  EXPECT_EQ(stopped, Code::kIndeterminate);
  EXPECT_GE(system_clock().now_ns() - begun_ns, kSecond_ns);
  ASSERT_EQ(::kill(server(), SIGCONT), 0);
  Operated later;
  ASSERT_TRUE(becomes_true([&] {
    later = operate("counter", add(one));
    return later.code == Code::kOk;
  }));
  // It was executed, or withdrawn behind that; a later one is the second or the third.
  EXPECT_GE(number_of(later.answer()), 2);
  EXPECT_EQ(get("counter"), std::to_string(number_of(later.answer())));
}

// What nothing waits for any more is withdrawn, and neither its record stays.
TEST_F(Operate, an_operation_that_goes_before_its_answer_leaves_the_others_as_they_are) {
  connect();
  const auto one = bytes_of(1);
  int64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    Writes writes{.client = *client};
    Task<> dropped = count(writes, "dropped", 3);
    dropped.start();
    for (int turns = 0; turns < i % 5; ++turns) (void)shard.poll_once();
    dropped = {};
    const Operated sum = operate("dropped", add(one, 3));
    ASSERT_EQ(sum.code, Code::kOk);
    EXPECT_GT(number_of(sum.answer()), most);
    most = number_of(sum.answer());
  }
}

}  // namespace
}  // namespace refract::client
