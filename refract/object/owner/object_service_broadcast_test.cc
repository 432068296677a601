// SPDX-License-Identifier: Apache-2.0
// The call that brings an object to many nodes: what other nodes are asked for it, and how what they say is
// told, to clients by hand and to those that call as programs do.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "refract/object/calls/object_calls.h"
#include "refract/object/testing/broadcast_bodies.h"
#include "refract/object/testing/quiet_elsewhere.h"
#include "refract/object/testing/test_object_service.h"

namespace refract::object::object_service_broadcast_test {
namespace {

using test::Answer;
using test::broadcast_body;
using test::Broadcasted;
using test::broadcasted_of;
using test::Served;
using wire::Method;
using Nodes = std::vector<std::pair<std::string, Code>>;

// Answers when it is told to.
class AskedForBroadcasts final : public test::QuietElsewhere {
 public:
  struct Asked {
    std::string id;
    std::vector<std::string> nodes;
    uint64_t until_ns = 0;
    TakeBroadcasted take;
  };
  void broadcast(std::string_view id, std::vector<std::string> nodes, uint64_t until_ns,
                 TakeBroadcasted take) override {
    asked.push_back({std::string(id), std::move(nodes), until_ns, std::move(take)});
    if (says) asked.back().take(*says);
  }
  [[nodiscard]] std::vector<std::string> away() const override { return {"c"}; }

  std::vector<Asked> asked;
  std::optional<Broadcasted> says;  // At once.
};

class ObjectBroadcasts : public testing::Test {
 protected:
  using Broadcasted = Elsewhere::Broadcasted;

  Answer call(std::string_view body) { return served.call(peer, Method::kBroadcast, body); }
  // What a client is told of this.
  test::Broadcasted told_of(const Broadcasted& done) {
    elsewhere.says = done;
    return broadcasted_of(call(broadcast_body("apple", {}, 0)));
  }

