// SPDX-License-Identifier: Apache-2.0
// A member that answers nonsense when it is asked for an estimate, or asks nonsense: it is told as such, what
// the others said stays, and nothing is changed.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/object/testing/rank_bodies.h"
#include "refract/object/testing/test_directory.h"

namespace refract::object::directory_rank_hostile_test {
namespace {

using test::ToldNode;
using wire::EstimateReply;
using Method = wire::DirectoryMethod;

constexpr uint64_t kBirth = 7;

// The node a, which has an object, the member b, which answers as a test says, and c, which is not there.
class EstimatesTest : public testing::Test {
 protected:
  EstimatesTest() {
    node.says = [this](uint16_t method, std::string_view body) { return say(method, body); };
    node.reach();
    REFRACT_CHECK(node.run_until([&] { return node.directory().counts().streams == 1; }));
    ObjectStore& store = node.owner().store;
    REFRACT_CHECK(store.create({.id = test::as_bytes(id), .birth = kBirth, .body_bytes = 100}).has_value());
    REFRACT_CHECK(store.seal(test::as_bytes(id), kBirth).has_value());
    node.settle();
  }
  std::optional<ToldNode::Said> say(uint16_t method, std::string_view body) {
    switch (static_cast<Method>(method)) {
      case Method::kHello:
        return ToldNode::Said(Code::kOk, test::body_of(wire::HelloReply{.list_version = node.list.version,
                                                                        .stream = 1,
                                                                        .name_bytes = 1,
                                                                        .reserved = {}},
                                                       "b"));
      case Method::kChanges:
        return ToldNode::Said(Code::kOk, "");
      case Method::kEstimate:
        asked = body;
        return answer;
      default:
        return ToldNode::Said(Code::kUnavailable, "");
    }
  }
  [[nodiscard]] test::Ranked rank() {
    return test::ranked_of(
        node.call(client, static_cast<uint16_t>(wire::Method::kRank), test::rank_body({id}, kSecond_ns)));
  }
  void answers(const EstimateReply& reply) { answer = ToldNode::Said(Code::kOk, test::body_of(reply)); }

