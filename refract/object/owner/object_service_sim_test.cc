// SPDX-License-Identifier: Apache-2.0
// Ends of all kinds while the owner READs: that no READ lands in memory that is another object's by then,
// that nothing is published that has not come, and that what waits is answered. Over the simulated network.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "refract/fabric/sim/world.h"
#include "refract/kv/testing/test_service.h"
#include "refract/object/testing/test_objects.h"
#include "refract/object/testing/test_sim_node.h"
#include "refract/rpc/session.h"

namespace refract::object {
namespace {

using kv::test::patterned;
using test::Answer;
using test::await_body;
using test::body_of;
using test::create_body;
using test::fill_body;
using test::id_body;
using test::put_body;
using wire::Method;

sim::WorldOptions slow_network(uint64_t seed = 7) {
  sim::WorldOptions options{.seed = seed, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_bytes_min = 512;
  options.link.bytes_per_us = 1000;
  return options;
}

class SimPeer {
 public:
  SimPeer(sim::World& world, std::string_view name)
      : host(world.add_host(name)), world_(world), dispatcher_(host.domain(), host.shard()) {
    connect();
  }
  void connect() {
    session.reset();
    REFRACT_CHECK(world_.run_until([&] {
      if (session == nullptr || session->state() == rpc::Session::State::kClosed) {
        session.reset();
        const Reported<fabric::Channel*> channel = host.domain().connect("server");
        if (channel) session = std::make_unique<rpc::Session>(**channel, host.shard());
      }
      return session != nullptr && session->state() == rpc::Session::State::kOpen;
    }));
  }
  [[nodiscard]] wire::Place lend(std::string& bytes) {
    const uint16_t region = next_region_++;
    const Reported<RemoteKey> key =
        host.domain().register_region({.region = region,
                                       .base = reinterpret_cast<std::byte*>(bytes.data()),
                                       .bytes = bytes.size(),
                                       .rights = {.read = true}});
    REFRACT_CHECK(key.has_value());
    return {.address = RemotePointer::at(region, 0).bits, .key = key->bits};
  }
  void take_back(const wire::Place& place) {
    (void)host.domain().revoke_region(RemotePointer{place.address}.region());
  }
  [[nodiscard]] uint64_t start(Method method, std::string_view body) {
    uint64_t id = 0;
    REFRACT_CHECK(world_.run_until([&] {
      if (id == 0)
        id = session->start({.method = static_cast<uint16_t>(method), .head = test::as_bytes(body)});
      return id != 0;
    }));
    return id;
  }
  [[nodiscard]] bool is_done(uint64_t id) const { return session->done(id); }
  [[nodiscard]] Answer finish(uint64_t id) {
    REFRACT_CHECK(world_.run_until([&] { return session->done(id); }));
    const runtime::OpResult result = session->finish(id);
    return {.code = result.code, .bytes = kv::test::text_of(result.bytes)};
  }
  [[nodiscard]] Answer call(Method method, std::string_view body) { return finish(start(method, body)); }

  sim::Host& host;
  std::unique_ptr<rpc::Session> session;

 private:
  sim::World& world_;
  fabric::Dispatcher dispatcher_;
  uint16_t next_region_ = fabric::kLentRegionFirst;
};

class ObjectReads : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 20 * kMiB;

  [[nodiscard]] const kv::PullFetcher& pulls() { return node.process->service->pulls(); }
  void create() {
    ASSERT_EQ(peer.call(Method::kCreate, create_body("apple", 7, {.body = kBytes})).code, Code::kOk);
  }
  uint64_t start_seal(SimPeer& by, const wire::Place& source, uint64_t timeout_ns = kSecond_ns) {
    const uint64_t before = pulls().counts().reads;
    const uint64_t id = by.start(Method::kSeal, fill_body("apple", 7, kBytes, source, timeout_ns));
    EXPECT_TRUE(world.run_until([&] { return pulls().counts().reads > before + 2; }));
    EXPECT_GT(pulls().bytes_under_way(), 0U);
    return id;
  }
  std::string object(std::string_view id) {
    const Result<Object> found = node.process->store.find(test::as_bytes(id));
    if (!found) return std::string(text(found.code()));
    const std::byte* body = node.process->writer.base() + found->object.value + ObjectParts::body_at();
    return {reinterpret_cast<const char*>(body), found->parts.body_bytes};
  }
  void expect_nothing_is_left() {
    ASSERT_TRUE(world.run_for(kSecond_ns));
    EXPECT_EQ(node.process->service->stat().creations, 0U);
    EXPECT_EQ(node.process->service->stat().creation_bytes, 0U);
    EXPECT_EQ(pulls().bytes_under_way(), 0U);
    EXPECT_TRUE(node.process->is_sound());
  }

 public:
  sim::World world{slow_network()};
  test::SimNode node{world};
  SimPeer peer{world, "client"};
  std::string memory = patterned(kBytes);
  wire::Place place = peer.lend(memory);
};

TEST_F(ObjectReads, bring_large_objects) {
  create();
  EXPECT_EQ(peer.finish(start_seal(peer, place)).code, Code::kOk);
  EXPECT_TRUE(object("apple") == memory);
  expect_nothing_is_left();
}

TEST_F(ObjectReads, an_abort_is_answered_when_nothing_is_read_any_more) {
  create();
  const uint64_t seal = start_seal(peer, place);
  const uint64_t give_up = peer.start(Method::kAbort, id_body("apple", 7));
  const uint64_t again = peer.start(Method::kAbort, id_body("apple", 7));
  EXPECT_EQ(peer.finish(seal).code, Code::kNotFound);
  EXPECT_EQ(peer.finish(give_up).code, Code::kOk);
  EXPECT_EQ(pulls().bytes_under_way(), 0U);
  EXPECT_EQ(peer.finish(again).code, Code::kOk);
  const uint64_t reads = pulls().counts().reads;
  expect_nothing_is_left();
  EXPECT_EQ(pulls().counts().reads, reads);
  EXPECT_LT(pulls().counts().bytes, kBytes);
  EXPECT_EQ(object("apple"), "not_found");
}

TEST_F(ObjectReads, a_creation_that_is_ending_is_made_again_only_afterwards) {
  create();
  (void)start_seal(peer, place);
  const uint64_t give_up = peer.start(Method::kAbort, id_body("apple", 7));
  const uint64_t other = peer.start(Method::kCreate, create_body("apple", 8, {.body = 10}));
  EXPECT_EQ(peer.finish(other).code, Code::kExists);
  EXPECT_EQ(peer.finish(give_up).code, Code::kOk);
  EXPECT_EQ(peer.call(Method::kCreate, create_body("apple", 8, {.body = 10})).code, Code::kOk);
}

TEST_F(ObjectReads, a_seal_whose_time_is_over_is_answered_and_can_be_sent_again) {
  create();
  const uint64_t seal = start_seal(peer, place, 5 * kMillisecond_ns);
  EXPECT_EQ(peer.finish(seal).code, Code::kDeadlineExceeded);
  EXPECT_EQ(pulls().bytes_under_way(), 0U) << "nothing is read after the answer";
  EXPECT_EQ(object("apple"), "not_found");
  EXPECT_EQ(peer.call(Method::kSeal, fill_body("apple", 7, kBytes, place)).code, Code::kOk);
  EXPECT_TRUE(object("apple") == memory);
}

TEST_F(ObjectReads, memory_that_is_taken_back_ends_the_seal) {
  create();
  const uint64_t seal = start_seal(peer, place);
  peer.take_back(place);
  EXPECT_EQ(peer.finish(seal).code, Code::kAccessDenied);
  EXPECT_EQ(object("apple"), "not_found");
  EXPECT_EQ(peer.call(Method::kSeal, fill_body("apple", 7, kBytes, peer.lend(memory))).code, Code::kOk);
  EXPECT_TRUE(object("apple") == memory);
}

TEST_F(ObjectReads, memory_that_changes_during_the_seal_is_a_mixture_of_its_creators_bytes) {
  create();
  const uint64_t seal = start_seal(peer, place);
  ASSERT_TRUE(world.run_until([&] { return pulls().counts().reads > 40; }));
  const std::string before = memory;
  for (char& byte : memory) byte = static_cast<char>(~byte);
  ASSERT_EQ(peer.finish(seal).code, Code::kOk);
  const std::string sealed = object("apple");
  ASSERT_EQ(sealed.size(), kBytes);
  uint64_t of_before = 0;
  for (size_t i = 0; i < kBytes; ++i) {
    const bool is_old = sealed[i] == before[i];
    ASSERT_TRUE(is_old || sealed[i] == memory[i]) << i;
    of_before += is_old ? 1 : 0;
  }
  EXPECT_GT(of_before, 0U);
  for (char& byte : memory) byte = 'x';
  ASSERT_TRUE(world.run_for(kSecond_ns));
  EXPECT_TRUE(object("apple") == sealed) << "sealed is immutable";
}

TEST_F(ObjectReads, a_second_seal_of_the_same_session_gets_the_same_answer) {
  create();
  const uint64_t first = start_seal(peer, place);
  const uint64_t second = peer.start(Method::kSeal, fill_body("apple", 7, kBytes, place));
  const Answer answer = peer.finish(first);
  EXPECT_EQ(answer.code, Code::kOk);
  const Answer other = peer.finish(second);
  EXPECT_EQ(other.code, Code::kOk);
  EXPECT_EQ(answer.bytes, other.bytes);
}

TEST_F(ObjectReads, a_session_that_ends_leaves_a_creation_that_is_read_again) {
  create();
  (void)start_seal(peer, place);
  peer.session->close();
  ASSERT_TRUE(world.run_until([&] { return node.process->server->session_count() == 0; }));
  EXPECT_EQ(node.process->service->counts().unclaimed, 1U);
  EXPECT_EQ(object("apple"), "not_found") << "what its seal began is not finished without it";
  peer.connect();
  EXPECT_EQ(peer.call(Method::kSeal, fill_body("apple", 7, kBytes, place)).code, Code::kOk);
  EXPECT_TRUE(object("apple") == memory);
  expect_nothing_is_left();
}

TEST_F(ObjectReads, a_peer_that_is_cut_off_leaves_nothing) {
  create();
  (void)start_seal(peer, place);
  world.cut(node.host, peer.host);
  ASSERT_TRUE(world.run_until([&] { return node.process->server->session_count() == 0; }));
  ASSERT_TRUE(world.run_for(ObjectService::kClaim_ns));
  EXPECT_EQ(object("apple"), "not_found");
  expect_nothing_is_left();
}

// The creator has a new session before the owner has seen the end of the old one.
TEST_F(ObjectReads, a_creation_that_is_claimed_while_it_is_read_is_sealed_whole) {
  create();
  const uint64_t old_seal = start_seal(peer, place);
  SimPeer other(world, "again");
  std::string copy = memory;
  const wire::Place elsewhere = other.lend(copy);
  ASSERT_EQ(other.call(Method::kCreate, create_body("apple", 7, {.body = kBytes})).code, Code::kOk);
  EXPECT_EQ(peer.finish(old_seal).code, Code::kAccessDenied);
  const uint64_t seal = other.start(Method::kSeal, fill_body("apple", 7, kBytes, elsewhere));
  EXPECT_EQ(other.finish(seal).code, Code::kOk);
  EXPECT_TRUE(object("apple") == memory);
  expect_nothing_is_left();
}

TEST_F(ObjectReads, a_claim_waits_for_the_reads_of_a_session_that_ends) {
  create();
  (void)start_seal(peer, place);
  SimPeer other(world, "again");
  std::string copy = memory;
  const wire::Place elsewhere = other.lend(copy);
  world.pause(peer.host);
  ASSERT_EQ(other.call(Method::kCreate, create_body("apple", 7, {.body = kBytes})).code, Code::kOk);
  const uint64_t seal = other.start(Method::kSeal, fill_body("apple", 7, kBytes, elsewhere));
  world.cut(node.host, peer.host);
  EXPECT_EQ(other.finish(seal).code, Code::kOk);
  EXPECT_TRUE(object("apple") == memory);
  expect_nothing_is_left();
}

TEST_F(ObjectReads, an_owner_that_dies_finds_the_creation_and_reads_it_from_its_beginning) {
  create();
  (void)start_seal(peer, place);
  world.crash(node.host);
  world.restart(node.host);
  peer.connect();
  EXPECT_EQ(node.process->service->counts().unclaimed, 1U);
  EXPECT_EQ(peer.call(Method::kSeal, fill_body("apple", 7, kBytes, place)).code, Code::kOk);
  EXPECT_TRUE(object("apple") == memory);
  expect_nothing_is_left();
}

TEST_F(ObjectReads, what_others_ask_meanwhile_is_answered) {
  create();
  SimPeer other(world, "other");
  const uint64_t seal = start_seal(peer, place);
  const uint64_t from_ns = world.now_ns();
  EXPECT_EQ(other.call(Method::kPut, put_body("fig", 1, "blue")).code, Code::kOk);
  EXPECT_EQ(other.call(Method::kAwait, await_body("fig")).code, Code::kOk);
  EXPECT_LT(world.now_ns() - from_ns, 2 * kMillisecond_ns);
  EXPECT_FALSE(peer.is_done(seal));
  EXPECT_EQ(peer.finish(seal).code, Code::kOk);
}

// Deletes, aborts and creations of the freed memory at every moment of a pull: what is sealed has its own
// bytes.
TEST_F(ObjectReads, no_read_lands_in_memory_that_has_another_object_by_then) {
  for (uint64_t turns = 0; turns < 40; ++turns) {
    ASSERT_EQ(peer.call(Method::kCreate, create_body("apple", 7 + turns, {.body = 30 * kMiB / 2})).code,
              Code::kOk);
    const uint64_t seal = peer.start(
        Method::kSeal, fill_body("apple", 7 + turns, 30 * kMiB / 2, place, turns * 100 * kMicrosecond_ns));
    ASSERT_TRUE(world.run_for(turns * 137 * kMicrosecond_ns));
    const uint64_t give_up = peer.start(Method::kAbort, id_body("apple", 7 + turns));
    const Code sealed = peer.finish(seal).code;
    const Code ended = peer.finish(give_up).code;
    if (sealed == Code::kOk) {
      EXPECT_EQ(peer.call(Method::kDelete, id_body("apple", 0)).code, Code::kOk);
    } else {
      EXPECT_EQ(ended, Code::kOk);
    }
    const std::string other = patterned(10'000, turns);
    ASSERT_EQ(peer.call(Method::kPut, put_body("fig", turns + 1, other)).code, Code::kOk);
    ASSERT_TRUE(world.run_for(30 * kMillisecond_ns));
    EXPECT_TRUE(object("fig") == other) << turns;
    ASSERT_EQ(peer.call(Method::kDelete, id_body("fig", 0)).code, Code::kOk);
  }
  expect_nothing_is_left();
}

}  // namespace
}  // namespace refract::object
