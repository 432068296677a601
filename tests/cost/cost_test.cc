// SPDX-License-Identifier: Apache-2.0
// A change that makes a hot path longer fails here, whatever the machine and its neighbours do: each
// operation has the number of instructions that it took when it was last looked at. A tenth more is another
// compiler's taste; a quarter less needs a new figure, for the old one would guard nothing.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/cost/expect_cost.h"
#include "tests/cost/ring_calls.h"
#include "tests/process/node_process.h"

#include "refract/client/reader.h"
#include "refract/kv/testing/test_space.h"
#include "refract/prism/snic/cost/hot_chains.h"

namespace refract::test::cost_test {
namespace {

using kv::test::bytes_of;

const std::string kKey = "user:0000000042!";  // 16 bytes.
const std::string kValue(64, 'v');

// Clients of a node over shared memory. The server is not waited for: what it does is no part of the count.
class ClientCost : public testing::Test {
 protected:
  explicit ClientCost(NodeOptions options = {}) : node_(std::move(options)) {}
  void SetUp() override {
    ASSERT_TRUE(node_.is_up()) << node_.errors();
    Client client = node_.connect();
    ASSERT_TRUE(client.put(kKey, kValue));
  }
  template <typename Operation>
  std::function<Operations()> with_client(Operation operation) {
    return [this, operation] {
      const auto client = std::make_shared<Client>(node_.connect());
      return repeated([client, operation] { return operation(*client); });
    };
  }
  Node node_;
};

class ShardedCost : public ClientCost {
 protected:
  ShardedCost() : ClientCost({.arguments = {"--server-shards", "2"}}) {}
};

TEST_F(ClientCost, a_get_of_64_bytes_is_no_longer_than_it_was) {
  expect_cost({"get", 194, with_client([](Client& client) {
                 std::array<std::byte, 64> value;
                 const auto got = client.get_into(kKey, value);
                 return got && got->value_bytes == 64;
               })});
}

TEST_F(ClientCost, nor_is_one_by_the_reader_of_a_thread) {
  expect_cost({"get, inline", 144, [this] {
                 struct Held {
                   Client client;
                   Result<Reader> reader;
                 };
                 const auto held = std::make_shared<Held>(Held{node_.connect(), fail(Code::kForked)});
                 held->reader = held->client.reader();
                 return repeated([held] {
                   std::array<std::byte, 64> value;
                   const auto got = held->reader->get_into(kKey, value);
                   return got && got->value_bytes == 64;
                 });
               }});
}

TEST_F(ClientCost, nor_is_one_of_a_key_that_is_not_there) {
  expect_cost({"get of nothing", 402, with_client([](Client& client) {
                 std::array<std::byte, 64> value;
                 return client.get_into("user:not there.", value).code() == Code::kNotFound;
               })});
}

TEST_F(ClientCost, nor_is_a_view_that_is_given_back) {
  expect_cost({"view", 192, with_client([](Client& client) {
                 const auto view = client.view(kKey);
                 return view && view->bytes().size() == 64;
               })});
}

TEST_F(ClientCost, nor_is_a_view_that_holds_a_pin) {
  ASSERT_TRUE(node_.connect().put("long", std::string(200, 'v')));
  expect_cost({"view of 200 bytes", 376, with_client([](Client& client) {
                 const auto view = client.view("long");
                 return view && view->bytes().size() == 200 && !view->is_copy();
               })});
}

TEST_F(ClientCost, nor_is_a_view_of_a_long_value) {
  ASSERT_TRUE(node_.connect().put("long", std::string(8 * 1024, 'v')));
  expect_cost({"view of 8 KiB", 624, with_client([](Client& client) {
                 const auto view = client.view("long");
                 return view && view->bytes().size() == 8 * 1024 && !view->is_copy();
               })});
}

// All of one key: of several, two may share a bucket and a fingerprint, which costs one of them a longer way.
TEST_F(ClientCost, nor_are_sixteen_in_a_call) {
  const auto items = std::make_shared<std::vector<GetItem>>();
  for (int i = 0; i < 16; ++i) items->push_back({.key = kKey});
  expect_cost({"multi_get of 16", 3'330, with_client([items](Client& client) {
                 client.multi_get(*items);
                 return items->front().result && items->back().value.size() == 64;
               })});
}

TEST_F(ShardedCost, a_get_from_one_of_two_shards_is_hardly_longer) {
  expect_cost({"get from a shard", 275, with_client([](Client& client) {
                 std::array<std::byte, 64> value;
                 const auto got = client.get_into(kKey, value);
                 return got && got->value_bytes == 64;
               })});
}