  ToldNode node;
  const std::string id = test::id_homed_at(node, "a");
  std::optional<ToldNode::Said> answer;  // Nothing: it does not answer.
  std::string asked;
  ToldNode::Peer client = node.connect();
  const EstimateReply sound{.time_ns = 1000,
                            .missing_bytes = 100,
                            .room_bytes = kMiB,
                            .missing = 1,
                            .unreachable = 0,
                            .is_guessed = 1,
                            .reserved = {}};
};

TEST_F(EstimatesTest, a_member_is_asked_for_what_the_home_knows_and_its_word_is_told) {
  answers(sound);
  const test::Ranked ranked = rank();
  ASSERT_EQ(ranked.order(), "abc");
  EXPECT_EQ(ranked.nodes[1].node.time_ns, 1000U);
  EXPECT_EQ(ranked.nodes[1].node.missing_bytes, 100U);
  EXPECT_EQ(ranked.nodes[1].node.is_guessed, 1);
  EXPECT_EQ(ranked.code_of(2), Code::kAway);
  const std::string wanted =
      test::body_of(wire::EstimateRequest{.list_version = node.list.version, .count = 1, .reserved = {}}) +
      test::body_of(wire::WantedObject{.birth = kBirth,
                                       .body_bytes = 100,
                                       .metadata_bytes = 0,
                                       .id_bytes = test::short_of(id.size()),
                                       .holders = 1,
                                       .reserved = 0},
                    id) +
      std::string(1, '\0');
  EXPECT_EQ(asked, wanted);
}

TEST_F(EstimatesTest, an_answer_that_makes_no_sense_is_told_as_such) {
  const auto with = [&](auto change) {
    EstimateReply reply = sound;
    change(reply);
    return reply;
  };
  const std::vector<EstimateReply> cases = {
      with([](EstimateReply& reply) { reply.missing = 2; }),
      with([](EstimateReply& reply) { reply.unreachable = 2; }),
      with([](EstimateReply& reply) { reply.unreachable = 1; }),  // And a time for it.
      with([](EstimateReply& reply) { reply.missing_bytes = 101; }),
      with([](EstimateReply& reply) { reply.missing = 0; }),
      with([](EstimateReply& reply) { reply.is_guessed = 2; }),
      with([](EstimateReply& reply) { reply.reserved[6] = 1; }),
  };
  const auto expect_told = [&](Code code, const std::string& what) {
    const test::Ranked ranked = rank();
    ASSERT_EQ(ranked.code, Code::kOk);
    EXPECT_EQ(ranked.codes, std::vector<Code>{Code::kOk});
    EXPECT_EQ(ranked.code_of(0), Code::kOk) << "a itself";
    ASSERT_EQ(ranked.name(1), "b");
    EXPECT_EQ(ranked.code_of(1), code) << what;
    EXPECT_EQ(ranked.nodes[1].node.time_ns + ranked.nodes[1].node.missing, 0U);
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    answers(cases[i]);
    expect_told(Code::kMalformed, std::to_string(i));
  }
  for (const std::string& body :
       {std::string(), test::body_of(sound).substr(1), test::body_of(sound) + "x"}) {
    answer = ToldNode::Said(Code::kOk, body);
    expect_told(Code::kMalformed, std::to_string(body.size()));
  }
  for (const auto& [said, told] : std::vector<std::pair<Code, Code>>{
           {Code::kUnsupported, Code::kUnsupported},  // It is of an earlier version.
           {Code::kVersionMismatch, Code::kAway},
           {Code::kUnavailable, Code::kAway},
           {Code::kNoSpace, Code::kMalformed}}) {
    answer = ToldNode::Said(said, "");
    expect_told(told, std::string(text(said)));
  }
  answer.reset();
  expect_told(Code::kDeadlineExceeded, "silence");
  node.answer_late({Code::kOk, test::body_of(sound)});
  answers(sound);
  EXPECT_EQ(rank().code_of(1), Code::kOk) << "it is asked again each time";
}

TEST_F(EstimatesTest, a_member_that_lies_moves_no_other) {
  EstimateReply lie = sound;
  lie.time_ns = UINT64_MAX;
  answers(lie);
  EXPECT_EQ(rank().order(), "abc");
  EXPECT_EQ(rank().nodes[1].node.time_ns, UINT64_MAX);
  lie = {};
  lie.room_bytes = UINT64_MAX;
  answers(lie);
  const test::Ranked ranked = rank();
  EXPECT_EQ(ranked.order(), "abc") << "with nothing missing as a, and behind it by its name";
  EXPECT_EQ(ranked.nodes[0].node.missing, 0U);
  lie.room_bytes = 99;
  answers(lie);
  EXPECT_EQ(rank().code_of(1), Code::kNoSpace);
}

TEST_F(EstimatesTest, a_session_that_ends_meanwhile_is_away_and_the_list_may_change) {
  const auto start = [&] {
    const std::string body = test::rank_body({id}, kSecond_ns);
    const uint64_t call =
        client->start({.method = static_cast<uint16_t>(wire::Method::kRank), .head = test::as_bytes(body)});
    node.settle();
    REFRACT_CHECK(!client->done(call));
    return call;
  };
  const auto finish = [&](uint64_t call) {
    REFRACT_CHECK(node.run_until([&] { return client->done(call); }));
    const runtime::OpResult result = client->finish(call);
    return test::ranked_of({.code = result.code, .bytes = kv::test::text_of(result.bytes)});
  };
  const uint64_t first = start();
  node.lose();
  EXPECT_EQ(finish(first).code_of(1), Code::kAway);
  node.reach();
  REFRACT_CHECK(node.run_until([&] { return node.directory().counts().streams == 1; }));
  const uint64_t second = start();
  node.follow(node.list.version + 1);
  EXPECT_EQ(finish(second).code, Code::kAway);
}

TEST_F(EstimatesTest, so_many_are_under_way_and_no_more) {
  std::vector<uint64_t> calls;
  const std::string body = test::rank_body({id}, 10 * kSecond_ns);
  const rpc::Call call{.method = static_cast<uint16_t>(wire::Method::kRank), .head = test::as_bytes(body)};
  for (int i = 0; i < 16; ++i) {
    calls.push_back(client->start(call));
    ASSERT_NE(calls.back(), 0U);
    node.settle();
  }
  EXPECT_EQ(rank().code, Code::kOverloaded);
  for (const uint64_t one : calls) {
    REFRACT_CHECK(node.run_until([&] { return client->done(one); }));
    EXPECT_EQ(client->finish(one).code, Code::kOk);
  }
  answers(sound);
  EXPECT_EQ(rank().code, Code::kOk);
}

TEST_F(EstimatesTest, what_a_member_asks_is_checked_and_changes_nothing) {
  const ToldNode::Peer member = node.connect();
  ASSERT_EQ(node.call(member, Method::kHello, test::hello_body(node, "b")).code, Code::kOk);
  const auto entry = [&](const std::string& holders) {
    return test::body_of(wire::WantedObject{.birth = kBirth + 1,
                                            .body_bytes = UINT64_MAX,
                                            .metadata_bytes = 5,
                                            .id_bytes = test::short_of(id.size()),
                                            .holders = static_cast<uint8_t>(holders.size()),
                                            .reserved = 0},
                         id + holders);
  };
  const auto body = [&](size_t count, const std::string& rest) {
    return test::body_of(
        wire::EstimateRequest{
            .list_version = node.list.version, .count = test::short_of(count), .reserved = {}},
        rest);
  };
  const std::string one = entry(std::string("\1\2", 2));
  const auto code = [&](const std::string& call) { return node.call(member, Method::kEstimate, call).code; };
  const test::Answer good = node.call(member, Method::kEstimate, body(2, one + one));
  ASSERT_EQ(good.code, Code::kOk);
  EXPECT_EQ(good.as<EstimateReply>().missing, 2U) << "of another birth";
  EXPECT_EQ(good.as<EstimateReply>().missing_bytes, UINT64_MAX) << "and no sum is beyond that";
  EXPECT_EQ(good.as<EstimateReply>().unreachable, 0U);
  const size_t at = sizeof(wire::EstimateRequest);
  const auto with = [&](size_t where, char byte) {
    std::string changed = body(1, one);
    changed[where] = byte;
    return changed;
  };
  const std::vector<std::string> malformed = {
      body(1, one + "x"),
      body(2, one),
      body(1, one.substr(0, one.size() - 1)),
      body(1, ""),
      with(offsetof(wire::EstimateRequest, reserved), 1),
      with(at + offsetof(wire::WantedObject, reserved), 1),
      with(at + offsetof(wire::WantedObject, birth), 0),
      with(at + offsetof(wire::WantedObject, metadata_bytes) + 3, 0x7f),
      with(at + offsetof(wire::WantedObject, holders), 3)};
  for (size_t i = 0; i < malformed.size(); ++i) EXPECT_EQ(code(malformed[i]), Code::kMalformed) << i;
  EXPECT_EQ(code(with(at + offsetof(wire::WantedObject, id_bytes), 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(body(1, entry("\3"))), Code::kInvalidArgument) << "there is no such member";
  EXPECT_EQ(code(body(1, entry(std::string(17, '\1')))), Code::kInvalidArgument);
  EXPECT_EQ(code(body(257, "")), Code::kInvalidArgument);
  EXPECT_EQ(code(body(0, "")), Code::kOk);
  EXPECT_EQ(node.owner().store.accounts().objects, 1U);
  EXPECT_TRUE(node.owner().is_sound());
}

}  // namespace
}  // namespace refract::object::directory_rank_hostile_test
