// SPDX-License-Identifier: Apache-2.0
// Large values by one-sided requests: how many round trips they take, that they fill a path with delay, and
// that what ends early leaves no window and no doubt. On the simulated network where time matters, else over
// loopback.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refract/kv/testing/test_service.h"
#include "refract/kv/testing/test_sim_service.h"

namespace refract::kv {
namespace {

using runtime::Task;
using test::bytes_of;
using test::patterned;
using wire::Method;

constexpr uint64_t kDelay_ns = 5 * kMillisecond_ns;  // One way.
constexpr uint32_t kOneSidedBytes = 16 * 1024;

// A long path of 1 GB/s on which nothing else happens.
sim::WorldOptions long_path() {
  sim::WorldOptions options;
  options.one_sided_bytes_min = kOneSidedBytes;
  options.short_post_chance = 0;
  options.link = {.delay_ns = kDelay_ns,
                  .jitter_ns = 0,
                  .tail_chance = 0,
                  .tail_ns = 0,
                  .bytes_per_us = 1'000,
                  .torn_chance = 0};
  return options;
}

class LongPath : public testing::Test {
 protected:
  using Work = std::function<Task<>(RpcClient&)>;

  // Runs `work` with a connected client and returns how long it took.
  uint64_t time_ns(const Work& work) {
    uint64_t taken_ns = 0;
    bool done = false;
    const auto run = [](LongPath& test, const Work& body, uint64_t& result, bool& ended) -> Task<> {
      RpcClient* opened = co_await test.client.connected();
      const uint64_t from_ns = test.world.now_ns();
      co_await body(*opened);
      result = test.world.now_ns() - from_ns;
      ended = true;
    };
    world.spawn(client_host, run(*this, work, taken_ns, done));
    EXPECT_TRUE(world.run_until([&] { return done; }));
    return taken_ns;
  }