TEST_F(ShardedCost, nor_is_a_look_whether_a_key_is_there) {
  expect_cost({"exists in a shard", 242, with_client([](Client& client) {
                 const auto got = client.exists(kKey);
                 return got && got->value_bytes == 64;
               })});
}

// The owner's part, which is what a server does between taking a request and answering it.
std::function<Operations()> on_table(std::function<bool(kv::test::Space&)> operation) {
  return [operation = std::move(operation)] {
    const auto space = std::make_shared<kv::test::Space>();
    (void)space->table().put(bytes_of(kKey), bytes_of(kValue), {}).has_value();
    return repeated([space, operation] { return operation(*space); });
  };
}

TEST(TableCost, a_put_is_no_longer_than_it_was) {
  expect_cost({"put", 615, on_table([](kv::test::Space& space) {
                 const bool done = space.table().put(bytes_of(kKey), bytes_of(kValue), {}).has_value();
                 space.heap().reclaim();
                 return done;
               })});
}

TEST(TableCost, nor_are_an_erasure_and_a_put) {
  expect_cost({"erase and put", 1'131, on_table([](kv::test::Space& space) {
                 const bool erased = space.table().erase(bytes_of(kKey), 0).has_value();
                 const bool done = space.table().put(bytes_of(kKey), bytes_of(kValue), {}).has_value();
                 space.heap().reclaim();
                 return erased && done;
               })});
}

TEST(TableCost, nor_is_an_owner_s_look) {
  expect_cost({"find", 251, on_table([](kv::test::Space& space) {
                 return space.table().find(bytes_of(kKey)).has_value();
               })});
}

// Both ends of a call over shared memory, from the caller's task to its result: codec, rings, session,
// server, service, table.
std::function<Operations()> by_call(std::function<bool(RingCalls&)> operation) {
  return [operation = std::move(operation)] {
    const auto calls = std::make_shared<RingCalls>();
    (void)calls->wait(calls->client().put(bytes_of(kKey), bytes_of(kValue))).has_value();
    return repeated([calls, operation] { return operation(*calls); });
  };
}

TEST(CallCost, a_put_at_both_ends_is_no_longer_than_it_was) {
  expect_cost({"put, both ends", 4'320, by_call([](RingCalls& calls) {
                 return calls.wait(calls.client().put(bytes_of(kKey), bytes_of(kValue))).has_value();
               })});
}

TEST(CallCost, nor_is_a_get) {
  const auto value = std::make_shared<std::string>();
  expect_cost({"get, both ends", 4'624, by_call([value](RingCalls& calls) {
                 kv::StringSink sink(*value);
                 return calls.wait(calls.client().get(bytes_of(kKey), sink)).has_value() && *value == kValue;
               })});
}

TEST(CallCost, nor_are_sixteen_gets_in_a_call) {
  const auto value = std::make_shared<std::string>();
  const auto sink = std::make_shared<kv::StringSink>(*value);
  expect_cost({"16 gets, both ends", 11'032, by_call([value, sink](RingCalls& calls) {
                 std::array<kv::RpcClient::GetItem, 16> items;
                 for (auto& item : items) item = {.key = bytes_of(kKey), .sink = sink.get()};
                 calls.wait(calls.client().multi_get(items));
                 return items.front().result && items.back().result && *value == kValue;
               })});
}

TEST(CallCost, nor_are_sixteen_puts_in_a_call) {
  expect_cost({"16 puts, both ends", 18'931, by_call([](RingCalls& calls) {
                 std::array<kv::RpcClient::PutItem, 16> items;
                 for (auto& item : items)
                   item = {.key = bytes_of(kKey), .value = bytes_of(kValue), .options = {}};
                 calls.wait(calls.client().multi_put(items));
                 return items.front().result && items.back().result;
               })});
}

// What a chain costs the executor: its message decoded, checked, run, its reply written.
std::function<Operations()> of_chain(bool puts, prism::ChainForm form = prism::ChainForm::kPlain) {
  return [puts, form] {
    const auto hot = std::make_shared<prism::snic::HotChains>(form);
    const std::span<const std::byte> message = puts ? hot->put_message() : hot->get_message();
    return repeated([hot, message] { return hot->run(message) > 0 && hot->counts().failed_operations == 0; });
  };
}

TEST(PrismCost, a_chain_that_reads_is_no_longer_than_it_was) {
  expect_cost({"chain that reads", 476, of_chain(false)});
  expect_cost({"the same, dense", 582, of_chain(false, prism::ChainForm::kDense)});
}

TEST(PrismCost, nor_is_one_that_puts) {
  expect_cost({"chain that puts", 1'661, of_chain(true)});
  expect_cost({"the same, dense", 1'844, of_chain(true, prism::ChainForm::kDense)});
}

}  // namespace
}  // namespace refract::test::cost_test
