// SPDX-License-Identifier: Apache-2.0
// A node as a cache: it takes whatever is put, keeps what is read, by whichever way, and says what it gave
// up.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/process/node_process.h"

#include "refract/base/testing/needed.h"
#include "refract/client/reader.h"

namespace refract::test {
namespace {

NodeOptions cache(const std::string& policy, std::vector<std::string> further = {}) {
  NodeOptions options{
      .arguments = {"--memory-eviction", policy, "--memory-limit", "24MiB", "--memory-initial", "16MiB"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return options;
}

std::string nth_key(const std::string& prefix, uint64_t n) {
  return prefix + std::to_string(n);
}

constexpr uint64_t kHot = 200;
constexpr uint64_t kPuts = 6'000;

// Puts far more than fits, while the first of all are read again and again.
template <typename Read>
void put_many_and_read_some(Client& writer, Read read, size_t hot_bytes = 8'000) {
  const std::string hot(hot_bytes, 'h');
  const std::string value(8'000, 'v');
  for (uint64_t n = 0; n < kHot; ++n) ASSERT_TRUE(writer.put(nth_key("hot", n), hot));
  for (uint64_t n = 0; n < kPuts; ++n) {
    ASSERT_TRUE(writer.put(nth_key("key", n), value)) << n;
    for (uint64_t i = 0; i < 4; ++i) read(nth_key("hot", (n * 4 + i) % kHot));
  }
}
void put_many_and_read_some(Client& writer, Client& reader) {
  put_many_and_read_some(writer, [&](const std::string& key) { (void)reader.get(key); });
}

uint64_t hot_ones_left(Client& client) {
  uint64_t left = 0;
  for (uint64_t n = 0; n < kHot; ++n) left += client.get(nth_key("hot", n)) ? 1 : 0;
  return left;
}

class EvictingNode : public testing::TestWithParam<const char*> {};

// Direct reads send no message: without their samples none of these keys would outlive the puts.
TEST_P(EvictingNode, keeps_what_is_read_directly) {
  Node node(cache(GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client writer = node.connect();
  Client reader = node.connect();
  ASSERT_TRUE(reader.route().direct);
  put_many_and_read_some(writer, reader);
  EXPECT_GE(reader.counters().direct_reads, 3 * kPuts);
  EXPECT_GE(hot_ones_left(reader), kHot * 95 / 100);
  const NodeStat stat = needed(writer.stat());
  EXPECT_LT(stat.entries, kPuts * 3 / 4);
  EXPECT_LE(stat.bytes_total, uint64_t{24} << 20);
}

// Values that the reader of a thread reads by its own short way.
TEST_P(EvictingNode, keeps_what_the_reader_of_a_thread_reads) {
  Node node(cache(GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client writer = node.connect();
  Client client = node.connect();
  Result<Reader> reader = client.reader();
  ASSERT_TRUE(reader);
  std::array<std::byte, 4'000> room;
  put_many_and_read_some(
      writer, [&](const std::string& key) { (void)reader->get_into(key, room); }, room.size());
  EXPECT_GE(client.counters().direct_reads, 3 * kPuts);
  EXPECT_GE(hot_ones_left(client), kHot * 95 / 100);
}

TEST_P(EvictingNode, keeps_what_is_read_by_calls_over_tcp) {
  Node node(cache(GetParam(), {"--listen-address", "127.0.0.1:0"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client writer = node.connect_tcp();
  Client reader = node.connect_tcp();
  const std::string value(10'000, 'v');
  for (uint64_t n = 0; n < kHot; ++n) ASSERT_TRUE(writer.put(nth_key("hot", n), value));
  for (uint64_t n = 0; n < 5'000; ++n) {
    ASSERT_TRUE(writer.put(nth_key("key", n), value)) << n;
    for (uint64_t i = 0; i < 2; ++i) (void)reader.get(nth_key("hot", (n * 2 + i) % kHot));
  }
  EXPECT_GE(hot_ones_left(reader), kHot * 90 / 100);
  ASSERT_TRUE(writer.put("large", std::string(3 << 20, 'l')));
  EXPECT_EQ(reader.get("large").value().size(), size_t{3} << 20);
}

INSTANTIATE_TEST_SUITE_P(Policies, EvictingNode, testing::Values("lru", "lfu"));

TEST(Eviction, spares_what_a_client_is_looking_at) {
  Node node(cache("lru"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client writer = node.connect();
  Client holder = node.connect();
  const std::string value(8'000, 'h');
  std::vector<View> views;
  for (uint64_t n = 0; n < 100; ++n) {
    ASSERT_TRUE(writer.put(nth_key("held", n), value));
    Result<View> view = holder.view(nth_key("held", n));
    ASSERT_TRUE(view.has_value());
    views.push_back(std::move(*view));
  }
  for (uint64_t n = 0; n < kPuts; ++n) ASSERT_TRUE(writer.put(nth_key("key", n), std::string(8'000, 'k')));
  for (uint64_t n = 0; n < views.size(); ++n) {
    ASSERT_EQ(Bytes(views[n].bytes()).text(), value) << n;
    ASSERT_TRUE(writer.get(nth_key("held", n)).has_value()) << n;
  }
}

// What has gone stays so after the death of everything; what was put last is there.
TEST(Eviction, of_a_durable_node_is_in_its_log) {
  TemporaryFolder folder;
  const NodeOptions options =
      cache("lru", {"--data-durability", "everysec", "--data-folder", folder.path() + "/data"});
  std::vector<bool> there;
  {
    Node node(options);
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    for (uint64_t n = 0; n < kPuts; ++n)
      ASSERT_TRUE(client.put(nth_key("key", n), std::string(8'000, 'k'))) << n;
    for (uint64_t n = 0; n < kPuts; ++n) there.push_back(client.exists(nth_key("key", n)).has_value());
    EXPECT_EQ(node.stop(), 0);
  }
  Node node(options);
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  uint64_t back = 0;
  uint64_t lost = 0;
  for (uint64_t n = 0; n < kPuts; ++n) {
    const bool is_there = client.exists(nth_key("key", n)).has_value();
    back += is_there && !there[n] ? 1 : 0;
    lost += !is_there && there[n] ? 1 : 0;
  }
  EXPECT_EQ(back, 0u);
  // Chunks are filled in another order, so that some may find no room at once.
  EXPECT_LT(lost, kPuts / 50);
  EXPECT_TRUE(client.put("more", std::string(8'000, 'm')));
}

// A restore of more than fits leaves out what does not, and the node serves.
TEST(Eviction, a_node_with_less_memory_than_its_data_starts_as_a_cache) {
  TemporaryFolder folder;
  const std::vector<std::string> data = {"--data-durability", "everysec", "--data-folder",
                                         folder.path() + "/data"};
  {
    NodeOptions roomy{.arguments = {"--memory-limit", "200MiB", "--memory-initial", "16MiB"}};
    roomy.arguments.insert(roomy.arguments.end(), data.begin(), data.end());
    Node node(roomy);
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    for (uint64_t n = 0; n < kPuts; ++n)
      ASSERT_TRUE(client.put(nth_key("key", n), std::string(8'000, 'k'))) << n;
    EXPECT_EQ(node.stop(), 0);
  }
  Node node(cache("lru", data));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  const NodeStat stat = needed(client.stat());
  EXPECT_GT(stat.entries, 1'000u);
  EXPECT_LT(stat.entries, kPuts * 3 / 4);
  EXPECT_TRUE(client.put("more", std::string(8'000, 'm')));
}

}  // namespace
}  // namespace refract::test
