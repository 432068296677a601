// SPDX-License-Identifier: Apache-2.0
// Transfers over simulated paths: how fast they are where a path has delay, what they cost in messages, and
// what becomes of them when holders die, stop and are cut off in the middle.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/fabric/sim/machine.h"
#include "refract/object/testing/test_cluster.h"
#include "refract/object/testing/test_sim_client.h"
#include "refract/object/transfer/object_transfer.h"

namespace refract::object::transfer_sim_test {
namespace {

using test::id_at;
using test::list_of;
using test::SimClient;
using test::SimMember;

// --- Rates: holders that give windows of plain memory ---

class PlainHolder final : private rpc::Service {
 public:
  // What it gives is `bytes`, so many times.
  PlainHolder(sim::World& world, std::string_view name, std::span<std::byte> bytes, size_t times,
              uint64_t bytes_per_us)
      : host(world.add_host(name)), bytes_(bytes), times_(times), server_(*this, host.shard()) {
    host.install({.bytes_per_us = bytes_per_us});
    dispatcher_.emplace(host.domain(), host.shard(), &server_);
    const Reported<RemoteKey> key = host.domain().register_region(
        {.region = 0x9000, .base = bytes.data(), .bytes = bytes.size(), .rights = {.read = true}});
    key_ = key->bits;
  }
  sim::Host& host;
  size_t calls = 0;

 private:
  void handle(std::span<const rpc::IncomingCall> batch) noexcept override {
    for (const rpc::IncomingCall& call : batch) {
      ++calls;
      if (call.header.method == static_cast<uint16_t>(wire::TransferMethod::kTransfer)) {
        const wire::TransferReply reply{
            .transfer = 1, .digest = 0, .pieces = static_cast<uint32_t>(times_), .reserved = 0};
        std::vector<wire::TransferPiece> pieces;
        for (size_t i = 0; i < times_; ++i) {
          pieces.push_back({.address = RemotePointer::at(0x9000, 0).bits,
                            .key = key_,
                            .offset = i * bytes_.size(),
                            .bytes = bytes_.size()});
        }
        server_.reply(call.from, Code::kOk, std::as_bytes(std::span(&reply, 1)),
                      std::as_bytes(std::span(pieces)));
      } else {
        server_.reply(call.from, Code::kOk);
      }
    }
  }

  std::span<std::byte> bytes_;
  size_t times_;
  uint64_t key_ = 0;
  rpc::Server server_;
  std::optional<fabric::Dispatcher> dispatcher_;
};

// Paths of 5 ms each way to some holders of one object, each with a port of 1 GB/s. The puller's port is as
// wide as it has to be.
class LongPaths {
 public:
  static constexpr uint64_t kSourceBytes = 16 * kMiB;
  static constexpr size_t kTimes = 16;
  static constexpr uint64_t kBytes = kTimes * kSourceBytes;

