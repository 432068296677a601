// SPDX-License-Identifier: Apache-2.0
// Numbered writes on a node as it runs (docs/design/077): a session outlives the server, and what became of
// each number is known behind it.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/numbered_calls.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/layout/session_records.h"

namespace refract::test {
namespace {

using kv::wire::Operation;
using kv::wire::OperationKind;

uint64_t deadline_ns(ShardLink& link) {
  return link.shard().refresh_now() + kPatience_ns;
}
template <typename T>
T wait(ShardLink& link, runtime::Task<T> task) {
  return runtime::block_on(link.shard(), std::move(task));
}
kv::ToldOperation ask(ShardLink& link, const Operation& operation, std::string_view key,
                      std::string_view value) {
  kv::wire::OperationsBody body;
  body.add(operation, std::as_bytes(std::span(key)), std::as_bytes(std::span(value)));
  std::array<kv::ToldOperation, 1> told;
  kv::NumberedCalls calls(link.session());
  EXPECT_EQ(wait(link, calls.operations(body, told, deadline_ns(link))), Code::kOk);
  return told[0];
}
// One more.
kv::ToldOperation count(ShardLink& link, uint64_t number, std::string_view key) {
  Operation add{};
  add.number = number;
  add.kind = static_cast<uint8_t>(OperationKind::kFunction);
  add.function = static_cast<uint8_t>(kv::functions::Function::kAdd);
  add.key_bytes = static_cast<uint16_t>(key.size());
  add.value_bytes = sizeof(int64_t);
  return ask(link, add, key, std::string_view("\1\0\0\0\0\0\0\0", sizeof(int64_t)));
}
kv::ToldOperation withdraw(ShardLink& link, uint64_t number) {
  Operation asked{};
  asked.number = number;
  asked.kind = static_cast<uint8_t>(OperationKind::kWithdraw);
  return ask(link, asked, {}, {});
}
int64_t sum_of(const kv::ToldOperation& told) {
  int64_t sum = 0;
  if (told.answer_bytes == sizeof(sum)) std::memcpy(&sum, told.answer.data(), sizeof(sum));
  return sum;
}

const NodeOptions kOptions{
    .arguments = {"--listen-address", "127.0.0.1:0", "--restart-limit", "1000", "--restart-backoff", "0ns"}};

// Over TCP, or over shared memory.
class NumberedNode : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Links, NumberedNode, testing::Bool(),
                         [](const auto& over_tcp) { return over_tcp.param ? "tcp" : "shm"; });

TEST_P(NumberedNode, what_became_of_a_number_is_known_behind_a_killed_server) {
  Node node(kOptions);
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::unique_ptr<ShardLink> link =
      GetParam() ? ShardLink::over_tcp(node.tcp_address() + "/0") : ShardLink::over_shm(node.socket_path());
  ASSERT_TRUE(link->is_open());
  const auto session = needed(wait(*link, kv::NumberedCalls(link->session()).begin(deadline_ns(*link))));
  EXPECT_EQ(session.functions, kv::functions::version());
  const kv::ToldOperation first = count(*link, 1, "counter");
  EXPECT_EQ(sum_of(first), 1);
  for (int64_t kill = 1; kill <= 3; ++kill) {
    send_signal(node.server(), SIGKILL);
    const auto comes = [&](rpc::Session::State state) {
      return link->shard().run_until([&] { return link->session().state() == state; }, deadline_ns(*link));
    };
    ASSERT_TRUE(comes(rpc::Session::State::kClosed));
    ASSERT_TRUE(comes(rpc::Session::State::kOpen)) << node.errors();
    kv::NumberedCalls calls(link->session());
    kv::wire::SessionRequest name{.id = session.id, .secret = session.secret};
    name.secret[3] ^= std::byte{1};
    EXPECT_EQ(wait(*link, calls.resume(name, deadline_ns(*link))).code(), Code::kInvalidated);
    name.secret = session.secret;
    EXPECT_EQ(wait(*link, calls.resume(name, deadline_ns(*link))).code(), Code::kOk);
    const kv::ToldOperation told = withdraw(*link, 1);
    EXPECT_TRUE(told.is_told_again);
    EXPECT_EQ(told.version, first.version);
    EXPECT_EQ(told.place, first.place);
    EXPECT_EQ(sum_of(told), 1);
    const auto next = static_cast<uint64_t>(kill + 1);
    EXPECT_TRUE(withdraw(*link, next).is_not_executed);
    EXPECT_EQ(sum_of(count(*link, 1, "counter")), 1) << "again";
    EXPECT_EQ(sum_of(count(*link, next, "counter")), kill + 1);
  }
  EXPECT_EQ(needed(link->get("counter")), "4");
}

// Every client of the host maps the space.
TEST(NumberedSpace, the_space_has_half_of_a_hash_in_place_of_the_secret) {
  Node node(kOptions);
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::unique_ptr<ShardLink> link = ShardLink::over_shm(node.socket_path());
  ASSERT_TRUE(link->is_open());
  const auto session = needed(wait(*link, kv::NumberedCalls(link->session()).begin(deadline_ns(*link))));
  const auto* const base = static_cast<const std::byte*>(link->session().channel()->local_view().base);
  uint64_t at = 0;
  std::memcpy(&at, base + kv::kSessionsAt.value, sizeof(at));
  ASSERT_NE(at, 0u);
  kv::SessionHead head;
  std::memcpy(&head, base + at, sizeof(head));
  EXPECT_EQ(head.id, session.id);
  std::array<unsigned char, EVP_MAX_MD_SIZE> whole{};
  unsigned int bytes = 0;
  ASSERT_EQ(
      EVP_Digest(session.secret.data(), session.secret.size(), whole.data(), &bytes, EVP_sha256(), nullptr),
      1);
  EXPECT_EQ(std::memcmp(head.secret.data(), whole.data(), sizeof(head.secret)), 0);
  EXPECT_NE(std::memcmp(head.secret.data(), session.secret.data(), sizeof(head.secret)), 0);
}

}  // namespace
}  // namespace refract::test
