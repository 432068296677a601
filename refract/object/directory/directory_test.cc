// SPDX-License-Identifier: Apache-2.0
// Nodes that share their objects: what one seals all get, one id is one object, what is deleted stays away;
// with nodes that are killed, cut off, and lose their memory.
#include "refract/object/directory/directory.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "refract/object/testing/broadcast_bodies.h"
#include "refract/object/testing/three_nodes.h"

namespace refract::object {
namespace {

using test::list_of;
using test::SimClient;
using test::Three;

// Where the directory is: in the homes of the ids, or in Redis.
class Directories : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static bool is_in_redis() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Directories, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "redis" : "homes"; });

TEST_P(Directories, what_one_node_seals_all_get) {
  Three three(is_in_redis());
  for (const char home : {'a', 'b', 'c'}) {
    for (const char maker : {'a', 'b', 'c'}) {
      const std::string id = three.id(home, maker);
      ASSERT_EQ(three.at(maker).put(id, "bytes of " + id), Code::kOk);
      for (const char reader : {'a', 'b', 'c'}) {
        EXPECT_EQ(three.at(reader).get(id), "bytes of " + id) << home << maker << reader;
        EXPECT_TRUE(three.node(reader).has(id));
      }
    }
  }
  EXPECT_EQ(three.at('a').get("nothing"), "not_found");
}

TEST_P(Directories, of_two_puts_of_one_id_one_is_refused_wherever_it_comes_from) {
  Three three(is_in_redis());
  for (const char home : {'a', 'b', 'c'}) {
    const std::string id = three.id(home);
    EXPECT_EQ(three.at('a').put(id, "first"), Code::kOk);
    EXPECT_EQ(three.at('b').put(id, "second"), Code::kExists);
    EXPECT_EQ(three.at('c').put(id, "third"), Code::kExists);
    EXPECT_EQ(three.at('c').get(id), "first");
  }
}

TEST_P(Directories, what_is_deleted_is_gone_everywhere_and_may_be_made_again) {
  Three three(is_in_redis());
  for (const char home : {'a', 'b', 'c'}) {
    const std::string id = three.id(home);
    ASSERT_EQ(three.at('a').put(id, "old"), Code::kOk);
    ASSERT_EQ(three.at('b').get(id), "old");
    ASSERT_EQ(three.at('c').remove(id), Code::kOk);
    EXPECT_EQ(three.at('c').last_removed.bytes.size(), sizeof(wire::DeleteReply)) << "a node was missed";
    for (const char reader : {'a', 'b', 'c'}) {
      EXPECT_FALSE(three.node(reader).has(id));
      EXPECT_EQ(three.at(reader).get(id), "not_found");
    }
    EXPECT_EQ(three.at('b').remove(id), Code::kNotFound);
    EXPECT_EQ(three.at('b').put(id, "new"), Code::kOk);
    EXPECT_EQ(three.at('a').get(id), "new");
  }
  three.pass(100 * kMillisecond_ns);
  for (const auto& node : three.nodes) {
    EXPECT_EQ(node->counts().tombstones, 0U);
    EXPECT_EQ(node->counts().home.tombstones, 0U);
  }
}

// A get that waits is told when it comes, wherever it is made.
TEST_P(Directories, a_get_waits_for_what_another_node_makes) {
  Three three(is_in_redis());
  const std::string id = three.id('c');
  const uint64_t waiting = three.at('b').start(wire::Method::kFetch, test::await_body(id, 3 * kSecond_ns));
  three.pass(300 * kMillisecond_ns);
  EXPECT_FALSE(three.at('b').is_done(waiting));
  ASSERT_EQ(three.at('a').put(id, "late"), Code::kOk);
  const uint64_t made_ns = three.world.now_ns();
  EXPECT_EQ(SimClient::body_in(three.at('b').finish(waiting)), "late");
  EXPECT_LT(three.world.now_ns() - made_ns, 100 * kMillisecond_ns) << "it was not told";
  // And none that is made nowhere.
  EXPECT_EQ(three.at('b').get(three.id('c', 1), 100 * kMillisecond_ns), "not_found");
}

