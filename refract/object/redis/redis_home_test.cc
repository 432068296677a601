// SPDX-License-Identifier: Apache-2.0
// A directory in a real Redis, which forgets, is restored from what was before, is written to by others, or
// is out of reach of one member: one id stays one object, what is reachable is found, what was deleted stays
// away.
#include "refract/object/redis/redis_home.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/object/redis/redis_script.h"
#include "refract/object/testing/three_nodes.h"

namespace refract::object {
namespace {

using test::redis;
using test::SimClient;
using test::Three;

const std::string kKey(RedisHome::kKey);

class InRedis : public testing::Test {
 protected:
  void put_one() {
    ASSERT_EQ(three.at('a').put("object", "bytes"), Code::kOk);
    ASSERT_EQ(three.at('b').get("object"), "bytes");
    ASSERT_EQ(three.at('b').put("deleted", "bytes"), Code::kOk);
    ASSERT_EQ(three.at('a').get("deleted"), "bytes");
    ASSERT_EQ(three.at('c').remove("deleted"), Code::kOk);
    ASSERT_EQ(three.at('a').put("making", "bytes"), Code::kOk);
  }
  // All as before.
  void expect_one() {
    EXPECT_EQ(three.at('c').put("object", "another"), Code::kExists);
    EXPECT_EQ(three.at('c').get("object"), "bytes");
    EXPECT_EQ(three.at('c').get("deleted"), "not_found");
    EXPECT_EQ(three.at('c').put("deleted", "next"), Code::kOk);
    EXPECT_EQ(three.at('a').get("deleted"), "next");
  }
  [[nodiscard]] const RedisHome& home(char name) { return *three.node(name).process->home; }
  [[nodiscard]] test::SimRedisLine& line(char name) { return *three.node(name).process->line; }

