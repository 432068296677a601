// SPDX-License-Identifier: Apache-2.0
// Numbered puts of values that no message has room for, against a real node: what they do, the order of a tag
// beside short ones, and what is left of those that end early, while the server is killed again and again.
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
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/testing/test_node.h"
#include "refract/kv/functions/functions.h"

namespace refract::client::operate_long {
namespace {

using refract::test::becomes_true;
using refract::test::needed;
using refract::test::server_of;
using refract::test::TemporaryFolder;
using refract::test::TestNode;
using runtime::Shard;
using runtime::Task;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;
constexpr std::array<uint64_t, 3> kLengths{64 * kKiB, kMiB, 8 * kMiB};

// Its number everywhere, so that a mixture of two is seen.
void fill(std::span<std::byte> value, uint64_t number) {
  for (size_t at = 0; at + sizeof(number) <= value.size(); at += sizeof(number)) {
    std::memcpy(value.data() + at, &number, sizeof(number));
  }
}
std::string value_of(uint64_t number, uint64_t bytes) {
  std::string value(bytes, '\0');
  fill(std::as_writable_bytes(std::span(value)), number);
  return value;
}
// 0: it is none, or a mixture.
uint64_t number_in(const std::string& value) {
  uint64_t number = 0;
  if (value.size() < sizeof(number)) return 0;
  std::memcpy(&number, value.data(), sizeof(number));
  return value == value_of(number, value.size()) ? number : 0;
}

struct Way {
  std::string name;
  std::vector<std::string> flags = {};
  bool is_over_tcp = false;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}
std::vector<std::string> flags_of(const Way& way) {
  std::vector<std::string> flags = {"--restart-backoff", "0ns", "--memory-limit", "384MiB"};
  flags.insert(flags.end(), way.flags.begin(), way.flags.end());
  if (way.is_over_tcp) flags.insert(flags.end(), {"--listen-address", "127.0.0.1:0"});
  return flags;
}
std::unique_ptr<AsyncClient> connect(Shard& shard, const TestNode& node, const Way& way,
                                     ClientOptions options = {.timeout_ns = kPatience_ns}) {
  const std::string address = way.is_over_tcp ? "tcp:" + node.tcp() : node.socket();
  return needed(runtime::block_on(shard, AsyncClient::connect(shard, address, options)));
}

class OperateLong : public testing::TestWithParam<Way> {
 protected:
  void TearDown() override {
    shard.drop_tasks();
    runtime::block_on(shard, turn(shard));
  }
  [[nodiscard]] static Task<> turn(Shard& on) { co_await on.sleep_for(0); }
  [[nodiscard]] Operated operate(Bytes key, const KeyOperation& operation) {
    return block_on(shard, client->operate(key, operation));
  }
  [[nodiscard]] std::string get(Bytes key) {
    std::string value;
    return block_on(shard, client->get(key, value)) ? value : "";
  }
  [[nodiscard]] uint64_t expiry(Bytes key) {
    return needed(block_on(shard, client->exists(key))).expires_wall_ns;
  }
  [[nodiscard]] uint64_t buffers() { return needed(block_on(shard, client->stat())).buffers_live; }