TEST_P(Directories, an_object_is_found_while_its_home_is_dead) {
  Three three(is_in_redis());
  const std::string id = three.id('c');
  ASSERT_EQ(three.at('a').put(id, "bytes"), Code::kOk);
  three.node('c').crash();
  // Until then its home may believe that it hears all.
  three.pass(40 * kMillisecond_ns);
  EXPECT_EQ(three.at('b').get(id), "bytes");
  const std::string other = three.id('c', 1);
  if (is_in_redis()) {
    // That home is no member.
    EXPECT_EQ(three.at('b').get(other), "not_found");
    EXPECT_EQ(three.at('b').put(other, "x"), Code::kOk);
    return;
  }
  // No node can say that there is none, or which may make one.
  EXPECT_EQ(three.at('b').get(other), "away");
  EXPECT_EQ(three.at('b').put(other, "x"), Code::kAway);
  EXPECT_EQ(three.at('b').put(three.id('a', 1), "x"), Code::kOk);
  three.node('c').restart();
  three.settle();
  EXPECT_EQ(three.at('b').get(other), "not_found");
  EXPECT_EQ(three.at('b').put(other, "x"), Code::kOk);
}

TEST_P(Directories, a_node_that_missed_a_delete_drops_the_object_when_it_returns) {
  for (const bool home_dies_too : {false, true}) {
    Three three(is_in_redis());
    const std::string id = three.id('a');
    ASSERT_EQ(three.at('b').put(id, "old"), Code::kOk);
    ASSERT_EQ(three.at('c').get(id), "old");
    three.node('c').crash();
    three.pass(20 * kMillisecond_ns);
    ASSERT_EQ(three.at('b').remove(id), Code::kOk);
    EXPECT_EQ(three.at('b').last_removed.behind<wire::DeleteReply>(), std::string("\1c"));
    EXPECT_EQ(three.at('b').put(id, "new"), Code::kOk);
    if (home_dies_too) {
      three.node('a').crash();
      three.node('a').restart();
    }
    three.node('c').restart();
    three.settle();
    three.at('a').connect();
    three.at('c').connect();
    EXPECT_EQ(three.at('c').get(id), "new");
    EXPECT_EQ(three.at('a').get(id), "new");
    three.pass(kSecond_ns);
    for (const auto& node : three.nodes) EXPECT_EQ(node->counts().tombstones, 0U);
  }
}

TEST_P(Directories, a_memory_that_is_lost_takes_its_objects_and_claims_with_it) {
  Three three(is_in_redis());
  const std::string id = three.id('a');
  ASSERT_EQ(three.at('b').put(id, "bytes"), Code::kOk);
  const auto lengths = test::Lengths{.body = 100};
  ASSERT_EQ(three.at('b').call(wire::Method::kCreate, test::create_body("claimed", 7, lengths)).code,
            Code::kOk);
  three.node('b').crash(true);
  three.pass(20 * kMillisecond_ns);
  EXPECT_EQ(three.at('c').put("claimed", "x"), Code::kExists);
  EXPECT_EQ(three.at('c').get(id), "away");
  three.node('b').restart();
  three.settle();
  EXPECT_EQ(three.at('c').get(id), "not_found");
  EXPECT_EQ(three.at('c').put("claimed", "x"), Code::kOk);
}

TEST_P(Directories, an_aborted_creation_gives_its_id_back) {
  Three three(is_in_redis());
  const std::string id = three.id('c');
  const auto lengths = test::Lengths{.body = 100};
  ASSERT_EQ(three.at('a').call(wire::Method::kCreate, test::create_body(id, 7, lengths)).code, Code::kOk);
  EXPECT_EQ(three.at('b').put(id, "x"), Code::kExists);
  ASSERT_EQ(three.at('a').call(wire::Method::kAbort, test::id_body(id, 7)).code, Code::kOk);
  three.pass(5 * kMillisecond_ns);
  EXPECT_EQ(three.at('b').put(id, "x"), Code::kOk);
}

