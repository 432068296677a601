// SPDX-License-Identifier: Apache-2.0
// A reader says what its Client says, in every configuration, whatever becomes of table, server, node and
// process.
#include "refract/client/reader.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/testing/test_node.h"

namespace refract::reader_test {
namespace {

using test::becomes_true;
using test::TestNode;
using test::value_of;

// What is in the room, or the code's name.
std::string read(Reader& reader, Bytes key) {
  std::array<std::byte, 30'000> room;
  const Result<Got> got = reader.get_into(key, room);
  if (!got) return std::string(text(got.code()));
  return std::string(Bytes(std::span<const std::byte>(room).first(got->value_bytes)).text());
}

struct Way {
  const char* name;
  std::vector<std::string> flags = {};
  bool tcp = false;
};

class ReaderTest : public testing::TestWithParam<Way> {
 protected:
  [[nodiscard]] Client connect(const ClientOptions& options = {}) const {
    return TestNode::connect_to(GetParam().tcp ? "tcp:" + node_.tcp() : node_.socket(), options);
  }
  TestNode node_{GetParam().flags};
  Client client_ = connect();
  // Of a node beyond the host that is gone a call says so when its time is over.
  const ClientOptions brief_ = {.timeout_ns = kSecond_ns};
};

TEST_P(ReaderTest, reads_what_the_client_reads) {
  Result<Reader> reader = client_.reader();
  ASSERT_TRUE(reader);
  for (const size_t key_bytes : std::initializer_list<size_t>{1, 7, 8, 16, 17, 40, 3'000}) {
    const std::string key(key_bytes, 'k');
    for (const size_t bytes : std::initializer_list<size_t>{0, 1, 63, 64, 65, 4'095, 4'096, 20'000}) {
      const auto version = client_.put(key, value_of(bytes, bytes));
      ASSERT_TRUE(version);
      EXPECT_EQ(read(*reader, key), value_of(bytes, bytes));
      const Result<Got> found = reader->exists(key);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->version, *version);
      EXPECT_EQ(found->value_bytes, bytes);
    }
    ASSERT_TRUE(client_.erase(key));
    EXPECT_EQ(read(*reader, key), "not_found");
    EXPECT_EQ(reader->exists(key).code(), Code::kNotFound);
  }
  EXPECT_EQ(reader->get_into("", {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(reader->exists("").code(), Code::kInvalidArgument);
  const std::string too_long(70'000, 'k');
  EXPECT_EQ(reader->get_into(too_long, {}).code(), Code::kTooLarge);
  EXPECT_EQ(reader->exists(too_long).code(), Code::kTooLarge);

  ASSERT_TRUE(client_.put("into", "0123456789"));
  std::array<std::byte, 10> room;
  EXPECT_EQ(reader->get_into("into", std::span(room).first(9)).code(), Code::kTooLarge);
  EXPECT_EQ(reader->get_into("into", room)->value_bytes, 10U);
  ASSERT_TRUE(client_.put("nothing", ""));
  EXPECT_EQ(reader->get_into("nothing", {})->value_bytes, 0U);

  const PutOptions expiring{.ttl_ns = 3'600 * kSecond_ns};
  ASSERT_TRUE(client_.put("expiring", "soon", expiring));
  EXPECT_GT(reader->get_into("expiring", room)->expires_wall_ns, 0U);
  EXPECT_GT(reader->exists("expiring")->expires_wall_ns, 0U);
}

TEST_P(ReaderTest, finds_everything_while_the_table_grows) {
  Result<Reader> reader = client_.reader();
  ASSERT_TRUE(reader);
  for (size_t i = 0; i < 3'000; ++i) {
    const std::string key = "growing " + std::to_string(i);
    ASSERT_TRUE(client_.put(key, key));
    ASSERT_EQ(read(*reader, key), key);
    const std::string earlier = "growing " + std::to_string(i / 2);
    ASSERT_EQ(read(*reader, earlier), earlier);
  }
}

TEST_P(ReaderTest, every_thread_has_its_own) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client_.put("key " + std::to_string(i), value_of(1, 50)));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      Result<Reader> reader = client_.reader();
      for (int i = 0; i < 2'000; ++i) {
        wrong += reader && read(*reader, "key " + std::to_string(i % 100)) == value_of(1, 50) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ReaderTest, a_node_that_dies_is_noticed_and_the_next_one_is_read) {
  ASSERT_TRUE(client_.put("key", "value"));
  Client client = connect(brief_);
  Result<Reader> reader = client.reader();
  ASSERT_TRUE(reader);
  ASSERT_TRUE(becomes_true([&] { return read(*reader, "key") == "value"; }));
  node_.end(SIGKILL);
  EXPECT_TRUE(becomes_true([&] { return read(*reader, "key") == "unavailable"; }));
  if (GetParam().tcp) return;  // The next one listens elsewhere.
  node_.start();
  EXPECT_TRUE(becomes_true([&] { return read(*reader, "key") == "not_found"; }));
  ASSERT_TRUE(client.put("key", "new"));
  EXPECT_EQ(read(*reader, "key"), "new");
}

TEST_P(ReaderTest, a_node_that_stops_in_good_order_is_noticed_within_256_reads) {
  ASSERT_TRUE(client_.put("key", "value"));
  Client client = connect(brief_);
  Result<Reader> reader = client.reader();
  ASSERT_TRUE(reader);
  ASSERT_TRUE(becomes_true([&] { return read(*reader, "key") == "value"; }));
  node_.end(SIGTERM);
  int served = 0;
  while (served <= 256 && reader->exists("key")) ++served;
  EXPECT_LE(served, 256);
  EXPECT_EQ(reader->exists("key").code(), Code::kUnavailable);
}

TEST_P(ReaderTest, a_child_has_none) {
  ASSERT_TRUE(client_.put("key", "value"));
  Result<Reader> reader = client_.reader();
  ASSERT_TRUE(reader);
  EXPECT_EQ(read(*reader, "key"), "value");
  test::Process child = test::Process::run([&] {
    int wrong = 0;
    wrong += read(*reader, "key") != "forked";
    wrong += reader->exists("key").code() != Code::kForked;
    wrong += client_.reader().code() != Code::kForked;
    return wrong;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(read(*reader, "key"), "value");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ReaderTest,
    testing::Values(Way{.name = "Direct"}, Way{.name = "DirectShards", .flags = {"--server-shards", "3"}},
                    Way{.name = "DirectSlots", .flags = {"--server-shards", "3", "--kv-copies", "1"}},
                    Way{.name = "Tcp", .flags = {"--listen-address", "127.0.0.1:0"}, .tcp = true}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(ReaderCounts, its_reads_are_counted_and_send_nothing) {
  const TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value"));
  Result<Reader> reader = client.reader();
  ASSERT_TRUE(reader);
  const ClientCounters before = client.counters();
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(read(*reader, "key"), "value");
    ASSERT_TRUE(reader->exists("key"));
    ASSERT_EQ(read(*reader, "none"), "not_found");
    ASSERT_TRUE(client.exists("key"));
  }
  EXPECT_EQ(client.counters().messages_sent, before.messages_sent);
  EXPECT_EQ(client.counters().direct_reads, before.direct_reads + 4'000);
}

}  // namespace
}  // namespace refract::reader_test