  TestNode node{flags_of(GetParam())};
  Shard shard{system_clock()};
  std::unique_ptr<AsyncClient> client = connect(shard, node, GetParam());
};
INSTANTIATE_TEST_SUITE_P(Ways, OperateLong,
                         testing::Values(Way{.name = "shm"}, Way{.name = "tcp", .is_over_tcp = true}),
                         [](const auto& way) { return way.param.name; });

TEST_P(OperateLong, values_of_any_length_are_put_whole_plain_or_as_they_were_built) {
  uint64_t number = 0;
  for (const uint64_t bytes : {uint64_t{16 * kKiB}, kLengths[0], kLengths[1], kLengths[2]}) {
    const std::string value = value_of(++number, bytes);
    const Operated plain = operate("plain", {.value = value});
    ASSERT_EQ(plain.code, Code::kOk) << bytes;
    EXPECT_NE(plain.version, 0U);
    EXPECT_TRUE(get("plain") == value) << bytes;
    const Reservation built = needed(client->reserve(bytes));
    fill(built.bytes(), ++number);
    const uint64_t before = client->messages_sent();
    ASSERT_EQ(operate("built", {.built_in = &built}).code, Code::kOk) << bytes;
    // The server reads it where it lies.
    EXPECT_TRUE(GetParam().is_over_tcp || client->messages_sent() - before <= 2U) << bytes;
    EXPECT_TRUE(get("built") == value_of(number, bytes)) << bytes;
  }
  const std::string key(60'000, 'k');
  ASSERT_EQ(operate(key, {.value = "short"}).code, Code::kOk) << "a long key is no other matter";
  EXPECT_EQ(get(key), "short");
}

TEST_P(OperateLong, conditions_are_compared_and_lifetimes_begin_when_it_is_committed) {
  const std::string value = value_of(1, kMiB);
  const Operated put = operate("key", {.if_absent = true, .value = value});
  ASSERT_EQ(put.code, Code::kOk);
  EXPECT_EQ(operate("key", {.if_absent = true, .value = value}).code, Code::kExists);
  EXPECT_EQ(operate("none", {.if_present = true, .value = value}).code, Code::kNotFound);
  EXPECT_EQ(operate("key", {.if_version = put.version + 1, .value = value}).code, Code::kVersionMismatch);
  ASSERT_EQ(operate("key", {.if_version = put.version, .value = value}).code, Code::kOk);
  EXPECT_EQ(expiry("key"), 0U);
  ASSERT_EQ(operate("key", {.if_present = true, .ttl_ns = 3'600 * kSecond_ns, .value = value}).code,
            Code::kOk);
  const uint64_t expires_ns = expiry("key");
  EXPECT_NE(expires_ns, 0U);
  ASSERT_EQ(operate("key", {.expires_wall_ns = expires_ns + kSecond_ns, .value = value}).code, Code::kOk);
  EXPECT_EQ(expiry("key"), expires_ns + kSecond_ns);
  ASSERT_EQ(operate("key", {.ttl_ns = UINT64_MAX, .value = value}).code, Code::kOk);
  EXPECT_EQ(expiry("key"), 0U) << "beyond the end of time";
  const Reservation reservation = needed(client->reserve(kMiB));
  EXPECT_EQ(operate("key", {.value = "1", .built_in = &reservation}).code, Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kErase, .built_in = &reservation}).code,
            Code::kInvalidArgument);
  EXPECT_EQ(operate("key", {.kind = KeyOperation::Kind::kFunction,
                            .function = static_cast<uint8_t>(kv::functions::Function::kAppend),
                            .value = value})
                .code,
            Code::kTooLarge);
}

TEST_P(OperateLong, a_time_to_live_stays_where_it_is_to_stay) {
  const std::string value = value_of(1, kMiB);
  ASSERT_EQ(operate("key", {.ttl_ns = 3'600 * kSecond_ns, .value = "1"}).code, Code::kOk);
  const uint64_t expires_ns = expiry("key");
  ASSERT_EQ(operate("key", {.keeps_ttl = true, .value = value}).code, Code::kOk);
  EXPECT_EQ(expiry("key"), expires_ns);
  EXPECT_TRUE(get("key") == value);
  EXPECT_EQ(operate("key", {.if_absent = true, .keeps_ttl = true, .value = value}).code, Code::kExists);
  EXPECT_EQ(operate("none", {.if_present = true, .keeps_ttl = true, .value = value}).code, Code::kNotFound);
  EXPECT_EQ(operate("key", {.keeps_ttl = true, .if_version = 1, .value = value}).code,
            Code::kVersionMismatch);
  ASSERT_EQ(operate("none", {.keeps_ttl = true, .value = value}).code, Code::kOk);
  EXPECT_EQ(expiry("none"), 0U);
}

Task<> put_key(AsyncClient& client, KeyOperation operation) {
  (void)co_await client.operate("key", operation);
}

// Whatever it was doing: nothing of it is left at the owner, and those behind it follow.
TEST_P(OperateLong, one_that_goes_before_its_answer_gives_its_draft_back) {
  const std::string value = value_of(1, kMiB);
  ASSERT_EQ(operate("key", {.value = value}).code, Code::kOk);
  ASSERT_EQ(operate("other", {.value = "0"}).code, Code::kOk);
  const uint64_t before = buffers();
  for (int i = 0; i < 150; ++i) {
    const Reservation built = needed(client->reserve(kMiB));
    fill(built.bytes(), 2);
    KeyOperation operation{.tag = 3};
    if (i % 2 == 0) operation.value = value;
    if (i % 2 == 1) operation.built_in = &built;
    Task<> dropped = put_key(*client, operation);
    dropped.start();
    for (int turns = 0; turns < i % 25; ++turns) (void)shard.poll_once();
    dropped = {};
    ASSERT_EQ(operate("other", {.tag = 3, .value = std::to_string(i)}).code, Code::kOk);
  }
  EXPECT_TRUE(becomes_true([&] { return buffers() <= before; }));
  EXPECT_EQ(get("other"), "149");
}

// It was not committed, and its draft, of which the client hears later, is not kept.
TEST_P(OperateLong, a_server_that_stands_still_gets_no_commit_of_what_was_given_up) {
  const std::string value = value_of(2, kMiB);
  ASSERT_EQ(operate("key", {.value = "before"}).code, Code::kOk);
  const auto hasty = connect(shard, node, GetParam(), {.timeout_ns = kSecond_ns});
  ASSERT_EQ(block_on(shard, hasty->operate("key", {.tag = 3, .value = "1"})).code, Code::kOk);
  const uint64_t before = buffers();
  Client watching = node.connect();
  const pid_t server = server_of(watching);
  ASSERT_GT(server, 0);
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  const Operated outcome = block_on(shard, hasty->operate("key", {.tag = 3, .value = value}));
  EXPECT_TRUE(outcome.code == Code::kDeadlineExceeded || outcome.code == Code::kUnavailable);
  ASSERT_EQ(::kill(server, SIGCONT), 0);
  EXPECT_TRUE(becomes_true(
      [&] { return block_on(shard, hasty->operate("other", {.tag = 3, .value = "1"})).code == Code::kOk; }));
  EXPECT_TRUE(get("key") == "1");
  EXPECT_TRUE(becomes_true([&] { return buffers() <= before + 1; }));
}

TEST_P(OperateLong, where_memory_is_full_it_is_told_so_and_those_behind_it_follow) {
  const std::string value = value_of(1, 8 * kMiB);
  const Reservation built = needed(client->reserve(value.size()));
  fill(built.bytes(), 1);
  int fit = 0;
  Code code = Code::kOk;
  while (code == Code::kOk && fit < 100) {
    code = operate("key " + std::to_string(fit), {.tag = 3, .built_in = &built}).code;
    fit += code == Code::kOk ? 1 : 0;
  }
  EXPECT_EQ(code, Code::kNoSpace);
  EXPECT_GT(fit, 10);
  ASSERT_EQ(operate("key 0", {.kind = KeyOperation::Kind::kErase, .tag = 3}).code, Code::kOk);
  EXPECT_TRUE(becomes_true([&] { return operate("again", {.tag = 3, .value = value}).code == Code::kOk; }));
  EXPECT_TRUE(get("again") == value);
}

struct Writes {
  static constexpr uint32_t kTags = 4;

  AsyncClient& client;
  std::array<uint64_t, kTags> begun{};
  uint64_t done = 0;
  uint64_t in_doubt = 0;
  uint64_t failed = 0;
  bool is_over = false;

  [[nodiscard]] static std::string key_of(uint32_t tag) { return "of " + std::to_string(tag); }
};

// Most are short; a long one of each length among them.
uint64_t length_of(uint64_t number) {
  if (number % 32 == 7) return kLengths[2];
  if (number % 8 == 3) return kLengths[1];
  return number % 2 == 1 ? kLengths[0] : 16;
}

// One of several of a tag.
Task<> write_of_tag(Writes& writes, uint32_t tag) {
  const std::string key = Writes::key_of(tag);
  while (!writes.is_over) {
    const uint64_t number = ++writes.begun[tag];
    const Reservation built = needed(writes.client.reserve(length_of(number)));
    std::string plain;
    KeyOperation operation{.tag = tag + 1};
    if (number % 3 == 0) {
      fill(built.bytes(), number);
      operation.built_in = &built;
    } else {
      plain = value_of(number, length_of(number));
      operation.value = plain;
    }
    const Operated outcome = co_await writes.client.operate(key, operation);
    writes.done += outcome.code == Code::kOk ? 1 : 0;
    writes.in_doubt += outcome.code == Code::kIndeterminate ? 1 : 0;
    writes.failed += outcome.code != Code::kOk && outcome.code != Code::kIndeterminate ? 1 : 0;
  }
}

class LongBesideKills : public testing::TestWithParam<Way> {};

// Each server lives for some values; the memory stays, so that nothing is in doubt.
TEST_P(LongBesideKills, values_of_a_tag_follow_each_other_and_the_last_one_is_there) {
  constexpr int kKills = 8;
  const TemporaryFolder folder;
  std::vector<std::string> flags = flags_of(GetParam());
  flags.insert(flags.end(), {"--data-folder", folder.path() + "/data"});
  const TestNode node(flags);
  Client watching = node.connect();
  Shard shard(system_clock());
  const std::unique_ptr<AsyncClient> client = connect(shard, node, GetParam());
  Writes writes{.client = *client};
  const auto comes_true = [&shard](auto done) {
    return shard.run_until(done, shard.refresh_now() + kPatience_ns);
  };
  for (uint32_t tag = 0; tag < Writes::kTags; ++tag) {
    for (int several = 0; several < 4; ++several) shard.spawn(write_of_tag(writes, tag));
  }
  std::array<uint64_t, Writes::kTags> seen{};
  const auto look = [&] {
    for (uint32_t tag = 0; tag < Writes::kTags; ++tag) {
      const Result<std::string> value = watching.get(Writes::key_of(tag));
      if (!value) continue;
      const uint64_t number = number_in(*value);
      EXPECT_NE(number, 0U) << "a mixture";
      EXPECT_GE(number, seen[tag]);
      seen[tag] = number;
    }
  };
  bool is_well = true;
  for (int kill = 0; kill < kKills && is_well; ++kill) {
    const uint64_t before = writes.done;
    is_well = comes_true([&] { return writes.done > before + 40 + static_cast<uint64_t>(kill); });
    look();
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
  look();
  EXPECT_EQ(seen, writes.begun);
}

INSTANTIATE_TEST_SUITE_P(Ways, LongBesideKills,
                         testing::Values(Way{.name = "shm"},
                                         Way{.name = "always", .flags = {"--data-durability", "always"}},
                                         Way{.name = "tcp", .is_over_tcp = true}),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace refract::client::operate_long
