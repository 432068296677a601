// SPDX-License-Identifier: Apache-2.0
// A node and its caller over the smallest provider: the caller has the whole list, of one version.
#include "refract/cluster/members_service.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/object_bytes.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/cluster/members_call.h"
#include "refract/cluster/members_wire.h"
#include "refract/fabric/conformance/loopback_domain.h"

namespace refract::cluster {
namespace {

using test::needed;

MemberList list_of(uint64_t version, int nodes) {
  std::string text = fmt::format("version={}", version);
  for (int i = 0; i < nodes; ++i) text += fmt::format(",node-{}=host-{}:{}", i, i, 1000 + i);
  return needed(parse_member_list(text, ListForm::kSetting));
}

// Answers like the real one, and has something happen behind each answer; or answers as it is told.
class Between final : public rpc::Service {
 public:
  explicit Between(MembersService& real) noexcept : real_(real) {}
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) {
      ++count;
      if (answer.empty()) {
        real_.handle({&call, 1});
      } else {
        server->reply(call.from, Code::kOk, answer);
      }
      if (behind) behind();
    }
  }
  rpc::Server* server = nullptr;
  std::vector<std::byte> answer;
  std::function<void()> behind;
  int count = 0;

 private:
  MembersService& real_;
};

class MembersServiceTest : public testing::Test {
 protected:
  MembersServiceTest() {
    service_.answer_through(server_);
    between_.server = &server_;
    session_ = std::make_unique<rpc::Session>(*needed(client_domain_.connect("server")), shard_);
    EXPECT_TRUE(shard_.run_until([&] { return session_->state() == rpc::Session::State::kOpen; },
                                 shard_.refresh_now() + 30 * kSecond_ns));
  }

  Result<ToldMembers> ask() {
    return runtime::block_on(shard_, ask_members(*session_, shard_.refresh_now() + 30 * kSecond_ns));
  }
  Code ask_by(std::span<const std::byte> body, uint16_t method = 0x500) {
    return session_->call_and_wait({.method = method, .head = body}, shard_.refresh_now() + 30 * kSecond_ns)
        .code;
  }

  Members members_ = needed(Members::create(list_of(3, 100), "node-42"));
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain client_domain_{hub_, "client", {.depth = 16, .message_bytes_max = 512}};
  fabric::LoopbackDomain server_domain_{hub_, "server", {.depth = 16, .message_bytes_max = 512}};
  runtime::Shard shard_{system_clock()};
  MembersService service_{members_};
  Between between_{service_};
  rpc::Server server_{between_, shard_};
  fabric::Dispatcher client_{client_domain_, shard_};
  fabric::Dispatcher serving_{server_domain_, shard_, &server_};
  std::unique_ptr<rpc::Session> session_;
};

TEST_F(MembersServiceTest, tells_a_list_that_is_longer_than_a_message) {
  const auto told = ask();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->list, members_.list());
  EXPECT_EQ(told->list.members[told->self].name, "node-42");
  EXPECT_GT(between_.count, 3);
}

TEST_F(MembersServiceTest, a_list_that_changes_between_two_pages_is_told_from_its_beginning) {
  between_.behind = [this] {
    if (between_.count != 2) return;
    EXPECT_TRUE(*members_.take(list_of(4, 99)));
  };
  const auto told = ask();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->list, list_of(4, 99));
}

TEST_F(MembersServiceTest, a_list_that_becomes_shorter_than_what_was_told_is_told_again) {
  ASSERT_TRUE(*members_.take(list_of(4, 100)));
  between_.behind = [this] {
    if (between_.count != 3) return;
    EXPECT_TRUE(*members_.take(needed(parse_member_list("version=5,node-42=h:1", ListForm::kSetting))));
  };
  const auto told = ask();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->list.version, 5U);
  EXPECT_EQ(told->self, 0U);
}

TEST_F(MembersServiceTest, a_list_that_changes_again_and_again_ends_the_call) {
  uint64_t version = 3;
  between_.behind = [&] { EXPECT_TRUE(*members_.take(list_of(++version, 100))); };
  EXPECT_EQ(ask().code(), Code::kInvalidated);
}

TEST_F(MembersServiceTest, calls_that_make_no_sense_are_refused) {
  const auto body = [](uint32_t from, uint32_t reserved) {
    return wire::MembersRequest{.from = from, .reserved = reserved};
  };
  EXPECT_EQ(ask_by(object_bytes(body(99, 0))), Code::kOk);
  EXPECT_EQ(ask_by(object_bytes(body(100, 0))), Code::kInvalidArgument);
  EXPECT_EQ(ask_by(object_bytes(body(UINT32_MAX, 0))), Code::kInvalidArgument);
  EXPECT_EQ(ask_by(object_bytes(body(0, 1))), Code::kMalformed);
  EXPECT_EQ(ask_by({}), Code::kMalformed);
  EXPECT_EQ(ask_by(object_bytes(uint32_t{0})), Code::kMalformed);
  EXPECT_EQ(ask_by(object_bytes(body(0, 0)), 0x501), Code::kUnsupported);
}

TEST_F(MembersServiceTest, answers_that_make_no_sense_are_refused) {
  const auto answered = [this](std::string_view text) {
    between_.answer.assign(std::as_bytes(std::span(text)).begin(), std::as_bytes(std::span(text)).end());
    return ask().code();
  };
  EXPECT_EQ(answered("x"), Code::kMalformed);
  // A sound page whose names are none.
  const MemberList spoilt{.version = 1, .members = {{.name = "a", .host = "h", .port = 1}}};
  auto bytes = wire::encode_page(needed(Members::create(spoilt, "a")), 0, 512);
  bytes[sizeof(wire::MembersReply) + sizeof(wire::MemberRecord)] = std::byte{0x1b};
  between_.answer = bytes;
  EXPECT_EQ(ask().code(), Code::kMalformed);
  // The same page for ever: its list has two nodes, and only the first one ever comes.
  between_.answer = wire::encode_page(members_, 0, 400);
  EXPECT_EQ(ask().code(), Code::kMalformed);
}

TEST_F(MembersServiceTest, a_session_that_has_ended_is_unavailable) {
  session_->close();
  EXPECT_TRUE(shard_.run_until([&] { return session_->state() == rpc::Session::State::kClosed; },
                               shard_.refresh_now() + 30 * kSecond_ns));
  EXPECT_EQ(ask().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace refract::cluster