  Three three{true};
};

TEST_F(InRedis, what_is_forgotten_is_reported_again) {
  put_one();
  ASSERT_EQ(redis().ask({"FLUSHALL"}).text, "OK");
  expect_one();
  three.settle();
  for (const char name : {'a', 'b', 'c'}) EXPECT_EQ(home(name).counts().streams_ended, 1U) << name;
}

// Also where it was claimed alone.
TEST_F(InRedis, a_claim_outlives_it) {
  const auto lengths = test::Lengths{.body = 100};
  ASSERT_EQ(three.at('b').call(wire::Method::kCreate, test::create_body("claimed", 7, lengths)).code,
            Code::kOk);
  redis().kill();
  redis().start();
  EXPECT_EQ(three.at('c').put("claimed", "x"), Code::kExists);
  three.settle();
  EXPECT_EQ(three.at('c').put("claimed", "x"), Code::kExists);
  ASSERT_EQ(three.at('b').call(wire::Method::kAbort, test::id_body("claimed", 7)).code, Code::kOk);
  three.pass(5 * kMillisecond_ns);
  EXPECT_EQ(three.at('c').put("claimed", "x"), Code::kOk);
}

TEST_F(InRedis, nothing_is_granted_until_all_have_reported_in_its_run) {
  put_one();
  three.node('a').crash();
  redis().kill();
  redis().start();
  three.pass(kSecond_ns);
  EXPECT_EQ(three.at('c').put("object", "another"), Code::kAway);
  EXPECT_EQ(three.at('c').put("new", "bytes"), Code::kAway);
  EXPECT_EQ(three.at('c').get("new"), "away") << "node a may have it";
  EXPECT_EQ(three.at('c').get("object"), "bytes") << "node b has it";
  EXPECT_TRUE(home('c').counts().unknown[0]);
  three.node('a').restart();
  three.settle();
  three.at('a').connect();
  EXPECT_EQ(three.at('c').put("new", "bytes"), Code::kOk);
  expect_one();
}

// As from an old file, or by a replica that takes over.
TEST_F(InRedis, what_comes_from_another_run_is_not_believed) {
  const std::string before = redis().ask({"DUMP", kKey}).text;
  ASSERT_FALSE(before.empty());
  put_one();
  redis().kill();
  redis().start();
  ASSERT_EQ(redis().ask({"RESTORE", kKey, "0", before, "REPLACE"}).text, "OK");
  three.pass(10 * kMillisecond_ns);
  three.settle();
  expect_one();
}

TEST_F(InRedis, what_cannot_be_read_is_begun_again) {
  put_one();
  const std::vector<std::string> wrong = {"", "x", std::string(8, '\1'), std::string(300, '\xff')};
  for (const std::string& bytes : wrong) {
    if (!bytes.empty()) {
      ASSERT_EQ(redis().ask({"HSET", kKey, "robject", bytes}).number, 0);
    }
    EXPECT_EQ(three.at('c').put("object", "another"), Code::kExists);
    ASSERT_EQ(redis().ask({"HSET", kKey, "g", bytes}).kind, RedisReply::Kind::kNumber);
    EXPECT_EQ(three.at('a').put("object", "another"), Code::kExists);
    three.pass(2 * kSecond_ns);
    three.settle();
  }
  ASSERT_EQ(redis().ask({"DEL", kKey}).number, 1);
  ASSERT_EQ(redis().ask({"SET", kKey, "no hash"}).text, "OK");
  EXPECT_EQ(three.at('c').put("new", "x"), Code::kAway);
  EXPECT_NE(home('c').trouble().what.find("WRONGTYPE"), std::string::npos) << home('c').trouble().what;
  ASSERT_EQ(redis().ask({"DEL", kKey}).number, 1);
  three.pass(2 * kSecond_ns);
  three.settle();
  expect_one();
}

TEST_F(InRedis, a_script_that_is_forgotten_is_sent_again) {
  ASSERT_EQ(redis().ask({"SCRIPT", "FLUSH"}).text, "OK");
  put_one();
  expect_one();
  EXPECT_EQ(home('a').counts().streams_ended, 0U);
}

// A member that Redis has not heard of for 5 s: the others go on, and doubt what it may have.
TEST_F(InRedis, a_member_that_is_cut_off_is_doubted_and_comes_back) {
  put_one();
  three.pass(kSecond_ns);
  line('b').cut(true);
  three.pass(7 * kSecond_ns);
  ASSERT_EQ(three.at('a').remove("object"), Code::kOk);
  EXPECT_TRUE(home('a').counts().unknown[1]) << "it was noted by the first who wrote";
  EXPECT_EQ(three.at('a').last_removed.behind<wire::DeleteReply>(), std::string("\1b"));
  EXPECT_EQ(three.at('c').put("new", "bytes"), Code::kOk) << "all births have passed through this directory";
  EXPECT_EQ(three.at('b').get("new"), "away") << "it cannot know";
  EXPECT_EQ(three.at('b').put("other", "bytes"), Code::kAway);
  line('b').cut(false);
  three.settle();
  three.pass(kSecond_ns);
  EXPECT_EQ(three.at('b').get("new"), "bytes");
  EXPECT_FALSE(three.node('b').has("object")) << "it has heard of the delete";
  for (const auto& node : three.nodes) EXPECT_EQ(node->counts().tombstones, 0U);
}

// 30 s behind the end of its stream a member asks all.
TEST_F(InRedis, without_it_what_others_have_is_found_by_asking_all) {
  put_one();
  redis().kill();
  three.pass(kSecond_ns);
  EXPECT_EQ(three.at('c').get("object"), "away");
  three.pass(31 * kSecond_ns);
  EXPECT_EQ(three.at('c').get("object"), "bytes");
  EXPECT_EQ(three.at('c').get("new"), "not_found") << "all were there, and all said no";
  EXPECT_EQ(three.at('c').put("new", "bytes"), Code::kAway);
  EXPECT_EQ(three.at('c').remove("object"), Code::kAway);
  redis().start();
  three.settle();
  expect_one();
}

// What lay in a socket while Redis was stopped: a member's word does not renew a stream that was silent.
TEST_F(InRedis, a_late_word_renews_no_stream) {
  three.pass(10 * kSecond_ns);
  const auto ping = [&](uint64_t now_ms, std::string_view stream) {
    return redis()
        .ask({"EVAL", std::string(kWriteScript), "2", kKey, "channel", std::to_string(now_ms), "5000", "1",
              std::string(stream), "*", "", "0", "", "0", "0", "0", "0"})
        .items.at(0)
        .text;
  };
  const std::string said = redis().ask({"HGET", kKey, "p1"}).text;
  const std::string stream = said.substr(0, said.find(':'));
  const uint64_t last_ms = number_in(said.substr(said.find(':') + 1));
  EXPECT_EQ(ping(last_ms + 4'000, stream), "ok");
  EXPECT_EQ(ping(last_ms + 9'000, stream), "ok");
  EXPECT_EQ(ping(last_ms + 14'001, stream), "over");
  EXPECT_EQ(ping(last_ms + 6'499, stream), "over") << "a clock that was set back";
  EXPECT_EQ(ping(last_ms + 9'000, "77"), "over") << "another stream";
  // The member sees it by its next word, and reports again.
  ASSERT_EQ(redis().ask({"HSET", kKey, "p1", stream + ":1"}).number, 0);
  three.pass(3 * kSecond_ns);
  three.settle();
  EXPECT_EQ(home('b').counts().streams_ended, 1U);
}

// The newest list is the directory's: a node that has the old one is told so, and grants nothing by itself.
TEST_F(InRedis, a_node_with_an_old_list_is_refused_in_words) {
  put_one();
  const cluster::MemberList next = test::list_of(2, {"a", "b", "c"});
  three.node('b').follow(next);
  three.node('c').follow(next);
  three.pass(2 * kSecond_ns);
  EXPECT_EQ(three.at('a').put("new", "bytes"), Code::kAway);
  EXPECT_NE(home('a').trouble().what.find("has a list of version 2, and this node has version 1"),
            std::string::npos)
      << home('a').trouble().what;
  EXPECT_EQ(three.at('b').put("new", "bytes"), Code::kAway) << "node a has not reported under it";
  three.node('a').follow(next);
  three.pass(kSecond_ns);
  three.settle();
  EXPECT_EQ(three.at('a').put("new", "bytes"), Code::kOk);
  expect_one();
  // Another one of the same version, as two operators make it.
  three.node('a').follow(test::list_of(3, {"a", "b", "c"}));
  three.node('b').follow(test::list_of(3, {"a", "b"}));
  three.pass(kSecond_ns);
  EXPECT_NE(home('b').trouble().what.find("has another list of version 3"), std::string::npos)
      << home('b').trouble().what;
}

TEST_F(InRedis, of_two_that_claim_at_once_one_is_refused) {
  for (int i = 0; i < 20; ++i) {
    const std::string id = "raced" + std::to_string(i);
    std::vector<uint64_t> calls;
    for (const char name : {'a', 'b', 'c'}) {
      calls.push_back(three.at(name).start(wire::Method::kPut, test::put_body(id, 1 + calls.size(), id)));
    }
    int made = 0;
    for (size_t k = 0; k < calls.size(); ++k) {
      const Code code = three.clients[k]->finish(calls[k]).code;
      EXPECT_TRUE(code == Code::kOk || code == Code::kExists) << text(code);
      made += code == Code::kOk ? 1 : 0;
    }
    EXPECT_EQ(made, 1) << id;
  }
  uint64_t repeated = 0;
  for (const char name : {'a', 'b', 'c'}) repeated += home(name).counts().repeated;
  EXPECT_GT(repeated, 0U) << "none was written behind another's back";
}

// More than one step of the walk; what went while Redis could not hear of it is gone there, too.
TEST_F(InRedis, a_report_takes_back_what_it_does_not_repeat) {
  ObjectStore& store = three.node('a').process->owner.store;
  const size_t count = RedisHome::kWalkedAtOnce * 2 + 100;
  for (size_t i = 0; i < count; ++i) {
    const std::string id = "object" + std::to_string(i);
    const std::span<const std::byte> bytes = test::as_bytes(id);
    ASSERT_TRUE(store.create({.id = bytes, .birth = 1 + i, .body_bytes = 8}).has_value());
    ASSERT_TRUE(store.seal(bytes, 1 + i).has_value());
  }
  three.pass(kSecond_ns);
  EXPECT_GE(redis().ask({"HLEN", kKey}).number, static_cast<int64_t>(count));
  line('a').cut(true);
  three.pass(10 * kMillisecond_ns);
  for (size_t i = 0; i + 10 < count; ++i) {
    const std::string id = "object" + std::to_string(i);
    ASSERT_TRUE(store.erase(test::as_bytes(id), 1 + i).has_value());
  }
  line('a').cut(false);
  three.pass(kSecond_ns);
  three.settle();
  EXPECT_LT(redis().ask({"HLEN", kKey}).number, 20);
  EXPECT_EQ(three.at('b').get("object1"), "not_found");
  EXPECT_NE(three.at('b').get("object" + std::to_string(count - 1)), "not_found");
}

TEST_F(InRedis, news_that_are_none_are_passed_over) {
  put_one();
  const std::string channel = redis().ask({"PUBSUB", "CHANNELS"}).items.at(0).text;
  const std::string sound = news_of({.birth = 7, .kind = wire::NewsKind::kDrop, .member = 0}, "object");
  std::vector<std::string> messages = {"",
                                       "x",
                                       std::string(24, '\0'),
                                       std::string(400, '\xff'),
                                       sound.substr(0, 24),
                                       sound + std::string(300, 'i')};
  for (int kind = 0; kind < 256; ++kind) {
    messages.push_back(
        news_of({.birth = 7, .kind = static_cast<wire::NewsKind>(kind), .member = 200}, "object"));
  }
  for (const std::string& message : messages) ASSERT_EQ(redis().ask({"PUBLISH", channel, message}).number, 3);
  three.pass(100 * kMillisecond_ns);
  expect_one();
}

}  // namespace
}  // namespace refract::object
