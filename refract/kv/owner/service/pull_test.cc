// SPDX-License-Identifier: Apache-2.0
// Puts whose value the owner READs from the client's memory: what they cost, that they keep a put's promises,
// and that whatever ends early leaves nothing published, nothing held, and no memory that the owner can still
// READ. On the simulator; what rivals, crashes and cuts do to them is shown by tests/campaign.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/wrap/count.h"
#include "refract/kv/calls/lender.h"
#include "refract/kv/layout/pull_wire.h"
#include "refract/kv/testing/test_service.h"
#include "refract/kv/testing/test_sim_service.h"

namespace refract::kv {
namespace {

using fabric::Op;
using runtime::Task;
using test::bytes_of;
using test::patterned;

constexpr uint64_t kPiece = PullFetcher::kPieceBytes;

sim::WorldOptions quiet(bool one_sided_needs_target = false) {
  sim::WorldOptions options{.seed = 7, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_needs_target = one_sided_needs_target;
  return options;
}
// Whose channels share long READs between threads.
sim::WorldOptions sharing(uint64_t bytes_min) {
  sim::WorldOptions options = quiet();
  options.shared_read_bytes_min = static_cast<uint32_t>(bytes_min);
  return options;
}

// A client on a host of its own, and all that it posts.
struct Putter {
  Putter(sim::World& world, std::string_view name, const LenderOptions& options = {})
      : host(world.add_host(name)), lender(counted, options) {
    const Reported<fabric::Channel*> channel = counted.connect("server");
    REFRACT_CHECK(channel.has_value());
    session = std::make_unique<rpc::Session>(**channel, host.shard());
    REFRACT_CHECK(world.run_until([&] { return session->state() == rpc::Session::State::kOpen; }));
    client = std::make_unique<RpcClient>(*session, host.shard(), RpcClientOptions{.lender = &lender});
  }
  template <typename T>
  [[nodiscard]] T wait(Task<T> task) {
    return runtime::block_on(host.shard(), std::move(task));
  }
  [[nodiscard]] Result<uint64_t> put(std::string_view key, std::string_view value,
                                     const RpcPutOptions& options = {}, uint64_t deadline_ns = 0) {
    return wait(client->put(bytes_of(key), bytes_of(value), options, deadline_ns));
  }
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    StringSink sink(value);
    const Result<Got> got = wait(client->get(bytes_of(key), sink));
    return got ? value : "";
  }
  // A call by hand.
  [[nodiscard]] Code pull(std::string_view key, const wire::PutPulledRequest& request) {
    wire::PutPulledRequest fixed = request;
    fixed.key.key_bytes = static_cast<uint16_t>(key.size());
    return wait(session->call({.method = static_cast<uint16_t>(wire::Method::kPutPulled),
                               .head = std::as_bytes(std::span(&fixed, 1)),
                               .tail = bytes_of(key)},
                              host.shard().now_ns() + kSecond_ns))
        .code;
  }

  sim::Host& host;
  fabric::CountDomain counted{host.domain()};
  fabric::Dispatcher dispatcher{counted, host.shard()};
  Lender lender;
  std::unique_ptr<rpc::Session> session;
  std::unique_ptr<RpcClient> client;
};

class PulledPut : public testing::Test {
 protected:
  explicit PulledPut(const sim::WorldOptions& options = quiet()) : world(options) {}
  [[nodiscard]] const PullFetcher::Counts& pulls() { return node.process->service.pulls().counts(); }
  [[nodiscard]] uint64_t buffers_live() { return node.process->heap.stats().buffers_live; }
  // Whatever was begun has ended, and nothing is held that is not needed.
  void expect_nothing_is_left(uint64_t buffers) {
    ASSERT_TRUE(world.run_for(100 * kMillisecond_ns));
    EXPECT_EQ(node.process->service.stat().uploads, 0u);
    EXPECT_EQ(node.process->service.stat().upload_bytes, 0u);
    EXPECT_EQ(node.process->service.pulls().bytes_under_way(), 0u);
    EXPECT_EQ(buffers_live(), buffers);
    EXPECT_FALSE(node.process->table.validate().has_value());
  }
  // Begins a put and lets it come so far that its READs are under way.
  void begin(Task<Result<uint64_t>>& task) {
    const uint64_t before = pulls().reads;
    task.start();
    ASSERT_TRUE(world.run_until([&] { return pulls().reads > before; }));
    ASSERT_EQ(putter.lender.loans(), 1u);
  }