  sim::World world{long_path()};
  test::SimNode node{world, 200};
  sim::Host& client_host = world.add_host("client");
  test::SimClient client{client_host};
};

Task<> put_one(RpcClient& client, std::string_view key, std::string_view value) {
  const Result<uint64_t> version = co_await client.put(bytes_of(key), bytes_of(value));
  EXPECT_TRUE(version.has_value()) << text(version.code());
}

Task<> get_one(RpcClient& client, std::string_view key, std::string_view wanted) {
  std::string value;
  StringSink sink(value);
  const Result<Got> got = co_await client.get(bytes_of(key), sink);
  EXPECT_TRUE(got.has_value()) << text(got.code());
  EXPECT_TRUE(value == wanted);
}

Task<> get_too_late(RpcClient& client, uint64_t deadline_ns) {
  std::string value;
  StringSink sink(value);
  const Result<Got> late = co_await client.get(bytes_of("key"), sink, deadline_ns);
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
}

TEST_F(LongPath, a_large_value_takes_two_round_trips_each_way) {
  const std::string value = patterned(4 * kMiB);
  const uint64_t on_the_wire_ns = value.size();  // A byte takes a nanosecond.
  const uint64_t put_ns = time_ns([&](RpcClient& by) { return put_one(by, "key", value); });
  const uint64_t get_ns = time_ns([&](RpcClient& by) { return get_one(by, "key", value); });
  EXPECT_GE(put_ns, 4 * kDelay_ns);
  EXPECT_LT(put_ns, 4 * kDelay_ns + on_the_wire_ns + kMillisecond_ns);
  EXPECT_LT(get_ns, 4 * kDelay_ns + on_the_wire_ns + kMillisecond_ns);
  EXPECT_EQ(node.process->service.stat().uploads, 0u);
}

TEST_F(LongPath, a_value_of_many_windows_steps_fills_the_path) {
  const std::string value = patterned(64 * kMiB + 5);
  const uint64_t put_ns = time_ns([&](RpcClient& by) { return put_one(by, "key", value); });
  EXPECT_LT(put_ns, 4 * kDelay_ns + value.size() * 105 / 100);
  (void)time_ns([&](RpcClient& by) { return get_one(by, "key", value); });
}

TEST_F(LongPath, many_large_values_at_once_fill_the_path) {
  constexpr size_t kCount = 32;
  std::vector<std::string> keys;
  for (size_t i = 0; i < kCount; ++i) keys.push_back("key" + std::to_string(i));
  const std::string value = patterned(4 * kMiB);
  const uint64_t bytes = kCount * value.size();
  std::vector<RpcClient::PutItem> puts;
  for (const std::string& key : keys) {
    puts.push_back({.key = bytes_of(key), .value = bytes_of(value), .options = {}});
  }
  const uint64_t put_ns = time_ns([&](RpcClient& by) { return by.multi_put(puts); });
  for (const RpcClient::PutItem& put : puts) EXPECT_TRUE(put.result.has_value());
  // Two round trips before the first byte of the first value counts, then 0.85 of a byte a nanosecond.
  EXPECT_LT(put_ns, 4 * kDelay_ns + bytes * 100 / 85);

  std::vector<std::string> values(kCount);
  std::vector<std::unique_ptr<StringSink>> sinks;
  std::vector<RpcClient::GetItem> gets;
  for (size_t i = 0; i < kCount; ++i) {
    sinks.push_back(std::make_unique<StringSink>(values[i]));
    gets.push_back({.key = bytes_of(keys[i]), .sink = sinks.back().get()});
  }
  const uint64_t get_ns = time_ns([&](RpcClient& by) { return by.multi_get(gets); });
  for (const std::string& got : values) EXPECT_TRUE(got == value);
  EXPECT_LT(get_ns, 4 * kDelay_ns + bytes * 100 / 85);
}

// A READ that is under way when its get gives up would land in memory that is the caller's again.
TEST_F(LongPath, a_get_that_runs_out_of_time_under_a_read_ends_its_session) {
  const std::string value = patterned(kMiB);
  (void)time_ns([&](RpcClient& by) { return put_one(by, "key", value); });
  (void)time_ns([&](RpcClient& by) { return get_too_late(by, world.now_ns() + 3 * kDelay_ns); });
  ASSERT_TRUE(world.run_for(4 * kDelay_ns));
  EXPECT_EQ(client.session()->state(), rpc::Session::State::kClosed);
  // And the next one has a new session.
  (void)time_ns([&](RpcClient& by) { return get_one(by, "key", value); });
  ASSERT_TRUE(world.run_for(4 * kDelay_ns));
  EXPECT_EQ(node.process->service.stat().views, 0u);
}

TEST_F(LongPath, a_get_that_runs_out_of_time_before_its_read_leaves_the_session_open) {
  (void)time_ns([&](RpcClient& by) { return get_too_late(by, world.now_ns() + kDelay_ns); });
  EXPECT_EQ(client.session()->state(), rpc::Session::State::kOpen);
}

// Torn requests, short posts and long tails: what is got is one of the values that were put.
TEST(Windows, concurrent_puts_and_gets_of_large_values_see_whole_values) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    sim::WorldOptions options{.seed = seed, .one_sided_bytes_min = kOneSidedBytes, .short_post_chance = 0.2};
    options.link.torn_chance = 1;
    sim::World world(options);
    test::SimNode node(world, 64, seed);
    std::vector<std::unique_ptr<test::SimClient>> clients;
    const std::vector<std::string> values = {patterned(100'000, 1), patterned(200'000, 2),
                                             patterned(150'000, 3)};
    int gets = 0;
    const auto work = [](test::SimClient& connection, const std::vector<std::string>& all, uint64_t turn,
                         int& seen) -> Task<> {
      RpcClient* client = co_await connection.connected();
      for (uint64_t i = 0; i < 8; ++i) {
        const Result<uint64_t> version =
            co_await client->put(bytes_of("key"), bytes_of(all[(turn + i) % all.size()]));
        EXPECT_TRUE(version.has_value());
        std::string value;
        StringSink sink(value);
        const Result<Got> got = co_await client->get(bytes_of("key"), sink);
        EXPECT_TRUE(got.has_value());
        EXPECT_TRUE(std::ranges::find(all, value) != all.end());
        ++seen;
      }
    };
    for (uint64_t i = 0; i < 3; ++i) {
      sim::Host& host = world.add_host("client" + std::to_string(i));
      clients.push_back(std::make_unique<test::SimClient>(host));
      world.spawn(host, work(*clients.back(), values, i, gets));
    }
    ASSERT_TRUE(world.run_until_idle());
    EXPECT_EQ(gets, 24) << seed;
    EXPECT_FALSE(node.process->table.validate().has_value());
    EXPECT_EQ(node.process->windows.open_count(), 0u) << seed;
  }
}

class WindowTest : public testing::Test {
 protected:
  struct Begun {
    wire::Handle upload{};
    wire::WindowReply window{};
  };
  Begun begin(std::string_view key, uint32_t value_bytes) {
    wire::PutRequest request{};
    request.key = {.key_bytes = static_cast<uint16_t>(key.size()),
                   .staged = 0,
                   .flags = wire::KeyRef::kWantsWindow,
                   .value_bytes = value_bytes};
    std::string body(reinterpret_cast<const char*>(&request), sizeof(request));
    std::string reply;
    EXPECT_EQ(served.call(peer, Method::kPutBegin, bytes_of(body.append(key)), &reply), Code::kOk);
    Begun begun;
    EXPECT_EQ(reply.size(), sizeof(begun));
    if (reply.size() == sizeof(begun)) std::memcpy(&begun, reply.data(), sizeof(begun));
    return begun;
  }
  Code end(Method method, wire::Handle upload) {
    return served.call(peer, method, std::as_bytes(std::span(&upload, 1)));
  }
  // What a WRITE of the value's bytes from `offset` on comes to.
  Code write(const wire::WindowReply& window, uint64_t offset, std::string bytes) {
    runtime::Pending operation = served.shard.ops().begin(kForever_ns);
    const RemotePointer first{window.address};
    const fabric::Request request = {
        .token = operation.token(),
        .local = {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()},
        .remote = {.address = RemotePointer::at(first.region(), first.offset() + offset),
                   .key = {window.key}},
        .op = fabric::Op::kWrite};
    EXPECT_EQ(peer.session->channel()->post({&request, 1}), 1u);
    const auto wait = [](runtime::Pending& one) -> Task<Code> {
      const runtime::OpResult result = co_await one;
      co_return result.code;
    };
    return served.wait(wait(operation));
  }

