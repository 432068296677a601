// SPDX-License-Identifier: Apache-2.0
// Many values into buffers of the caller's, how many of some keys are there, and puts with a front: on every
// way, against a real node. Some 6 s.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/client/testing/test_node.h"

namespace refract::many_into_test {
namespace {

using test::needed;
using test::TestNode;
using test::value_of;

struct Way {
  std::string name;
  Paths paths = Paths::kAuto;
  bool tcp = false;
  std::string copies = "0";
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class ManyInto : public testing::TestWithParam<Way> {
 protected:
  [[nodiscard]] std::string address() const { return GetParam().tcp ? "tcp:" + node_.tcp() : node_.socket(); }

  TestNode node_{{"--listen-address", "127.0.0.1:0", "--server-shards", "2", "--kv-copies", GetParam().copies,
                  "--memory-limit", "256MiB"}};
  Client client_ = TestNode::connect_to(address(), {.paths = GetParam().paths});
};
INSTANTIATE_TEST_SUITE_P(AllWays, ManyInto,
                         testing::Values(Way{.name = "Direct"}, Way{.name = "Rpc", .paths = Paths::kRpc},
                                         Way{.name = "Tcp", .tcp = true},
                                         Way{.name = "DirectSlots", .copies = "1"},
                                         Way{.name = "ChainTcp", .paths = Paths::kChain, .tcp = true}),
                         [](const auto& way) { return way.param.name; });

constexpr std::byte kUntouched{0x5a};

// Keys of some kinds: absent ones, wrong ones, values about a message and beyond, buffers that are longer,
// exact, and too short by one.
struct Targets {
  explicit Targets(size_t count) {
    constexpr size_t kLengths[] = {0, 1, 64, 65, 4'095, 4'096, 20'000, 70'000, 1'000'000};
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(i % 23 == 22   ? ""
                     : i % 29 == 28 ? std::string(70'000, 'k')
                                    : "into " + std::to_string(i));
      const bool is_put = i % 7 != 3 && !keys[i].empty() && keys[i].size() < 100;
      values.push_back(is_put ? value_of(i, kLengths[i % std::size(kLengths)]) : "");
      is_there.push_back(is_put);
      const bool is_short = i % 5 == 4 && !values[i].empty();
      const size_t more = i % 3 == 1 ? 100 : 0;
      buffers.emplace_back(values[i].size() - (is_short ? 1 : 0) + more * (is_short ? 0 : 1), kUntouched);
    }
    for (size_t i = 0; i < count; ++i) items.push_back({.key = keys[i], .buffer = buffers[i]});
  }

  void put_all(Client& client) const {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!is_there[i]) continue;
      ASSERT_TRUE(client.put(keys[i], values[i])) << i;
    }
  }
  void expect_outcomes() const {
    for (size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE(i);
      const GetIntoItem& item = items[i];
      const std::vector<std::byte>& buffer = buffers[i];
      if (!is_there[i]) {
        EXPECT_EQ(item.result.code(), keys[i].empty()        ? Code::kInvalidArgument
                                      : keys[i].size() > 100 ? Code::kTooLarge
                                                             : Code::kNotFound);
        EXPECT_EQ(item.value_bytes, 0U);
      } else if (buffer.size() < values[i].size()) {
        EXPECT_EQ(item.result.code(), Code::kTooLarge);
        EXPECT_EQ(item.value_bytes, values[i].size());
        EXPECT_TRUE(std::ranges::all_of(buffer, [](std::byte byte) { return byte == kUntouched; }));
      } else {
        ASSERT_TRUE(item.result) << text(item.result.code());
        EXPECT_EQ(item.value_bytes, values[i].size());
        EXPECT_EQ(item.result->value_bytes, values[i].size());
        EXPECT_TRUE(std::ranges::equal(std::span(buffer).first(values[i].size()),
                                       std::as_bytes(std::span(values[i]))));
        EXPECT_TRUE(std::ranges::all_of(std::span(buffer).subspan(values[i].size()),
                                        [](std::byte byte) { return byte == kUntouched; }));
      }
    }
  }

  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<bool> is_there;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<GetIntoItem> items;
};

TEST_P(ManyInto, each_buffer_has_its_value_or_is_as_it_was_and_its_outcome_says_why) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{16}, size_t{33}, size_t{120}}) {
    Targets targets(count);
    targets.put_all(client_);
    client_.multi_get_into(targets.items);
    targets.expect_outcomes();
  }
}