TEST_P(Directories, a_creation_that_is_refused_gives_its_id_back_at_once) {
  Three three(is_in_redis());
  const std::string id = three.id('c');
  const auto lengths = test::Lengths{.body = 1 << 30};
  EXPECT_EQ(three.at('a').call(wire::Method::kCreate, test::create_body(id, 7, lengths)).code,
            Code::kTooLarge);
  three.pass(5 * kMillisecond_ns);
  EXPECT_EQ(three.at('b').put(id, "x"), Code::kOk);
}

// Each of many by itself: one has no room here, and another node may make it at once; the other is made.
TEST_P(Directories, of_puts_that_come_together_each_that_is_refused_gives_its_id_back_at_once) {
  Three three(is_in_redis());
  const std::string refused = three.id('c');
  const std::string made = three.id('b');
  const test::Lengths most{.body = 12 * kMiB - 1};
  ASSERT_EQ(three.at('a').call(wire::Method::kCreate, test::create_body("most", 7, most)).code, Code::kOk);
  const std::array puts = {test::put_body(refused, 8, "too long"), test::put_body(made, 9, "x")};
  const test::Answer answer = three.at('a').call(wire::Method::kPutMany, test::many_body(puts));
  ASSERT_EQ(answer.code, Code::kOk);
  const auto codes = answer.as<std::array<uint16_t, 2>>();
  EXPECT_EQ(codes[0], static_cast<uint16_t>(Code::kNoSpace));
  EXPECT_EQ(codes[1], static_cast<uint16_t>(Code::kOk));
  three.pass(5 * kMillisecond_ns);
  EXPECT_EQ(three.at('b').put(refused, "y"), Code::kOk);
  EXPECT_EQ(three.at('c').get(refused), "y");
  EXPECT_EQ(three.at('c').put(made, "y"), Code::kExists);
}

