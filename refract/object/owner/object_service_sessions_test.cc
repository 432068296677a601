// SPDX-License-Identifier: Apache-2.0
// Whose creations are: what becomes of them when their session ends, or their owner, and who may speak for
// them. Over loopback; object_service_sim_test.cc has READs that are under way meanwhile.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/object/layout/object_birth.h"
#include "refract/object/testing/test_object_service.h"

namespace refract::object {
namespace {

using kv::test::patterned;
using test::Answer;
using test::await_body;
using test::create_body;
using test::fill_body;
using test::id_body;
using test::put_body;
using test::Served;
using wire::Method;

constexpr uint64_t kBytes = 100'000;

test::ServedOptions shared_memory() {
  test::ServedOptions options;
  options.link.messages_are_stores = true;
  return options;
}

class ObjectSessions : public testing::Test {
 protected:
  Code create(const Served::Peer& by, std::string_view id = "apple", bool wants_window = false) {
    return served.call(by, Method::kCreate, create_body(id, 7, {.body = kBytes}, 0, wants_window)).code;
  }
  Code seal(const Served::Peer& by, std::string_view id = "apple") {
    return served.call(by, Method::kSeal, fill_body(id, 7, kBytes, place)).code;
  }
  uint64_t creations() { return served.stat().creations; }