 public:
  sim::World world;
  test::SimNode node{world, 64};
  Putter putter{world, "client"};
};

TEST_F(PulledPut, is_one_message_each_way_and_the_reads_of_its_bytes) {
  const std::string value = patterned(4 * kPiece - 100);
  ASSERT_TRUE(putter.put("key", value));
  putter.counted.reset_counts();
  ASSERT_TRUE(putter.put("key", value));
  EXPECT_EQ(putter.counted.counts().requests_of(Op::kSend), 1u);
  EXPECT_EQ(putter.counted.counts().messages_received, 1u);
  EXPECT_EQ(putter.counted.counts().round_trips, 1u);
  EXPECT_EQ(pulls().reads, 2 * 4u);
  EXPECT_EQ(putter.lender.counts().registrations, 1u) << "memory for copies stays registered";
  EXPECT_EQ(putter.get("key"), value);
}

TEST_F(PulledPut, brings_values_of_every_length_from_every_place) {
  const std::string source = patterned(3 * kMiB, 5);
  uint64_t number = 0;
  for (const uint64_t bytes :
       {16 * kKiB, kPiece - 1, kPiece, kPiece + 1, 4 * kPiece, 4 * kPiece + 1, 9 * kPiece + 77}) {
    for (const uint64_t from : {0U, 1U, 4095U}) {
      const std::string key = "key" + std::to_string(number++);
      ASSERT_TRUE(putter.put(key, std::string_view(source).substr(from, bytes))) << bytes;
      EXPECT_TRUE(putter.get(key) == source.substr(from, bytes)) << bytes << " from " << from;
    }
  }
  EXPECT_EQ(pulls().values, number);
  EXPECT_GT(putter.lender.counts().in_place, 0u);
  EXPECT_GT(putter.lender.counts().copied, 0u);
  EXPECT_EQ(putter.lender.counts().revoked, 0u);
  EXPECT_EQ(putter.lender.loans(), 0u);
}

// A READ that is shared is longer than what a session may have under way, and goes alone.
class SharedPull : public PulledPut {
 protected:
  static constexpr uint64_t kShared = 5 * kPiece;
  SharedPull() : PulledPut(sharing(kShared)) {}
};

TEST_F(SharedPull, is_in_longer_reads_where_they_are_shared) {
  struct Case {
    uint64_t bytes;
    uint64_t reads;
  };
  for (const Case& each : {Case{kPiece, 1}, Case{kShared - 1, 5}, Case{kShared, 1}, Case{kShared + 1, 2},
                           Case{2 * kShared - 1, 1 + 5}, Case{2 * kShared, 2}}) {
    const std::string value = patterned(each.bytes, each.bytes);
    const uint64_t before = pulls().reads;
    ASSERT_TRUE(putter.put("key", value)) << each.bytes;
    EXPECT_EQ(pulls().reads - before, each.reads) << each.bytes;
    EXPECT_TRUE(putter.get("key") == value) << each.bytes;
  }
}

TEST_F(SharedPull, of_several_values_at_once_brings_them_all) {
  const std::vector<std::string> keys{"a", "b", "c", "d", "e"};
  std::vector<std::string> values;
  std::vector<Task<Result<uint64_t>>> puts;
  for (uint64_t i = 0; i < keys.size(); ++i) values.push_back(patterned(2 * kShared - 1 - i, i));
  for (uint64_t i = 0; i < keys.size(); ++i) {
    puts.push_back(putter.client->put(bytes_of(keys[i]), bytes_of(values[i])));
    puts.back().start();
  }
  ASSERT_TRUE(
      world.run_until([&] { return std::ranges::all_of(puts, [](auto& put) { return put.done(); }); }));
  for (uint64_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(puts[i].take()) << keys[i];
    EXPECT_TRUE(putter.get(keys[i]) == values[i]) << keys[i];
  }
  EXPECT_EQ(pulls().reads, values.size() * (1 + 5));
}

TEST_F(PulledPut, of_a_long_key_is_found_under_it) {
  const std::string key = patterned(40'000, 3);
  const std::string value = patterned(70'000);
  ASSERT_TRUE(putter.put(key, value));
  EXPECT_EQ(pulls().values, 1u);
  EXPECT_TRUE(putter.get(key) == value);
}

TEST_F(PulledPut, compares_its_condition_before_it_reads_anything) {
  const Result<uint64_t> version = putter.put("key", "small");
  ASSERT_TRUE(version);
  const std::string value = patterned(100'000);
  EXPECT_EQ(putter.put("key", value, {.if_absent = true}).code(), Code::kExists);
  EXPECT_EQ(putter.put("key", value, {.if_version = *version + 1}).code(), Code::kVersionMismatch);
  EXPECT_EQ(putter.put("absent", value, {.if_version = *version}).code(), Code::kNotFound);
  EXPECT_EQ(pulls().reads, 0u);
  ASSERT_TRUE(putter.put("key", value, {.if_version = *version}));
  EXPECT_TRUE(putter.get("key") == value);
}

TEST_F(PulledPut, compares_its_condition_again_when_the_value_is_there) {
  Putter other(world, "other");
  const Result<uint64_t> version = putter.put("key", "small");
  ASSERT_TRUE(version);
  const uint64_t buffers = buffers_live();
  const std::string value = patterned(20 * kPiece);
  Task<Result<uint64_t>> task =
      putter.client->put(bytes_of("key"), bytes_of(value), RpcPutOptions{.if_version = *version});
  begin(task);
  ASSERT_TRUE(other.put("key", "in between"));
  ASSERT_FALSE(task.done()) << "the value was there before anything could come in between";
  ASSERT_TRUE(world.run_until([&] { return task.done(); }));
  EXPECT_EQ(task.take().code(), Code::kVersionMismatch);
  EXPECT_EQ(putter.get("key"), "in between");
  ASSERT_TRUE(world.run_for(kSecond_ns));
  expect_nothing_is_left(buffers);
}

TEST_F(PulledPut, with_an_identity_is_executed_once) {
  const std::string value = patterned(100'000);
  RpcPutOptions options{.if_absent = true};
  options.attempt.request = {.client = 42, .sequence = 1};
  const Result<uint64_t> first = putter.put("key", value, options);
  ASSERT_TRUE(first);
  const uint64_t reads = pulls().reads;
  options.attempt.first_sent_ns = putter.host.shard().now_ns();
  const Result<uint64_t> again = putter.put("key", value, options);
  ASSERT_TRUE(again) << text(again.code());
  EXPECT_EQ(*again, *first);
  EXPECT_EQ(pulls().reads, reads) << "what is known needs no value";
}

TEST_F(PulledPut, of_a_shared_buffer_is_registered_once_until_nothing_will_be_put_from_it) {
  const SharedBufferHold buffer = refract::test::needed(SharedBuffer::make(kMiB));
  const std::string value = patterned(buffer->bytes().size());
  std::ranges::copy(bytes_of(value), buffer->bytes().begin());
  for (const uint64_t from : {0U, 1U, 100'000U}) {
    const std::span<const std::byte> part = buffer->bytes().subspan(from, 500'000);
    ASSERT_TRUE(putter.wait(putter.client->put(bytes_of("key"), part, {.shared = buffer.get()})));
    EXPECT_EQ(putter.get("key"), value.substr(from, 500'000));
  }
  EXPECT_EQ(putter.lender.counts().shared, 3u);
  EXPECT_EQ(putter.lender.counts().registrations, 1u);
  EXPECT_EQ(buffer->holds(), 2U) << "what a peer may READ stays";
  buffer->retire();
  ASSERT_TRUE(putter.put("other", patterned(100'000)));
  EXPECT_EQ(buffer->holds(), 1U);
  EXPECT_EQ(putter.lender.loans(), 0u);
}

TEST_F(PulledPut, of_a_shared_buffer_that_ends_early_ends_its_registration) {
  const SharedBufferHold buffer = refract::test::needed(SharedBuffer::make(8 * kMiB));
  {
    Task<Result<uint64_t>> task =
        putter.client->put(bytes_of("key"), buffer->bytes(), {.shared = buffer.get()});
    begin(task);
    task = {};
  }
  EXPECT_EQ(putter.lender.counts().revoked, 1u);
  EXPECT_EQ(buffer->holds(), 1U);
  ASSERT_TRUE(putter.wait(putter.client->put(bytes_of("key"), buffer->bytes(), {.shared = buffer.get()})));
  EXPECT_EQ(putter.lender.counts().registrations, 2u);
}

TEST_F(PulledPut, that_ends_by_its_deadline_is_not_read_and_not_published_afterwards) {
  const uint64_t buffers = buffers_live();
  world.pause(node.host);
  const std::string value = patterned(100'000);
  const uint64_t now_ns = world.now_ns();
  const Result<uint64_t> late = putter.put("key", value, {}, now_ns + 5 * kMillisecond_ns);
  EXPECT_EQ(late.code(), Code::kIndeterminate);
  EXPECT_EQ(putter.lender.counts().revoked, 1u);
  EXPECT_EQ(putter.lender.loans(), 0u);
  // The same memory has something else in it when the owner looks.
  const std::string next = patterned(100'000, 9);
  Task<Result<uint64_t>> task = putter.client->put(bytes_of("next"), bytes_of(next));
  task.start();
  world.resume(node.host);
  ASSERT_TRUE(world.run_until([&] { return task.done(); }));
  EXPECT_TRUE(task.take().has_value());
  EXPECT_TRUE(putter.get("next") == next);
  EXPECT_EQ(putter.get("key"), "");
  EXPECT_EQ(pulls().failed, 1u);
  expect_nothing_is_left(buffers + 1);
}

TEST_F(PulledPut, that_is_dropped_between_its_reads_is_not_published) {
  const uint64_t buffers = buffers_live();
  {
    const std::string value = patterned(20 * kPiece);
    Task<Result<uint64_t>> task = putter.client->put(bytes_of("key"), bytes_of(value));
    begin(task);
    task = {};
    EXPECT_EQ(putter.lender.counts().revoked, 1u);
  }
  expect_nothing_is_left(buffers);
  EXPECT_EQ(putter.get("key"), "");
  EXPECT_EQ(pulls().failed, 1u);
}

TEST_F(PulledPut, whose_owner_takes_too_long_is_given_up_by_it_first) {
  const uint64_t buffers = buffers_live();
  const std::string value = patterned(80 * kPiece);
  // Slow enough that a fraction of the value comes in time.
  world.link(node.host, putter.host).bytes_per_us = 200;
  const uint64_t now_ns = world.now_ns();
  const Result<uint64_t> late = putter.put("key", value, {}, now_ns + 20 * kMillisecond_ns);
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << "the owner has said so: nothing was changed";
  EXPECT_EQ(putter.lender.counts().revoked, 0u);
  EXPECT_GT(pulls().reads, 0u);
  expect_nothing_is_left(buffers);
}

TEST_F(PulledPut, whose_session_ends_between_its_reads_leaves_nothing_behind) {
  const uint64_t buffers = buffers_live();
  const std::string value = patterned(20 * kPiece);
  Task<Result<uint64_t>> task = putter.client->put(bytes_of("key"), bytes_of(value));
  begin(task);
  putter.session->close();
  ASSERT_TRUE(world.run_until([&] { return task.done(); }));
  EXPECT_EQ(task.take().code(), Code::kIndeterminate);
  EXPECT_EQ(putter.lender.loans(), 0u);
  expect_nothing_is_left(buffers);
  Putter next(world, "next");
  EXPECT_EQ(next.get("key"), "");
}

TEST_F(PulledPut, whose_client_dies_between_its_reads_leaves_nothing_behind) {
  const uint64_t buffers = buffers_live();
  sim::Host& host = world.add_host("mortal");
  struct Mortal {
    explicit Mortal(sim::Host& at)
        : dispatcher(at.domain(), at.shard()),
          lender(at.domain()),
          value(patterned(20 * kPiece)),
          session(**at.domain().connect("server"), at.shard()),
          client(session, at.shard(), RpcClientOptions{.lender = &lender}) {}
    fabric::Dispatcher dispatcher;
    Lender lender;
    std::string value;
    rpc::Session session;
    RpcClient client;
    Task<Result<uint64_t>> task;
  };
  auto& mortal = host.emplace<Mortal>(host);
  ASSERT_TRUE(world.run_until([&] { return mortal.session.state() == rpc::Session::State::kOpen; }));
  mortal.task = mortal.client.put(bytes_of("key"), bytes_of(mortal.value));
  mortal.task.start();
  ASSERT_TRUE(world.run_until([&] { return pulls().reads > 2; }));
  world.crash(host);
  ASSERT_TRUE(world.run_until([&] { return node.process->service.stat().uploads == 0; }));
  expect_nothing_is_left(buffers);
  EXPECT_EQ(putter.get("key"), "");
}

TEST_F(PulledPut, from_memory_that_is_not_lent_is_refused_and_costs_nobody_else_a_thing) {
  const uint64_t buffers = buffers_live();
  wire::PutPulledRequest lie{};
  lie.key.value_bytes = 3 * kPiece;
  lie.address = RemotePointer::at(0xc000, 0).bits;
  lie.address_key = 99;
  lie.timeout_ns = kSecond_ns;
  EXPECT_EQ(putter.pull("key", lie), Code::kAccessDenied);
  const std::string value = patterned(100'000);
  const Lender::Loan loan = putter.lender.lend(bytes_of(value));
  lie.address = loan.source().address.bits;
  lie.address_key = loan.source().key.bits;
  EXPECT_EQ(putter.pull("key", lie), Code::kAccessDenied) << "it ends behind what is lent";
  expect_nothing_is_left(buffers);
  EXPECT_EQ(pulls().failed, 2u);
  ASSERT_TRUE(putter.put("key", value));
}

TEST_F(PulledPut, that_makes_no_sense_is_refused_before_anything_is_read) {
  const wire::PutPulledRequest sound{.key = {.key_bytes = 0, .staged = 0, .flags = 0, .value_bytes = 4096},
                                     .if_version = 0,
                                     .ttl_ns = 0,
                                     .address = RemotePointer::at(0xc000, 0).bits,
                                     .address_key = 99,
                                     .timeout_ns = kSecond_ns};
  const uint64_t buffers = buffers_live();
  wire::PutPulledRequest request = sound;
  request.key.value_bytes = 0;
  EXPECT_EQ(putter.pull("key", request), Code::kInvalidArgument);
  request = sound;
  request.address_key = 0;
  EXPECT_EQ(putter.pull("key", request), Code::kInvalidArgument);
  request = sound;
  request.address = RemotePointer::at(0xc000, RemotePointer::kOffsetMask - 4095).bits;
  EXPECT_EQ(putter.pull("key", request), Code::kInvalidArgument);
  request = sound;
  request.key.value_bytes = kValueBytesMax + 1;
  EXPECT_EQ(putter.pull("key", request), Code::kTooLarge);
  request = sound;
  request.key.flags = wire::KeyRef::kWantsWindow;
  EXPECT_EQ(putter.pull("key", request), Code::kMalformed);
  request = sound;
  request.timeout_ns = 0;
  EXPECT_EQ(putter.pull("key", request), Code::kDeadlineExceeded);
  EXPECT_EQ(putter.pull("", sound), Code::kInvalidArgument);
  EXPECT_EQ(pulls().reads, 0u);
  expect_nothing_is_left(buffers);
}

// An upload's handle is a number that a client can count up to.
TEST_F(PulledPut, is_nobodys_to_commit_or_abandon_before_its_reads_are_done) {
  const std::string value = patterned(20 * kPiece);
  Task<Result<uint64_t>> task = putter.client->put(bytes_of("key"), bytes_of(value));
  begin(task);
  const uint64_t stamps = node.process->heap.stats().stamps_given;
  for (uint64_t id = stamps > 4 ? stamps - 4 : 1; id < stamps + 4; ++id) {
    const wire::Handle handle{id};
    for (const wire::Method method : {wire::Method::kPutCommit, wire::Method::kPutAbandon}) {
      const auto result = putter.wait(putter.session->call(
          {.method = static_cast<uint16_t>(method), .head = std::as_bytes(std::span(&handle, 1))},
          putter.host.shard().now_ns() + kSecond_ns));
      EXPECT_EQ(result.code, Code::kInvalidated) << id;
      if (task.done()) break;
    }
  }
  ASSERT_TRUE(world.run_until([&] { return task.done(); }));
  EXPECT_TRUE(task.take().has_value());
  EXPECT_TRUE(putter.get("key") == value);
}

TEST_F(PulledPut, of_many_at_once_holds_no_more_than_a_session_may) {
  const std::string value = patterned(600'000);
  std::vector<std::string> keys(40);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = "key" + std::to_string(i);
  std::vector<RpcClient::PutItem> items;
  items.reserve(keys.size());
  for (const std::string& key : keys) {
    items.push_back({.key = bytes_of(key), .value = bytes_of(value), .options = {}});
  }
  Task<> task = putter.client->multi_put(items);
  task.start();
  uint64_t most = 0;
  ASSERT_TRUE(world.run_until([&] {
    most = std::max(most, node.process->service.pulls().bytes_under_way());
    return task.done();
  }));
  for (const RpcClient::PutItem& item : items) EXPECT_TRUE(item.result) << text(item.result.code());
  EXPECT_LE(most, PullFetcher::kPiecesPerSession * kPiece);
  EXPECT_EQ(node.process->service.stat().overloaded, 0u) << "a client asks for no more than its share";
  EXPECT_EQ(pulls().values, keys.size());
  EXPECT_TRUE(putter.get("key39") == value);
}

TEST_F(PulledPut, whose_reads_hang_holds_up_nobody_else) {
  const std::string value = patterned(8 * kMiB);
  Putter other(world, "other");
  world.link(node.host, putter.host).break_ns = 10 * kSecond_ns;
  Task<Result<uint64_t>> task = putter.client->put(bytes_of("key"), bytes_of(value));
  begin(task);
  world.cut(node.host, putter.host);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(other.put("other", std::string_view(value).substr(0, kMiB)));
  EXPECT_FALSE(task.done());
  world.heal(node.host, putter.host);
  ASSERT_TRUE(world.run_until([&] { return task.done(); }));
  EXPECT_TRUE(task.take().has_value());
  EXPECT_TRUE(other.get("key") == value);
}

TEST(PulledPutElsewhere, travels_in_pieces_where_reads_need_the_clients_cpu) {
  sim::World world{quiet(/*one_sided_needs_target=*/true)};
  const test::SimNode node{world, 64};
  Putter putter{world, "client"};
  const std::string value = patterned(100'000);
  ASSERT_TRUE(putter.put("key", value));
  EXPECT_EQ(node.process->service.pulls().counts().reads, 0u);
  EXPECT_EQ(putter.lender.counts().registrations, 0u);
  wire::PutPulledRequest request{};
  request.key.value_bytes = 100;
  request.address_key = 99;
  request.timeout_ns = kSecond_ns;
  EXPECT_EQ(putter.pull("key", request), Code::kUnsupported);
  EXPECT_TRUE(putter.get("key") == value);
}

TEST(PulledPutElsewhere, travels_in_pieces_where_no_memory_can_be_lent) {
  sim::World world{quiet()};
  const test::SimNode node{world, 64};
  Putter putter{world, "client"};
  // All numbers that a lender has are taken.
  std::vector<std::byte> page(8);
  for (uint64_t region = Lender::kFirstRegion; region < Lender::kFirstRegion + 3; ++region) {
    ASSERT_TRUE(putter.host.domain().register_region({.region = static_cast<uint16_t>(region),
                                                      .base = page.data(),
                                                      .bytes = page.size(),
                                                      .rights = {.read = true}}));
  }
  const std::string value = patterned(100'000);
  ASSERT_TRUE(putter.put("key", value));
  EXPECT_EQ(putter.lender.counts().refused, 1u);
  EXPECT_EQ(node.process->service.pulls().counts().reads, 0u);
  EXPECT_TRUE(putter.get("key") == value);
}

}  // namespace
}  // namespace refract::kv