  explicit LongPaths(size_t holders, const PathMemory& known = {})
      : world(network()), puller_(world.add_host("puller")) {
    paths.fill(known);
    dispatcher_.emplace(puller_.domain(), puller_.shard());
    for (size_t i = 0; i < holders; ++i) {
      const std::string name = "holder" + std::to_string(i);
      holders_.push_back(std::make_unique<PlainHolder>(world, name, source_, kTimes, 1'000));
      sessions_.push_back(std::make_unique<rpc::Session>(**puller_.domain().connect(name), puller_.shard()));
    }
    REFRACT_CHECK(world.run_until([&] {
      return std::ranges::all_of(sessions_,
                                 [](const auto& one) { return one->state() == rpc::Session::State::kOpen; });
    }));
  }
  // Bytes a second; all of them came.
  double pull() {
    std::vector<TransferSource> sources;
    for (size_t i = 0; i < holders_.size(); ++i) {
      sources.push_back({.name = holders_[i]->host.name(), .session = sessions_[i].get(), .path = &paths[i]});
    }
    const uint64_t began_ns = world.now_ns();
    bool is_over = false;
    world.spawn(puller_, run(std::move(sources), is_over));
    REFRACT_CHECK(world.run_until([&] { return is_over; }));
    EXPECT_EQ(outcome.code, Code::kOk);
    const double ns = static_cast<double>(world.now_ns() - began_ns);
    for (size_t i = 0; i < kTimes; ++i) {
      EXPECT_EQ(std::memcmp(target_.data() + i * kSourceBytes, source_.data(), kSourceBytes), 0) << i;
    }
    REFRACT_CHECK(world.run_for(50 * kMillisecond_ns));
    return static_cast<double>(kBytes) * 1e9 / ns;
  }
  [[nodiscard]] size_t calls_of(size_t holder) const { return holders_[holder]->calls; }

  sim::World world;
  TransferOutcome outcome;
  std::array<PathMemory, 4> paths;

 private:
  static sim::WorldOptions network() {
    sim::WorldOptions options{.seed = 1, .depth = 64, .message_bytes_max = 32 * 1024, .short_post_chance = 0};
    options.link = {.delay_ns = 5 * kMillisecond_ns,
                    .jitter_ns = 0,
                    .tail_chance = 0,
                    .tail_ns = 0,
                    .bytes_per_us = 0,
                    .torn_chance = 0,
                    .torn_ns = 0};
    options.one_sided_bytes_min = 16 * 1024;
    return options;
  }
  runtime::Task<> run(std::vector<TransferSource> sources, bool& is_over) {
    ObjectTransfer transfer(puller_.shard(),
                            {.id = test::as_bytes("long"),
                             .birth = 1,
                             .parts = {.body_bytes = kBytes, .metadata_bytes = 0, .id_bytes = 4},
                             .writer = writer_,
                             .room = target_,
                             .wish = TransferWish::kRead},
                            std::move(sources));
    outcome = co_await transfer.run();
    is_over = true;
  }
  static std::vector<std::byte> make_source() {
    std::vector<std::byte> bytes(kSourceBytes);
    for (size_t i = 0; i < bytes.size(); i += 64) bytes[i] = static_cast<std::byte>(i / 64 * 7 + i / kMiB);
    return bytes;
  }

  std::vector<std::byte> source_ = make_source();
  std::vector<std::byte> target_ = std::vector<std::byte>(kBytes);
  Writer writer_{target_.data()};
  sim::Host& puller_;
  std::optional<fabric::Dispatcher> dispatcher_;
  std::vector<std::unique_ptr<PlainHolder>> holders_;
  std::vector<std::unique_ptr<rpc::Session>> sessions_;
};

// The bars: 0.85 of a path of 1 GB/s over 10 ms there and back, 1.8 of one with two holders. The
// first pull finds out what the path needs.
TEST(TransferRate, a_long_path_is_full_and_two_are_nearly_twice_as_fast) {
  LongPaths one(1);
  const double cold = one.pull();
  const double warm = one.pull();
  LongPaths two(2, one.paths[0]);
  const double both = two.pull();
  RecordProperty("cold_MB_per_s", std::to_string(cold / 1e6));
  RecordProperty("warm_MB_per_s", std::to_string(warm / 1e6));
  RecordProperty("two_MB_per_s", std::to_string(both / 1e6));
  EXPECT_GT(cold, 0.85e9);
  EXPECT_GT(warm, 0.85e9);
  EXPECT_GT(both, 1.8 * warm);
  // A call to begin it, one to end it, and the READs.
  EXPECT_EQ(one.calls_of(0), 4U);
  EXPECT_EQ(one.outcome.shares[0].calls, 2U);
  EXPECT_EQ(one.outcome.shares[0].reads, LongPaths::kBytes / kMiB);
  // Each brought about what it could.
  for (const TransferShare& share : two.outcome.shares) EXPECT_GT(share.bytes, LongPaths::kBytes * 2 / 5);
}

// --- Nodes ---

sim::WorldOptions network(uint64_t seed) {
  sim::WorldOptions options{.seed = seed, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_bytes_min = 4096;
  options.link.break_ns = 5 * kMillisecond_ns;
  options.link.bytes_per_us = 1'000;
  options.steps_max = 200'000'000;
  return options;
}

// Four nodes a to d, whose pieces are small, with a client each.
class Four {
 public:
  explicit Four(const sim::WorldOptions& options = network(1),
                const TransferLimits& limits = {.piece_bytes = 32 * kKiB})
      : world(options), list(list_of(1, {"a", "b", "c", "d"})) {
    for (const cluster::Member& member : list.members) {
      nodes.push_back(
          std::make_unique<SimMember>(world, member.name, list, SimMember::Options{.transfers = limits}));
    }
    for (const cluster::Member& member : list.members) {
      clients.push_back(std::make_unique<SimClient>(world, "client of " + member.name, member.name));
      clients.back()->connect();
    }
    REFRACT_CHECK(world.run_until([&] {
      return std::ranges::all_of(nodes, [](const auto& node) {
        const Directory::Counts counts = node->counts();
        return counts.is_complete && counts.streams == 3;
      });
    }));
    pass(20 * kMillisecond_ns);
  }
  SimMember& node(char name) { return *nodes[static_cast<size_t>(name - 'a')]; }
  SimClient& at(char name) { return *clients[static_cast<size_t>(name - 'a')]; }
  [[nodiscard]] std::string id(char home, int number = 0) const {
    return id_at(list, std::string(1, home), number);
  }
  void pass(uint64_t ns) { REFRACT_CHECK(world.run_for(ns)); }
  // Fills it as its owner.
  void make(char name, const std::string& its_id, uint64_t birth, const std::string& body) {
    node(name).make(its_id, body, birth);
    pass(5 * kMillisecond_ns);
  }
  [[nodiscard]] std::string body_at(char name, const std::string& its_id) {
    return node(name).body_of(its_id);
  }
  [[nodiscard]] Code await(char name, const std::string& its_id, uint64_t timeout_ns = 0) {
    return at(name).call(wire::Method::kAwait, test::await_body(its_id, timeout_ns)).code;
  }
  // Nothing is open, pinned or held anywhere, some time later.
  void expect_clean() {
    pass(40 * kSecond_ns);
    for (const auto& node : nodes) EXPECT_EQ(node->left_over(), "");
  }

  sim::World world;
  cluster::MemberList list;
  std::vector<std::unique_ptr<SimMember>> nodes;
  std::vector<std::unique_ptr<SimClient>> clients;
};

std::string body_of_bytes(size_t bytes, int seed = 1) {
  std::string body(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i)
    body[i] = static_cast<char>((i * 31 + i / 251) * static_cast<size_t>(seed));
  return body;
}

// Exact everywhere: what is here takes no message; a small pull one round trip; a large one two and the
// READs.
TEST(TransferCounts, messages_of_pulls_are_exact) {
  Four four;
  const std::string small = four.id('a');
  const std::string large = four.id('a', 1);
  four.make('b', small, 7, body_of_bytes(1000));
  four.make('b', large, 8, body_of_bytes(1024 * 1024));
  const auto counts = [&] { return four.node('a').counts(); };
  EXPECT_EQ(four.await('a', small), Code::kOk);
  EXPECT_EQ(counts().transfer_calls, 1U);
  EXPECT_EQ(counts().transfer_reads, 0U);
  EXPECT_EQ(four.await('a', large), Code::kOk);
  EXPECT_EQ(counts().transfer_calls, 3U);
  EXPECT_EQ(counts().transfer_reads, 32U);
  const Directory::Counts before = counts();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(four.await('a', i % 2 == 0 ? small : large), Code::kOk);
  EXPECT_EQ(counts().look_ups, before.look_ups) << "what is here is looked for nowhere";
  EXPECT_EQ(counts().transfer_calls, before.transfer_calls);
  EXPECT_EQ(four.body_at('a', large), body_of_bytes(1024 * 1024));
  four.expect_clean();
}

TEST(TransferCounts, waiters_of_one_object_share_one_transfer) {
  Four four;
  const std::string id = four.id('c');
  four.make('b', id, 7, body_of_bytes(500'000));
  SimClient other(four.world, "another client of a", "a");
  other.connect();
  const uint64_t one = four.at('a').start(wire::Method::kAwait, test::await_body(id));
  const uint64_t two = other.start(wire::Method::kAwait, test::await_body(id));
  EXPECT_EQ(four.at('a').finish(one).code, Code::kOk);
  EXPECT_EQ(other.finish(two).code, Code::kOk);
  EXPECT_EQ(four.node('a').counts().pulls, 1U);
  EXPECT_EQ(four.node('b').process->owner.giver->counts().transfers, 1U);
}

// Sizes around what a message and a piece carry, by both ways.
TEST(Transfer, objects_of_any_length_come_whole_by_messages_and_by_reads) {
  for (const uint32_t one_sided : {uint32_t{1}, uint32_t{0x7fff'ffff}}) {
    sim::WorldOptions options = network(1);
    options.one_sided_bytes_min = one_sided;
    Four four(options);
    int number = 0;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{16'300}, size_t{16'328}, size_t{16'336},
                               size_t{16'344}, size_t{16'345}, 32 * size_t{1024} - 1, 32 * size_t{1024},
                               32 * size_t{1024} + 1, size_t{1'000'003}}) {
      const std::string id = four.id('d', number++);
      const std::string body = body_of_bytes(bytes, number);
      four.make('b', id, 100 + static_cast<uint64_t>(number), body);
      ASSERT_EQ(four.await('a', id), Code::kOk) << bytes;
      EXPECT_TRUE(four.body_at('a', id) == body) << bytes;
    }
    four.expect_clean();
  }
}

// A holder dies, or is cut off, at any moment of the transfer: what it owes comes from the others.
TEST(Transfer, a_holder_that_goes_in_the_middle_is_replaced) {
  int replaced = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Four four(network(seed));
    const std::string id = four.id('a');
    const std::string body = body_of_bytes(2'000'000);
    four.make('b', id, 7, body);
    ASSERT_EQ(four.await('c', id), Code::kOk);
    four.pass(5 * kMillisecond_ns);
    const uint64_t call = four.at('a').start(wire::Method::kAwait, test::await_body(id));
    four.pass(20'000 + seed * 60'000);
    const bool is_under_way = !four.at('a').is_done(call);
    switch (seed % 3) {
      case 0:
        four.node('b').crash();
        break;
      case 1:
        four.node('c').crash();
        break;
      default:
        four.world.cut(four.node('a').host, four.node('b').host);
    }
    EXPECT_EQ(four.at('a').finish(call).code, Code::kOk) << seed;
    EXPECT_TRUE(four.body_at('a', id) == body) << seed;
    const Directory::Counts counts = four.node('a').counts();
    replaced += is_under_way && counts.givers_left > 0 && counts.pulls == 1 ? 1 : 0;
  }
  EXPECT_GT(replaced, 8) << "too few of them met a transfer";
}

// A holder whose process stands still answers nothing, and ends nothing. It costs its own requests only.
TEST(Transfer, a_holder_that_stalls_is_replaced_and_the_room_waits_for_its_reads) {
  for (const uint32_t one_sided : {uint32_t{1}, uint32_t{0x7fff'ffff}}) {
    sim::WorldOptions options = network(1);
    options.one_sided_bytes_min = one_sided;
    options.one_sided_needs_target = true;
    Four four(options, {.piece_bytes = 32 * kKiB, .stall_ns = 20 * kMillisecond_ns});
    const std::string id = four.id('a');
    const std::string body = body_of_bytes(2'000'000);
    four.make('b', id, 7, body);
    ASSERT_EQ(four.await('c', id), Code::kOk);
    four.pass(5 * kMillisecond_ns);
    const uint64_t call = four.at('a').start(wire::Method::kAwait, test::await_body(id));
    four.pass(300'000);
    ASSERT_FALSE(four.at('a').is_done(call));
    four.world.pause(four.node('b').host);
    const uint64_t began_ns = four.world.now_ns();
    EXPECT_EQ(four.at('a').finish(call).code, Code::kOk);
    EXPECT_LT(four.world.now_ns() - began_ns, 200 * kMillisecond_ns);
    EXPECT_EQ(four.node('a').counts().givers_left, 1U);
    EXPECT_TRUE(four.body_at('a', id) == body);
    four.world.resume(four.node('b').host);
    four.expect_clean();
    EXPECT_TRUE(four.body_at('a', id) == body) << "a late READ has changed it";
  }
}

// After a cut two nodes have the id with different bytes; what comes is one of them, whole.
TEST(Transfer, pieces_of_two_births_are_never_mixed) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Four four(network(seed));
    const std::string id = four.id('d');
    const std::string one = body_of_bytes(1'000'000, 3);
    const std::string other = body_of_bytes(1'000'000, 5);
    // Behind the home's back, as two that made it in halves of a network: then both are told.
    ObjectStore& second = four.node('c').process->owner.store;
    four.make('b', id, 7, one);
    const Result<Creation> made =
        second.create({.id = test::as_bytes(id), .birth = 8, .body_bytes = other.size()});
    ASSERT_TRUE(made.has_value());
    second.writer().copy(made->object.plus(ObjectParts::body_at()), test::as_bytes(other));
    ASSERT_TRUE(second.seal(test::as_bytes(id), 8).has_value());
    const Code code = four.await('a', id);
    if (code != Code::kOk) continue;
    const std::string got = four.body_at('a', id);
    EXPECT_TRUE(got == one || got == other) << seed;
  }
}

// A set larger than the memory of the node that wants it, all at once: each get ends, and none for ever.
TEST(Transfer, a_set_larger_than_memory_ends_with_no_space_and_no_circle) {
  Four four;
  std::vector<std::string> ids;
  // Each a quarter of the limit, on nodes of which each has room for some; the gets hold what they have got.
  for (int i = 0; i < 9; ++i) {
    ids.push_back(four.id('a', i));
    four.make(static_cast<char>('b' + i % 3), ids.back(), 100 + static_cast<uint64_t>(i),
              body_of_bytes(3 * 1024 * 1024, i + 1));
  }
  std::vector<std::unique_ptr<SimClient>> readers;
  std::vector<uint64_t> calls;
  for (size_t i = 0; i < ids.size(); ++i) {
    readers.push_back(std::make_unique<SimClient>(four.world, "reader " + std::to_string(i), "a"));
    readers.back()->connect();
    calls.push_back(readers.back()->start(wire::Method::kFetch, test::await_body(ids[i])));
  }
  size_t got = 0;
  size_t refused = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const test::Answer answer = readers[i]->finish(calls[i]);
    // A fetch holds its object until it says that it is done, which none of these does.
    got += answer.code == Code::kOk ? 1 : 0;
    refused += answer.code == Code::kNoSpace ? 1 : 0;
    EXPECT_TRUE(answer.code == Code::kOk || answer.code == Code::kNoSpace) << text(answer.code);
  }
  EXPECT_GE(got, 3U);
  EXPECT_GE(refused, 4U);
  EXPECT_LE(four.node('a').counts().pulls, got)
      << "a copy came twice: they took turns at evicting each other";
  // When they have let go, the others come.
  readers.clear();
  four.pass(kSecond_ns);
  for (const std::string& id : ids) EXPECT_EQ(four.await('a', id), Code::kOk);
}

}  // namespace
}  // namespace refract::object::transfer_sim_test