// The pull of what was deleted ends, and leaves no place and no claim behind.
TEST_P(Directories, an_id_that_was_deleted_while_it_came_is_free_again) {
  Three three(is_in_redis());
  const std::string id = three.id('a');
  const std::string body(300'000, 'x');
  ASSERT_EQ(three.at('b').put(id, "short"), Code::kOk);
  ASSERT_EQ(three.at('b').call(wire::Method::kDelete, test::id_body(id, 0)).code, Code::kOk);
  ObjectStore& store = three.node('b').process->owner.store;
  ASSERT_TRUE(store.create({.id = test::as_bytes(id), .birth = 77, .body_bytes = body.size()}).has_value());
  ASSERT_TRUE(store.seal(test::as_bytes(id), 77).has_value());
  three.pass(5 * kMillisecond_ns);
  SimClient getter(three.world, "another client of c", "c");
  getter.connect();
  three.node('b').host.slow_down(20 * kMillisecond_ns);
  // By messages, each of which waits for the holder's next turn.
  const std::string wanted = test::await_body(id, 0, TransferWish::kSend);
  ASSERT_NE(getter.start(wire::Method::kAwait, wanted), 0U);
  ObjectStore& there = three.node('c').process->owner.store;
  ASSERT_TRUE(three.world.run_until([&] { return there.creation(test::as_bytes(id), 77).has_value(); }));
  EXPECT_EQ(three.at('a').call(wire::Method::kDelete, test::id_body(id, 0)).code, Code::kOk);
  EXPECT_FALSE(there.creation(test::as_bytes(id), 77).has_value());
  EXPECT_EQ(three.at('c').put(id, "new"), Code::kOk);
  EXPECT_EQ(three.at('a').get(id), "new");
}

TEST_P(Directories, an_object_is_brought_to_all_nodes_at_once) {
  Three three(is_in_redis());
  const std::string id = three.id('b');
  const std::string body(400'000, 'x');
  ObjectStore& store = three.node('c').process->owner.store;
  const Result<Creation> made =
      store.create({.id = test::as_bytes(id), .birth = 77, .body_bytes = body.size()});
  ASSERT_TRUE(made.has_value());
  store.writer().copy(made->object.plus(ObjectParts::body_at()), test::as_bytes(body));
  ASSERT_TRUE(store.seal(test::as_bytes(id), 77).has_value());
  three.pass(20 * kMillisecond_ns);
  const std::string wanted = test::broadcast_body(id, {}, 5 * kSecond_ns);
  const test::Broadcasted told = test::broadcasted_of(three.at('a').call(wire::Method::kBroadcast, wanted));
  EXPECT_EQ(told.code, Code::kOk);
  EXPECT_EQ(told.nodes.size(), 3U);
  for (const auto& [name, code] : told.nodes) EXPECT_EQ(code, Code::kOk) << name;
  for (const char name : {'a', 'b', 'c'}) EXPECT_TRUE(three.node(name).has(id)) << name;
}

// A new list: each id may have another home, which hears from all before it grants anything.
TEST_P(Directories, a_new_list_moves_homes_and_loses_nothing) {
  Three three(is_in_redis());
  const cluster::MemberList two = list_of(2, {"a", "b"});
  std::vector<std::string> ids;
  // Puts that are refused take seconds.
  for (int i = 0; i < (is_in_redis() ? 10 : 60); ++i) {
    ids.push_back("object" + std::to_string(i));
    ASSERT_EQ(three.at(i % 2 == 0 ? 'a' : 'b').put(ids.back(), ids.back()), Code::kOk);
  }
  three.node('a').follow(two);
  three.pass(50 * kMillisecond_ns);
  for (const std::string& id : ids) {
    const std::string got = three.at('a').get(id);
    EXPECT_TRUE(got == id || got == "away") << got;
    EXPECT_NE(three.at('a').put(id, "another"), Code::kOk);
  }
  three.node('b').follow(two);
  three.pass(500 * kMillisecond_ns);
  for (const std::string& id : ids) {
    EXPECT_EQ(three.at('a').get(id), id);
    EXPECT_EQ(three.at('b').get(id), id);
    EXPECT_EQ(three.at('b').put(id, "another"), Code::kExists);
  }
}

TEST_P(Directories, objects_longer_than_a_message_are_pulled) {
  Three three(is_in_redis());
  const std::string id = three.id('b');
  std::string body(300'000, 'x');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7);
  // Made where the owner can fill it at once.
  ObjectStore& store = three.node('a').process->owner.store;
  const Result<Creation> made =
      store.create({.id = test::as_bytes(id), .birth = 77, .body_bytes = body.size()});
  ASSERT_TRUE(made.has_value());
  three.node('a').process->owner.writer.copy(made->object.plus(ObjectParts::body_at()), test::as_bytes(body));
  ASSERT_TRUE(store.seal(test::as_bytes(id), 77).has_value());
  three.pass(5 * kMillisecond_ns);
  const test::Answer found = three.at('c').call(wire::Method::kAwait, test::await_body(id));
  ASSERT_EQ(found.code, Code::kOk);
  ObjectStore& there = three.node('c').process->owner.store;
  const Result<Object> copy = there.find(test::as_bytes(id));
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->birth, 77U);
  const std::byte* const bytes =
      three.node('c').process->owner.writer.base() + copy->object.value + ObjectParts::body_at();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes), body.size()), body);
}

TEST_P(Directories, where_tells_which_nodes_have_it) {
  Three three(is_in_redis());
  const std::string id = three.id('b');
  ASSERT_EQ(three.at('a').put(id, "bytes"), Code::kOk);
  ASSERT_EQ(three.at('c').get(id), "bytes");
  three.pass(5 * kMillisecond_ns);
  const test::Answer answer = three.at('b').call(wire::Method::kWhere, test::id_body(id, 0));
  ASSERT_EQ(answer.code, Code::kOk);
  EXPECT_EQ(answer.as<wire::WhereReply>().holders, 2U);
  const std::string names = answer.behind<wire::WhereReply>();
  EXPECT_NE(names.find("\1a"), std::string::npos);
  EXPECT_NE(names.find("\1c"), std::string::npos);
  EXPECT_EQ(three.at('b').call(wire::Method::kWhere, test::id_body("nothing", 0)).code, Code::kNotFound);
}

}  // namespace
}  // namespace refract::object