 public:
  Served served;
  std::string memory = patterned(kBytes);
  wire::Place place = served.lend(memory);
  Served::Peer peer = served.connect();
  Served::Peer other = served.connect();
};

TEST_F(ObjectSessions, another_living_session_has_no_access) {
  ASSERT_EQ(create(peer), Code::kOk);
  EXPECT_EQ(seal(other), Code::kAccessDenied);
  EXPECT_EQ(served.call(other, Method::kFilled, fill_body("apple", 7, 10, place)).code, Code::kAccessDenied);
  EXPECT_EQ(served.call(other, Method::kAbort, id_body("apple", 8)).code, Code::kExists);
  EXPECT_EQ(served.call(other, Method::kSeal, fill_body("apple", 8, kBytes, place)).code, Code::kNotFound)
      << "another creator knows of none";
  EXPECT_EQ(seal(peer), Code::kOk);
}

TEST_F(ObjectSessions, abort_with_the_claim_ends_the_creation_of_any_session) {
  ASSERT_EQ(create(peer), Code::kOk);
  EXPECT_EQ(served.call(other, Method::kAbort, id_body("apple", 7)).code, Code::kOk);
  EXPECT_EQ(creations(), 0U);
  EXPECT_EQ(seal(peer), Code::kNotFound);
  EXPECT_EQ(create(peer), Code::kNotFound) << "a call that comes late does not bring it back";
  EXPECT_EQ(served.call(peer, Method::kPut, put_body("apple", 7, "")).code, Code::kNotFound);
  EXPECT_EQ(served.call(other, Method::kPut, put_body("apple", 8, "")).code, Code::kOk);
}

TEST_F(ObjectSessions, a_create_that_comes_after_its_abort_is_refused) {
  EXPECT_EQ(served.call(peer, Method::kAbort, id_body("apple", 7)).code, Code::kNotFound);
  EXPECT_EQ(create(other), Code::kNotFound);
  EXPECT_EQ(creations(), 0U);
}

TEST_F(ObjectSessions, the_same_claim_with_other_lengths_is_refused) {
  ASSERT_EQ(create(peer), Code::kOk);
  for (const uint64_t bytes : {kBytes - 1, kBytes + 1, uint64_t{0}}) {
    EXPECT_EQ(served.call(other, Method::kCreate, create_body("apple", 7, {.body = bytes})).code,
              Code::kInvalidArgument);
  }
  EXPECT_EQ(served.call(other, Method::kPut, put_body("apple", 7, "red")).code, Code::kInvalidArgument);
  EXPECT_EQ(seal(peer), Code::kOk) << "it is still the first one's";
}

TEST_F(ObjectSessions, create_with_the_claim_takes_the_creation_over) {
  ASSERT_EQ(create(peer), Code::kOk);
  ASSERT_EQ(create(other), Code::kOk);
  EXPECT_EQ(served.owner->service->counts().claimed, 1U);
  EXPECT_EQ(seal(peer), Code::kAccessDenied);
  served.close(peer);
  EXPECT_EQ(served.owner->service->counts().unclaimed, 0U);
  EXPECT_EQ(seal(other), Code::kOk);
  EXPECT_TRUE(served.object("apple") == memory + "|");
}

TEST_F(ObjectSessions, over_a_network_a_creation_waits_for_its_creator) {
  ASSERT_EQ(create(peer), Code::kOk);
  ASSERT_EQ(create(peer, "fig"), Code::kOk);
  served.close(peer);
  EXPECT_EQ(served.owner->service->counts().unclaimed, 2U);
  served.pass(ObjectService::kClaim_ns - kSecond_ns);
  EXPECT_EQ(creations(), 2U);
  EXPECT_EQ(seal(other), Code::kOk) << "the claim says whose it is";
  served.pass(2 * kSecond_ns);
  EXPECT_EQ(creations(), 0U);
  EXPECT_EQ(served.owner->service->counts().given_up, 1U);
  EXPECT_EQ(seal(other, "fig"), Code::kNotFound);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
}

TEST_F(ObjectSessions, a_creation_that_was_claimed_again_has_its_whole_time_again) {
  ASSERT_EQ(create(peer), Code::kOk);
  served.close(peer);
  served.pass(6 * kSecond_ns);
  ASSERT_EQ(create(other), Code::kOk);
  served.close(other);
  served.pass(6 * kSecond_ns);
  EXPECT_EQ(creations(), 1U);
  served.pass(5 * kSecond_ns);
  EXPECT_EQ(creations(), 0U);
}

TEST_F(ObjectSessions, windows_and_waits_end_with_their_session) {
  ASSERT_EQ(create(peer, "apple", true), Code::kOk);
  (void)served.start_call(peer, Method::kAwait, await_body("fig", wire::kForever));
  (void)served.start_call(peer, Method::kCreate, create_body("large", 1, {.body = 8 * kMiB}, wire::kForever));
  EXPECT_EQ(served.owner->windows.open_count(), 1U);
  EXPECT_EQ(served.owner->service->counts().waiting_for_room, 1U);
  served.close(peer);
  const ObjectService::Counts counts = served.owner->service->counts();
  EXPECT_EQ(served.owner->windows.open_count(), 0U);
  EXPECT_EQ(counts.waiting_for_objects, 0U);
  EXPECT_EQ(counts.waiting_for_room, 0U);
  EXPECT_EQ(served.call(other, Method::kPut, put_body("fig", 1, "")).code, Code::kOk);
}

TEST_F(ObjectSessions, a_session_has_so_many_creations) {
  for (size_t i = 0; i < wire::kCreationsPerSession; ++i) {
    ASSERT_EQ(served.call(peer, Method::kCreate, create_body("id" + std::to_string(i), 1, {})).code,
              Code::kOk);
  }
  EXPECT_EQ(served.call(peer, Method::kCreate, create_body("more", 1, {})).code, Code::kOverloaded);
  EXPECT_EQ(served.call(peer, Method::kPut, put_body("put", 1, "")).code, Code::kOk)
      << "it is none afterwards";
  ASSERT_EQ(create(other), Code::kOk);
  EXPECT_EQ(create(peer), Code::kOverloaded) << "also by claims";
  EXPECT_EQ(served.call(peer, Method::kAbort, id_body("id0", 1)).code, Code::kOk);
  EXPECT_EQ(create(peer), Code::kOk);
}

TEST(ObjectSessionsOfSharedMemory, a_creation_ends_with_its_session) {
  Served served(shared_memory());
  Served::Peer peer = served.connect();
  const Served::Peer other = served.connect();
  ASSERT_EQ(served.call(peer, Method::kCreate, create_body("apple", 7, {.body = 8 * kMiB})).code, Code::kOk);
  const uint64_t waits =
      served.start_call(other, Method::kCreate, create_body("fig", 8, {.body = 8 * kMiB}, wire::kForever));
  served.close(peer);
  EXPECT_EQ(served.finish(other, waits).code, Code::kOk) << "its room goes to those that wait";
  EXPECT_EQ(served.owner->service->counts().given_up, 1U);
  EXPECT_TRUE(served.owner->is_sound());
}

// --- The owner starts again ---

TEST_F(ObjectSessions, creations_survive_their_owner) {
  ASSERT_EQ(create(peer), Code::kOk);
  ASSERT_EQ(create(peer, "fig"), Code::kOk);
  ASSERT_EQ(served.call(peer, Method::kPut, put_body("put", 1, "stays")).code, Code::kOk);
  ASSERT_EQ(served.call(peer, Method::kFilled, fill_body("apple", 7, kBytes, place)).code, Code::kOk);
  peer.reset();
  other.reset();
  served.stop();
  served.start();
  EXPECT_EQ(creations(), 2U);
  EXPECT_EQ(served.owner->service->counts().unclaimed, 2U);
  EXPECT_EQ(served.object("put"), "stays|");
  peer = served.connect();
  EXPECT_EQ(served.call(peer, Method::kSeal, fill_body("apple", 7, kBytes, {})).code, Code::kAccessDenied)
      << "what was READ is not known any more";
  place = served.lend(memory);
  EXPECT_EQ(seal(peer), Code::kOk);
  EXPECT_TRUE(served.object("apple") == memory + "|");
  served.pass(ObjectService::kClaim_ns);
  EXPECT_EQ(creations(), 0U);
  EXPECT_EQ(served.object("fig"), "not_found");
  EXPECT_TRUE(served.owner->is_sound());
}

TEST_F(ObjectSessions, a_put_whose_owner_ended_in_the_middle_of_it_is_made_when_it_is_sent_again) {
  const auto id = test::as_bytes("apple");
  ASSERT_TRUE(
      served.owner->store.create({.id = id, .birth = birth_of(id, 7), .body_bytes = 3, .metadata_bytes = 2}));
  peer.reset();
  other.reset();
  served.stop();
  served.start();
  ASSERT_EQ(served.owner->service->counts().unclaimed, 1U);
  peer = served.connect();
  EXPECT_EQ(served.call(peer, Method::kPut, put_body("apple", 8, "red", "m1")).code, Code::kExists);
  EXPECT_EQ(served.call(peer, Method::kPut, put_body("apple", 7, "red", "m1")).code, Code::kOk);
  EXPECT_EQ(served.object("apple"), "red|m1");
  EXPECT_EQ(served.owner->service->counts().creations, 0U);
  served.pass(2 * ObjectService::kClaim_ns);
  EXPECT_EQ(served.object("apple"), "red|m1");
}

TEST_F(ObjectSessions, a_seal_whose_answer_was_lost_with_the_owner_is_known) {
  ASSERT_EQ(create(peer), Code::kOk);
  ASSERT_EQ(seal(peer), Code::kOk);
  peer.reset();
  other.reset();
  served.stop();
  served.start();
  peer = served.connect();
  EXPECT_EQ(served.call(peer, Method::kSeal, fill_body("apple", 7, kBytes, {})).code, Code::kOk);
  EXPECT_EQ(served.call(peer, Method::kSeal, fill_body("apple", 8, kBytes, {})).code, Code::kExists);
}

}  // namespace
}  // namespace refract::object