TEST_P(ManyInto, the_coroutines_do_the_same) {
  Targets targets(120);
  targets.put_all(client_);
  runtime::Shard shard(system_clock());
  const auto client =
      needed(block_on(shard, AsyncClient::connect(shard, address(), {.paths = GetParam().paths})));
  block_on(shard, client->multi_get_into(targets.items));
  targets.expect_outcomes();
  std::vector<ExistsItem> looks;
  for (const std::string& key : targets.keys) looks.push_back({.key = key});
  block_on(shard, client->multi_exists(looks));
  for (size_t i = 0; i < looks.size(); ++i) EXPECT_EQ(looks[i].result.has_value(), targets.is_there[i]) << i;
  const std::vector<Bytes> prefix(targets.keys.begin(), targets.keys.end());
  EXPECT_EQ(block_on(shard, client->prefix_exists(prefix)).value(), 3U);
  const std::vector<std::byte> rest(200, std::byte{7});
  ASSERT_TRUE(block_on(shard, client->put("front", Bytes(rest), {.front = "in front"})));
  EXPECT_EQ(client_.get("front").value(), "in front" + std::string(200, 7));
}

TEST_P(ManyInto, a_prefix_ends_with_the_first_key_that_is_not_there) {
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back("prefix " + std::to_string(i));
  std::vector<PutItem> puts;
  for (const std::string& name : names) puts.push_back({.key = name, .value = "v"});
  client_.multi_put(puts);
  const std::vector<Bytes> keys(names.begin(), names.end());
  EXPECT_EQ(client_.prefix_exists({}).value(), 0U);
  EXPECT_EQ(client_.prefix_exists(keys).value(), 300U);
  for (const size_t missing :
       {size_t{299}, size_t{200}, size_t{192}, size_t{64}, size_t{63}, size_t{1}, size_t{0}}) {
    ASSERT_TRUE(client_.erase(names[missing]));
    EXPECT_EQ(client_.prefix_exists(keys).value(), missing);
  }
  std::vector<Bytes> wrong = {keys[2], Bytes(""), keys[3]};
  EXPECT_EQ(client_.prefix_exists(wrong).code(), Code::kInvalidArgument);
  wrong[0] = keys[0];
  EXPECT_EQ(client_.prefix_exists(wrong).value(), 0U)
      << "what stands behind the first that is absent does not count";
}

// Of lengths about a message, a window's step, and what a message and the front have together.
TEST_P(ManyInto, what_stands_in_front_of_a_value_is_put_with_it) {
  for (const size_t front_bytes : {size_t{1}, size_t{128}, size_t{40'000}}) {
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{7'000}, size_t{30'000}, size_t{300'000}, size_t{9'000'000}}) {
      const std::string front = value_of(1, front_bytes);
      const std::string value = value_of(2, bytes);
      const auto version = client_.put("front", value, {.front = front});
      ASSERT_TRUE(version) << text(version.code()) << front_bytes << " " << bytes;
      EXPECT_TRUE(client_.get("front").value() == front + value) << front_bytes << " " << bytes;
      EXPECT_EQ(client_.put("front", value, {.if_absent = true, .front = front}).code(), Code::kExists);
      ASSERT_TRUE(client_.put("front", value, {.if_version = *version, .front = front}));
    }
  }
  const Reservation built = needed(client_.reserve(10));
  EXPECT_EQ(client_.put("front", built, {.front = "f"}).code(), Code::kInvalidArgument);
  std::array<PutItem, 1> items = {PutItem{.key = "front", .value = "v", .options = {.front = "f"}}};
  client_.multi_put(items);
  EXPECT_EQ(items[0].result.code(), Code::kInvalidArgument);
}

// What a vector load, or an array of numbers, asks for.
TEST(AlignedValues, those_of_4_kib_and_more_start_on_a_cache_line_whatever_their_keys) {
  const TestNode node({"--memory-limit", "256MiB"});
  Client client = node.connect();
  for (size_t key_bytes = 1; key_bytes <= 130; ++key_bytes) {
    const std::string key(key_bytes, 'k');
    for (const size_t bytes : {size_t{4'096}, size_t{4'097}, size_t{5'000}, size_t{65'536}, size_t{70'001}}) {
      for (const uint64_t ttl_ns : {uint64_t{0}, uint64_t{3'600'000'000'000}}) {
        ASSERT_TRUE(client.put(key, value_of(key_bytes, bytes), {.ttl_ns = ttl_ns}));
        const View view = needed(client.view(key));
        ASSERT_FALSE(view.is_copy());
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.bytes().data()) % 64, 0U) << key_bytes << " " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace refract::many_into_test