  test::Served served{{.link = {.depth = 32, .message_bytes_max = 2048, .one_sided_bytes_min = 4096}}};
  test::Served::Peer peer = served.connect();
};

TEST_F(WindowTest, a_window_is_open_exactly_as_long_as_its_upload) {
  const std::string value = patterned(10'000);
  for (const Method ending : {Method::kPutCommit, Method::kPutAbandon}) {
    const Begun begun = begin("key", 10'000);
    ASSERT_NE(begun.window.key, 0u);
    EXPECT_EQ(served.windows.open_count(), 1u);
    EXPECT_EQ(write(begun.window, 0, value), Code::kOk);
    EXPECT_EQ(write(begun.window, 1, value), Code::kAccessDenied) << "beyond its end";
    EXPECT_EQ(end(ending, begun.upload), Code::kOk);
    EXPECT_EQ(served.windows.open_count(), 0u);
    EXPECT_EQ(write(begun.window, 0, patterned(10, 7)), Code::kAccessDenied);
  }
  std::string got;
  StringSink sink(got);
  ASSERT_TRUE(peer.client->get_and_wait(bytes_of("key"), sink).has_value());
  EXPECT_TRUE(got == value);
}

TEST_F(WindowTest, a_commit_before_all_bytes_were_written_publishes_nothing) {
  const std::string value = patterned(10'000);
  for (const size_t written : {size_t{0}, size_t{5'000}, size_t{9'999}}) {
    const Begun begun = begin("key", 10'000);
    if (written > 0) {
      EXPECT_EQ(write(begun.window, 0, value.substr(0, written)), Code::kOk);
    }
    EXPECT_EQ(end(Method::kPutCommit, begun.upload), Code::kInvalidArgument) << written;
    EXPECT_EQ(end(Method::kPutCommit, begun.upload), Code::kInvalidated) << "the upload is gone";
    EXPECT_EQ(served.service.stat().uploads, 0u);
    EXPECT_EQ(served.windows.open_count(), 0u);
    std::string got;
    StringSink sink(got);
    EXPECT_EQ(peer.client->get_and_wait(bytes_of("key"), sink).code(), Code::kNotFound);
  }
  const Begun begun = begin("key", 10'000);
  EXPECT_EQ(write(begun.window, 6'000, value.substr(6'000)), Code::kOk);
  EXPECT_EQ(write(begun.window, 0, value.substr(0, 6'000)), Code::kOk);
  EXPECT_EQ(end(Method::kPutCommit, begun.upload), Code::kOk);
}

TEST_F(WindowTest, pieces_and_windows_do_not_mix) {
  const Begun begun = begin("key", 10'000);
  const wire::PutPieceRequest piece{.upload = begun.upload.id, .offset = 0};
  std::string body(reinterpret_cast<const char*>(&piece), sizeof(piece));
  EXPECT_EQ(served.call(peer, Method::kPutPiece, bytes_of(body.append("bytes"))), Code::kInvalidArgument);
}

TEST_F(WindowTest, a_small_upload_gets_no_window_and_pieces_do) {
  const Begun begun = begin("key", 100);
  EXPECT_EQ(begun.window.key, 0u);
  EXPECT_EQ(begun.window.address, 0u);
  const wire::PutPieceRequest piece{.upload = begun.upload.id, .offset = 0};
  std::string body(reinterpret_cast<const char*>(&piece), sizeof(piece));
  EXPECT_EQ(served.call(peer, Method::kPutPiece, bytes_of(body + patterned(100))), Code::kOk);
  EXPECT_EQ(end(Method::kPutCommit, begun.upload), Code::kOk);
}

TEST_F(WindowTest, windows_end_with_their_session_and_with_its_patience) {
  const Begun forgotten = begin("forgotten", 2 << 20);
  served.space.clock().advance_ns(31 * kSecond_ns);
  for (size_t i = 1; i < wire::kUploadsPerSession; ++i) (void)begin("key", 10'000);
  EXPECT_EQ(served.windows.open_count(), wire::kUploadsPerSession);
  EXPECT_EQ(write(forgotten.window, 0, "x"), Code::kOk) << "it has a second a MiB more than others";
  served.space.clock().advance_ns(kSecond_ns);
  (void)begin("key", 10'000);
  EXPECT_EQ(served.windows.open_count(), wire::kUploadsPerSession);
  EXPECT_EQ(write(forgotten.window, 0, "x"), Code::kAccessDenied);
  peer = {};
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 0; }));
  EXPECT_EQ(served.windows.open_count(), 0u);
}

TEST_F(WindowTest, a_session_holds_no_more_than_its_share_of_bytes_unless_it_is_one_upload) {
  constexpr uint32_t kHalf = wire::kOpenBytesPerSession / 2;
  test::Served roomy({.chunks = 200, .chunks_max = 200});
  test::Served::Peer other = roomy.connect();
  const auto begin_in = [&](uint32_t value_bytes) {
    wire::PutRequest request{};
    request.key = {.key_bytes = 1, .staged = 0, .flags = 0, .value_bytes = value_bytes};
    const std::string body(reinterpret_cast<const char*>(&request), sizeof(request));
    std::string reply;
    const Code code = roomy.call(other, Method::kPutBegin, bytes_of(body + "k"), &reply);
    wire::Handle upload{};
    if (reply.size() == sizeof(upload)) std::memcpy(&upload, reply.data(), sizeof(upload));
    return std::pair(code, upload);
  };
  const auto [code, upload] = begin_in(kHalf * 3);
  EXPECT_EQ(code, Code::kOk) << "one alone may be larger";
  EXPECT_EQ(begin_in(1).first, Code::kOverloaded);
  EXPECT_EQ(roomy.call(other, Method::kPutAbandon, std::as_bytes(std::span(&upload, 1))), Code::kOk);
  EXPECT_EQ(begin_in(kHalf).first, Code::kOk);
  EXPECT_EQ(begin_in(kHalf).first, Code::kOk);
  EXPECT_EQ(begin_in(1).first, Code::kOverloaded);
}

TEST(DomainWindows, an_id_is_used_again_only_after_all_others) {
  fabric::LoopbackHub hub;
  fabric::LoopbackDomain domain(hub, "server");
  DomainWindows windows(domain);
  std::vector<std::byte> bytes(16);
  std::vector<Window> open;
  while (auto window = windows.open(bytes, {.read = true})) {
    ASSERT_GE(window->address.region(), DomainWindows::kFirstRegion);
    ASSERT_EQ(window->address.region(), DomainWindows::kFirstRegion + open.size());
    open.push_back(*window);
    if (open.size() == 200) break;
  }
  windows.close(open[3]);
  const auto next = windows.open(bytes, {.read = true});
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->address.region(), DomainWindows::kFirstRegion + 200);
  open[3] = *next;
  for (const Window& window : open) windows.close(window);
  EXPECT_EQ(windows.open_count(), 0u);
}

}  // namespace
}  // namespace refract::kv