  AskedForBroadcasts elsewhere;
  Served served{{.elsewhere = &elsewhere}};
  Served::Peer peer = served.connect();
};

TEST_F(ObjectBroadcasts, ask_other_nodes_and_are_answered_when_they_are) {
  const uint64_t id = served.start_call(peer, Method::kBroadcast, broadcast_body("apple", {"b", "c"}, 5));
  ASSERT_EQ(elsewhere.asked.size(), 1U);
  const AskedForBroadcasts::Asked& asked = elsewhere.asked.front();
  EXPECT_EQ(asked.id, "apple");
  EXPECT_EQ(asked.nodes, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(asked.until_ns, served.shard.now_ns() + 5);
  EXPECT_FALSE(peer->done(id));
  asked.take({.code = Code::kOk, .birth = 7, .nodes = {{"b", Code::kOk}, {"c", Code::kUnavailable}}});
  const test::Broadcasted told = broadcasted_of(served.finish(peer, id));
  EXPECT_EQ(told.code, Code::kOk);
  EXPECT_EQ(told.nodes, (Nodes{{"b", Code::kOk}, {"c", Code::kAway}}));
  EXPECT_EQ(told.reply.nodes, 2U);
  EXPECT_EQ(told.reply.missed, 1U);
}

TEST_F(ObjectBroadcasts, ask_for_no_more_than_an_hour_and_for_each_name_once) {
  elsewhere.says = Broadcasted{.code = Code::kOk, .birth = 7, .nodes = {}};
  EXPECT_EQ(call(broadcast_body("apple", {"b", "a", "b"}, UINT64_MAX)).code, Code::kOk);
  EXPECT_EQ(elsewhere.asked.back().nodes, (std::vector<std::string>{"b", "a"}));
  EXPECT_LE(elsewhere.asked.back().until_ns, served.shard.now_ns() + 3600 * kSecond_ns);
  EXPECT_EQ(call(broadcast_body("apple", std::vector<std::string>(255, "b"), 0)).code, Code::kOk);
  EXPECT_EQ(elsewhere.asked.back().nodes, std::vector<std::string>{"b"});
  EXPECT_EQ(call(broadcast_body("apple", {}, 0)).code, Code::kOk);
  EXPECT_TRUE(elsewhere.asked.back().nodes.empty());
}

TEST_F(ObjectBroadcasts, tell_why_there_is_no_answer_and_which_names_are_of_no_node) {
  for (const Code code : {Code::kNotFound, Code::kUnsupported}) {
    EXPECT_EQ(told_of({.code = code, .birth = 0, .nodes = {}}).code, code);
  }
  elsewhere.says = Broadcasted{.code = Code::kUnavailable, .birth = 0, .nodes = {}};
  const Answer away = call(broadcast_body("apple", {}, 0));
  EXPECT_EQ(away.code, Code::kAway);
  EXPECT_EQ(away.bytes, std::string("\1c", 2)) << "it names those that are away";
  const test::Broadcasted told =
      told_of({.code = Code::kInvalidArgument, .birth = 0, .nodes = {{"x", Code::kInvalidArgument}}});
  EXPECT_EQ(told.code, Code::kInvalidArgument);
  EXPECT_EQ(told.nodes, (Nodes{{"x", Code::kInvalidArgument}}));
}

TEST_F(ObjectBroadcasts, that_do_not_fit_a_message_tell_first_of_nodes_that_did_not_get_it) {
  Broadcasted done{.code = Code::kOk, .birth = 7, .nodes = {}};
  for (size_t i = 0; i < 250; ++i) {
    const std::string name = "node-" + std::to_string(1000 + i) + std::string(50, '.');
    done.nodes.push_back({.name = name, .code = i % 100 == 99 ? Code::kNoSpace : Code::kOk});
  }
  const test::Broadcasted told = told_of(done);
  EXPECT_EQ(told.reply.nodes, 250U);
  EXPECT_EQ(told.reply.missed, 2U);
  ASSERT_GT(told.nodes.size(), 50U);
  ASSERT_LT(told.nodes.size(), 250U);
  EXPECT_EQ(told.nodes[0], std::pair(done.nodes[99].name, Code::kNoSpace));
  EXPECT_EQ(told.nodes[1], std::pair(done.nodes[199].name, Code::kNoSpace));
  EXPECT_EQ(told.nodes[2], std::pair(done.nodes[0].name, Code::kOk));
}

TEST_F(ObjectBroadcasts, that_make_no_sense_are_refused_and_no_node_is_asked) {
  const std::string sound = broadcast_body("apple", {"b"}, 0);
  const auto with = [&](size_t at, char value) {
    std::string body = sound;
    body[at] = value;
    return body;
  };
  for (const std::string& body :
       {std::string(), sound.substr(0, 15), sound.substr(0, sound.size() - 1), sound + "x", with(11, 1),
        with(15, 1), with(9, 1), with(10, 0), with(10, 2), with(21, 0), with(21, 2)}) {
    EXPECT_EQ(call(body).code, Code::kMalformed) << body.size();
  }
  EXPECT_EQ(call(broadcast_body("", {}, 0)).code, Code::kInvalidArgument);
  EXPECT_EQ(call(broadcast_body(std::string(256, 'x'), {}, 0)).code, Code::kInvalidArgument);
  EXPECT_TRUE(elsewhere.asked.empty());
}

TEST_F(ObjectBroadcasts, whose_client_has_gone_have_no_answer) {
  (void)served.start_call(peer, Method::kBroadcast, broadcast_body("apple", {"b"}, 5));
  served.close(peer);
  elsewhere.asked.front().take({.code = Code::kOk, .birth = 7, .nodes = {{"b", Code::kOk}}});
  served.settle();
  peer = served.connect();
  elsewhere.says = Broadcasted{.code = Code::kNotFound, .birth = 0, .nodes = {}};
  EXPECT_EQ(call(broadcast_body("apple", {}, 0)).code, Code::kNotFound);
}

TEST_F(ObjectBroadcasts, are_what_programs_get_by_their_calls) {
  ObjectCalls calls(*peer, served.shard);
  const auto broadcast = [&](const std::vector<std::string>& nodes, ObjectCalls::Broadcasted& done) {
    return runtime::block_on(served.shard, calls.broadcast(test::as_bytes("apple"), nodes, 0, done));
  };
  ObjectCalls::Broadcasted done;
  elsewhere.says = Broadcasted{.code = Code::kOk, .birth = 7, .nodes = {{"b", Code::kNoSpace}}};
  EXPECT_EQ(broadcast({"b"}, done), Code::kOk);
  EXPECT_EQ(done.reply.missed, 1U);
  ASSERT_EQ(done.nodes.size(), 1U);
  EXPECT_EQ(done.nodes[0].name, "b");
  EXPECT_EQ(done.nodes[0].code, Code::kNoSpace);
  elsewhere.says =
      Broadcasted{.code = Code::kInvalidArgument, .birth = 0, .nodes = {{"x", Code::kInvalidArgument}}};
  EXPECT_EQ(broadcast({"x", "b"}, done), Code::kInvalidArgument);
  ASSERT_EQ(done.nodes.size(), 1U);
  EXPECT_EQ(done.nodes[0].name, "x");
  EXPECT_EQ(broadcast(std::vector<std::string>(256, "b"), done), Code::kInvalidArgument);
  EXPECT_EQ(broadcast(std::vector<std::string>(255, std::string(63, 'b')), done), Code::kTooLarge);
  elsewhere.says = Broadcasted{.code = Code::kUnavailable, .birth = 0, .nodes = {}};
  EXPECT_EQ(broadcast({}, done), Code::kAway);
  EXPECT_EQ(calls.away(), std::vector<std::string>{"c"});
}

TEST(ObjectBroadcastsAlone, are_unsupported_where_a_node_shares_nothing) {
  Served served;
  Served::Peer peer = served.connect();
  EXPECT_EQ(served.call(peer, Method::kBroadcast, broadcast_body("apple", {}, 0)).code, Code::kUnsupported);
}

}  // namespace
}  // namespace refract::object::object_service_broadcast_test
