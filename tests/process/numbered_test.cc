// SPDX-License-Identifier: Apache-2.0
// Numbered writes on a node as it runs (docs/design/077): a session outlives the server, and what became of
// each number is known behind it.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/base/testing/needed.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/layout/session_records.h"
#include "refract/kv/testing/test_numbered_calls.h"

namespace refract::test {
namespace {

using kv::test::add_op;
using kv::test::NumberedAnswer;
using kv::test::NumberedOp;
using kv::test::withdraw_op;
using kv::wire::NumberedMethod;

runtime::OpResult call(ShardLink& link, NumberedMethod method, std::span<const std::byte> body) {
  return link.session().call_and_wait({.method = static_cast<uint16_t>(method), .head = body},
                                      link.shard().refresh_now() + kPatience_ns);
}
kv::wire::SessionReply begun(ShardLink& link) {
  const runtime::OpResult reply = call(link, NumberedMethod::kSessionBegin, {});
  EXPECT_EQ(reply.code, Code::kOk);
  return kv::test::reply_as<kv::wire::SessionReply>(kv::test::text_of(reply.bytes));
}
Code resume(ShardLink& link, const kv::wire::SessionRequest& name) {
  return call(link, NumberedMethod::kSessionResume, std::as_bytes(std::span(&name, 1))).code;
}
NumberedAnswer ask(ShardLink& link, const NumberedOp& operation) {
  const std::string body = kv::test::operations_body({operation});
  return kv::test::numbered_reply(call(link, NumberedMethod::kOperations, kv::test::bytes_of(body))).one();
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
  const kv::wire::SessionReply session = begun(*link);
  EXPECT_EQ(session.functions, kv::functions::version());
  const NumberedAnswer first = ask(*link, add_op(1, "counter", 1));
  EXPECT_EQ(first.number(), 1);
  for (int64_t kill = 1; kill <= 3; ++kill) {
    send_signal(node.server(), SIGKILL);
    const auto comes = [&](rpc::Session::State state) {
      return link->shard().run_until([&] { return link->session().state() == state; },
                                     link->shard().refresh_now() + kPatience_ns);
    };
    ASSERT_TRUE(comes(rpc::Session::State::kClosed));
    ASSERT_TRUE(comes(rpc::Session::State::kOpen)) << node.errors();
    kv::wire::SessionRequest name{.id = session.id, .secret = session.secret};
    name.secret[3] ^= std::byte{1};
    EXPECT_EQ(resume(*link, name), Code::kInvalidated);
    name.secret = session.secret;
    EXPECT_EQ(resume(*link, name), Code::kOk);
    const NumberedAnswer told = ask(*link, withdraw_op(1));
    EXPECT_TRUE(told.is_told_again());
    EXPECT_EQ(told.version, first.version);
    EXPECT_EQ(told.place, first.place);
    EXPECT_EQ(told.number(), 1);
    const auto next = static_cast<uint64_t>(kill + 1);
    EXPECT_TRUE(ask(*link, withdraw_op(next)).is_not_executed());
    EXPECT_EQ(ask(*link, add_op(1, "counter", 1)).number(), 1) << "again";
    EXPECT_EQ(ask(*link, add_op(next, "counter", 1)).number(), kill + 1);
  }
  EXPECT_EQ(needed(link->get("counter")), "4");
}

// Every client of the host maps the space.
TEST(NumberedSpace, the_space_has_half_of_a_hash_in_place_of_the_secret) {
  Node node(kOptions);
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::unique_ptr<ShardLink> link = ShardLink::over_shm(node.socket_path());
  ASSERT_TRUE(link->is_open());
  const kv::wire::SessionReply session = begun(*link);
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
