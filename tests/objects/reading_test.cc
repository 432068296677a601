// SPDX-License-Identifier: Apache-2.0
// What readers of a node's host can do without its server: everything that reads.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <string>

#include "tests/objects/object_node.h"
#include "tests/process/shard_link.h"

#include "refract/base/units.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/object/layout/object_wire.h"

namespace refract::test {
namespace {

class Reading : public testing::TestWithParam<ObjectShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, Reading, testing::Values(kObjectShapes[0], kObjectShapes[1]), name_of);

// Everything that a reader asks for, of a node with one object of number 7. Empty: it got it.
std::string trouble_of_reading(Objects& objects) {
  const auto object = objects.get("object");
  if (!object) return "get: " + std::string(text(object.code()));
  if (number_of(*object) != 7) return "get: other bytes";
  if (object->is_copy()) return "get: a copy";
  if (objects.get("nothing").code() != Code::kNotFound) return "get of what is not there";
  if (!objects.contains("object").value_or(false)) return "contains";
  if (objects.contains("nothing").value_or(true)) return "contains what is not there";
  const auto page = objects.list();
  if (!page || page->objects.size() != 1 || page->objects[0].birth != object->birth()) return "list";
  if (objects.digest("object").value_or(ObjectDigest{}) != object->digest()) return "digest";
  return {};
}

// By a program that began before the server was stopped, and by one that begins now.
std::string trouble_of_all_reading(const Node& node, Objects& objects) {
  if (auto trouble = trouble_of_reading(objects); !trouble.empty()) return trouble;
  Process fresh = Process::run([&] {
    ObjectClient opened = open_objects(node);
    const std::string trouble = trouble_of_reading(opened.objects);
    (void)std::fputs(trouble.c_str(), stderr);
    return trouble.empty() ? 0 : 1;
  });
  return fresh.wait() == 0 ? "" : "a program that began later";
}

TEST_P(Reading, get_list_and_digest_go_on_while_the_server_is_stopped) {
  Node node(with_objects("256MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  ASSERT_TRUE(put_sealed(opened.objects, "object", 7, 8 * kMiB));
  const pid_t server = node.server();
  send_signal(server, SIGSTOP);
  ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));
  EXPECT_EQ(trouble_of_all_reading(node, opened.objects), "");
  EXPECT_EQ(state_of(server), 'T') << "still";
  send_signal(server, SIGCONT);
  EXPECT_EQ(opened.objects.remove("object").value_or(99), 0U) << "holders: every handle has gone";
}

// The server hears of a client by the keeper, and of its pin by nothing but the client's memory.
TEST_P(Reading, of_a_program_that_has_just_come_is_known_to_a_delete) {
  Node node(with_objects("256MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient maker = open_objects(node);
  for (uint64_t number = 1; number <= 40; ++number) {
    const std::string id = "read by a new one";
    ASSERT_TRUE(put_sealed(maker.objects, id, number, 100'000));
    ObjectClient fresh = open_objects(node);
    const auto held = fresh.objects.get(id);
    ASSERT_TRUE(held) << text(held.code());
    EXPECT_EQ(maker.objects.remove(id).value_or(99), 1U) << number;
    // What has no holder is given to the next ones.
    ASSERT_TRUE(put_sealed(maker.objects, "next", number + 1'000, 100'000));
    EXPECT_EQ(number_of(*held), number);
    ASSERT_TRUE(maker.objects.remove("next"));
  }
}

TEST_P(Reading, goes_on_where_the_server_is_not_started_again) {
  NodeOptions options = with_objects("256MiB", GetParam());
  options.arguments.insert(options.arguments.end(), {"--restart-limit", "1"});
  Node node(options);
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  ASSERT_TRUE(put_sealed(opened.objects, "object", 7, 8 * kMiB));
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  send_signal(node.next_server(server), SIGKILL);
  ASSERT_TRUE(becomes_true([&] { return node.errors().find("not started again") != std::string::npos; }));
  EXPECT_EQ(trouble_of_all_reading(node, opened.objects), "");
  // What needs the server says so, and does not wait for what will not come. The first one may have been sent
  // to the server that died.
  const Code first = put_sealed(opened.objects, "other", 1, 100).code();
  EXPECT_TRUE(first == Code::kUnavailable || first == Code::kIndeterminate) << info(first).sentence;
  EXPECT_EQ(put_sealed(opened.objects, "other", 1, 100).code(), Code::kUnavailable);
  EXPECT_EQ(put_sealed(opened.objects, "other", 1, 4 * kMiB).code(), Code::kUnavailable);
  EXPECT_NE(opened.objects.trouble().what.find("given up"), std::string::npos)
      << opened.objects.trouble().to_string();
  EXPECT_EQ(node.stop(), 0);
}

// A get takes no message: the server's count of calls stands still.
TEST_P(Reading, get_asks_the_server_for_nothing) {
  Node node(with_objects("256MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  ASSERT_TRUE(put_sealed(opened.objects, "object", 7, 100'000));
  ASSERT_TRUE(opened.objects.get("object"));
  const uint64_t before = opened.client.counters().messages_sent;
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(opened.objects.get("object"));
  EXPECT_EQ(opened.client.counters().messages_sent, before);
}

// Keys know nothing of objects: the same shards, and no entry more.
TEST_P(Reading, objects_change_nothing_of_keys) {
  Node node(with_objects("256MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  EXPECT_EQ(opened.client.route().shards, GetParam().shards);
  EXPECT_EQ(opened.client.route().shards_reached, GetParam().shards);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(opened.client.put("key" + std::to_string(i), "value"));
  const auto before = opened.client.stat();
  ASSERT_TRUE(before);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(put_sealed(opened.objects, "key" + std::to_string(i), i, 5'000));
  }
  const auto after = opened.client.stat();
  ASSERT_TRUE(after);
  EXPECT_EQ(after->entries, 200U);
  EXPECT_EQ(after->bytes_live, before->bytes_live);
  EXPECT_EQ(after->bytes_total, before->bytes_total);
  EXPECT_EQ(after->writes, before->writes);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(opened.client.get("key" + std::to_string(i)).value_or(""), "value");
  }
  ASSERT_TRUE(opened.client.erase("key0"));
  EXPECT_TRUE(opened.objects.get("key0")) << "an object, not the key";
}

// A record that a client could put would be an object of its making: with memory that is others'.
TEST(ObjectShard, serves_no_method_of_keys) {
  Node node(with_objects("256MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  ASSERT_TRUE(put_sealed(opened.objects, "object", 7, 5'000));
  const auto link = ShardLink::over_shm(fabric::shm::shard_socket_path(node.socket_path(), 1));
  ASSERT_TRUE(link->is_open()) << link->refusal().to_string();
  // The shard's answers about itself, and the calls about objects.
  const auto is_served = [](uint16_t method) {
    return (method >= 0x100 && method < 0x110) || method >= object::wire::kMethodsBegin;
  };
  for (uint16_t method = 0; method < object::wire::kMethodsBegin; ++method) {
    if (is_served(method)) continue;
    const runtime::OpResult result = link->session().call_and_wait(
        {.method = method, .head = {}}, link->shard().refresh_now() + kPatience_ns);
    ASSERT_EQ(result.code, Code::kUnsupported) << method;
  }
  const auto object = opened.objects.get("object");
  ASSERT_TRUE(object);
  EXPECT_EQ(number_of(*object), 7U);
}

TEST(ObjectShard, of_a_node_without_objects_there_is_none_and_a_sentence_says_how_to_have_it) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  auto objects = client.objects();
  ASSERT_FALSE(objects);
  EXPECT_EQ(objects.error().code, Code::kUnsupported);
  EXPECT_NE(objects.error().next.find("--objects-limit"), std::string::npos) << objects.error().to_string();
}

}  // namespace
}  // namespace refract::test
