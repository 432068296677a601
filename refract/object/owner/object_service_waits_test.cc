// SPDX-License-Identifier: Apache-2.0
// What waits at the owner of objects: for room, for a seal, for notices. That each wait ends by what it waits
// for, by its time and with its session; that there are bounds; that an owner where nothing waits is idle.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/object/testing/test_object_service.h"

namespace refract::object {
namespace {

using test::Answer;
using test::await_body;
using test::body_of;
using test::create_body;
using test::fill_body;
using test::id_body;
using test::many_body;
using test::put_body;
using test::Served;
using wire::Method;

constexpr uint64_t kHalf = 4 * kMiB;  // Of the limit.

class ObjectWaits : public testing::Test {
 protected:
  Answer call(Method method, std::string_view body) { return served.call(peer, method, body); }
  // An object of half the limit, which nothing holds.
  void seal_half(std::string_view id) {
    std::string memory(kHalf, 'x');
    const wire::Place place = served.lend(memory);
    ASSERT_EQ(call(Method::kCreate, create_body(id, 1, {.body = kHalf})).code, Code::kOk);
    ASSERT_EQ(call(Method::kSeal, fill_body(id, 1, kHalf, place)).code, Code::kOk);
    served.take_back(place);
  }
  Offset place_of(std::string_view id) { return served.owner->store.find(test::as_bytes(id))->object; }
  uint64_t start_create(std::string_view id, uint64_t timeout_ns, uint64_t bytes = kHalf) {
    return served.start_call(peer, Method::kCreate, create_body(id, 1, {.body = bytes}, timeout_ns));
  }
  uint64_t waiting() { return served.owner->service->counts().waiting_for_room; }

 public:
  Served served;
  Served::Peer peer = served.connect();
};

TEST_F(ObjectWaits, a_full_store_evicts_what_nothing_holds) {
  seal_half("a");
  seal_half("b");
  seal_half("c");
  EXPECT_EQ(served.stat().evicted_ever, 1U);
  EXPECT_EQ(served.object("a"), "not_found");
  EXPECT_EQ(served.stat().used, 2 * kHalf);
}

TEST_F(ObjectWaits, no_space_names_what_takes_the_room) {
  seal_half("held");
  served.owner->readers.pin(place_of("held"));
  ASSERT_EQ(call(Method::kPut, put_body("kept", 1, std::string(1000, 'k'))).code, Code::kOk);
  ASSERT_EQ(call(Method::kKeep, id_body("kept", 0, 1)).code, Code::kOk);
  ASSERT_EQ(call(Method::kCreate, create_body("open", 1, {.body = kMiB})).code, Code::kOk);
  const Answer refused = call(Method::kCreate, create_body("new", 1, {.body = kHalf}));
  ASSERT_EQ(refused.code, Code::kNoSpace);
  const auto reply = refused.as<wire::NoSpaceReply>();
  EXPECT_EQ(reply.limit, 2 * kHalf);
  EXPECT_EQ(reply.held, kHalf);
  EXPECT_EQ(reply.kept, 1000U);
  EXPECT_EQ(reply.in_creation, kMiB);
  EXPECT_EQ(served.stat().objects, 2U) << "nothing went for it";
  EXPECT_EQ(served.owner->service->counts().no_space, 1U);
}

TEST_F(ObjectWaits, create_waits_until_its_time_is_over) {
  seal_half("a");
  served.owner->readers.pin(place_of("a"));
  seal_half("b");
  served.owner->readers.pin(place_of("b"));
  const uint64_t from_ns = served.shard.now_ns();
  const uint64_t id = start_create("c", kSecond_ns);
  EXPECT_EQ(waiting(), 1U);
  EXPECT_EQ(served.finish(peer, id).code, Code::kNoSpace);
  const uint64_t took_ns = served.shard.now_ns() - from_ns;
  EXPECT_GE(took_ns, kSecond_ns);
  EXPECT_LE(took_ns, kSecond_ns + 20 * kMillisecond_ns);
  EXPECT_EQ(waiting(), 0U);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
}

TEST_F(ObjectWaits, create_continues_when_a_pin_ends_which_no_message_says) {
  seal_half("a");
  seal_half("b");
  const Offset a = place_of("a");
  served.owner->readers.pin(a);
  served.owner->readers.pin(place_of("b"));
  const uint64_t id = start_create("c", wire::kForever);
  served.pass(kSecond_ns);
  EXPECT_EQ(waiting(), 1U);
  served.owner->readers.unpin(a);
  const uint64_t from_ns = served.shard.now_ns();
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk);
  EXPECT_LE(served.shard.now_ns() - from_ns, 20 * kMillisecond_ns);
  EXPECT_EQ(served.object("a"), "not_found");
}

TEST_F(ObjectWaits, create_continues_when_something_is_deleted_given_up_sealed_or_kept_no_more) {
  ASSERT_EQ(call(Method::kCreate, create_body("open", 1, {.body = kHalf})).code, Code::kOk);
  seal_half("kept");
  ASSERT_EQ(call(Method::kKeep, id_body("kept", 0, 1)).code, Code::kOk);
  const uint64_t now_ns = served.shard.now_ns();

  uint64_t id = start_create("1", wire::kForever);
  ASSERT_EQ(waiting(), 1U);
  ASSERT_EQ(call(Method::kDelete, id_body("kept", 0)).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk);

  id = start_create("2", wire::kForever);
  ASSERT_EQ(waiting(), 1U);
  ASSERT_EQ(call(Method::kAbort, id_body("1", 1)).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk);

  id = start_create("3", wire::kForever);
  ASSERT_EQ(waiting(), 1U);
  std::string memory(kHalf, 'x');
  ASSERT_EQ(call(Method::kSeal, fill_body("2", 1, kHalf, served.lend(memory))).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk) << "what is sealed can go";
  EXPECT_EQ(served.object("2"), "not_found");

  memory.assign(kHalf, 'y');
  ASSERT_EQ(call(Method::kSeal, fill_body("3", 1, kHalf, served.lend(memory))).code, Code::kOk);
  ASSERT_EQ(call(Method::kKeep, id_body("3", 0, 1)).code, Code::kOk);
  id = start_create("4", wire::kForever);
  ASSERT_EQ(waiting(), 1U);
  ASSERT_EQ(call(Method::kKeep, id_body("3", 0, 0)).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk);
  EXPECT_EQ(served.shard.now_ns(), now_ns) << "none of them waited for a timer";
}

TEST_F(ObjectWaits, an_abort_ends_a_create_that_still_waits) {
  ASSERT_EQ(call(Method::kCreate, create_body("a", 1, {.body = 2 * kHalf})).code, Code::kOk);
  const uint64_t id = start_create("b", wire::kForever);
  ASSERT_EQ(waiting(), 1U);
  EXPECT_EQ(call(Method::kAbort, id_body("b", 2)).code, Code::kNotFound) << "another creator's claim";
  ASSERT_EQ(waiting(), 1U);
  EXPECT_EQ(call(Method::kAbort, id_body("b", 1)).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, id).code, Code::kNotFound);
  ASSERT_EQ(call(Method::kAbort, id_body("a", 1)).code, Code::kOk);
  served.pass(kSecond_ns);
  EXPECT_EQ(served.stat().creations, 0U);
}

TEST_F(ObjectWaits, put_waits_with_its_bytes) {
  ASSERT_EQ(call(Method::kCreate, create_body("a", 1, {.body = 2 * kHalf})).code, Code::kOk);
  const uint64_t id = served.start_call(peer, Method::kPut, put_body("b", 1, "red", "m1", wire::kForever));
  EXPECT_EQ(served.owner->service->counts().waiting_bytes, 6U);
  ASSERT_EQ(call(Method::kAbort, id_body("a", 1)).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk);
  EXPECT_EQ(served.object("b"), "red|m1");
  EXPECT_EQ(served.owner->service->counts().waiting_bytes, 0U);
}

TEST_F(ObjectWaits, put_many_does_not_wait_for_what_others_hold) {
  ASSERT_EQ(call(Method::kCreate, create_body("a", 1, {.body = 2 * kHalf - 3})).code, Code::kOk);
  const std::vector<std::string> puts = {put_body("b", 1, "red"), put_body("c", 1, "green")};
  const Answer answer = call(Method::kPutMany, many_body(puts));
  const auto codes = answer.as<std::array<uint16_t, 2>>();
  EXPECT_EQ(codes[0], 0U);
  EXPECT_EQ(code_from_wire(codes[1]), Code::kNoSpace);
}

TEST_F(ObjectWaits, a_small_create_does_not_stand_behind_a_large_one) {
  ASSERT_EQ(call(Method::kCreate, create_body("a", 1, {.body = kHalf})).code, Code::kOk);
  const uint64_t large = start_create("large", wire::kForever, kHalf + 1);
  ASSERT_EQ(waiting(), 1U);
  EXPECT_EQ(call(Method::kCreate, create_body("small", 1, {.body = 1000})).code, Code::kOk);
  ASSERT_EQ(call(Method::kAbort, id_body("a", 1)).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, large).code, Code::kOk);
}

// Small ones come and go so that there is never room for the large one, but in its turn.
TEST_F(ObjectWaits, a_large_create_is_overtaken_so_often_and_then_has_its_turn) {
  constexpr uint64_t kSmall = 3 * kMiB;
  ASSERT_EQ(call(Method::kCreate, create_body("0", 1, {.body = kSmall})).code, Code::kOk);
  const uint64_t large = start_create("large", wire::kForever, 6 * kMiB);
  int number = 0;
  uint64_t held_back = 0;
  while (held_back == 0 && number < 100) {
    const uint64_t id = start_create(std::to_string(number + 1), 0, kSmall);
    if (!peer->done(id)) {
      held_back = id;
      break;
    }
    ASSERT_EQ(peer->finish(id).code, Code::kOk);
    ASSERT_EQ(call(Method::kAbort, id_body(std::to_string(number), 1)).code, Code::kOk);
    ASSERT_FALSE(peer->done(large));
    ++number;
  }
  EXPECT_GE(number, 16);
  EXPECT_LE(number, 20);
  ASSERT_EQ(call(Method::kAbort, id_body(std::to_string(number), 1)).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, large).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, held_back).code, Code::kNoSpace) << "its time was over";
}

TEST_F(ObjectWaits, a_create_that_no_turn_helps_holds_others_up_for_a_moment_only) {
  ASSERT_EQ(call(Method::kCreate, create_body("stays", 1, {.body = kHalf})).code, Code::kOk);
  (void)start_create("large", wire::kForever, 2 * kHalf);
  const uint64_t from_ns = served.shard.now_ns();
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(call(Method::kCreate, create_body("small", i, {.body = 1000}, kSecond_ns)).code, Code::kOk);
    ASSERT_EQ(call(Method::kAbort, id_body("small", i)).code, Code::kOk);
  }
  EXPECT_GE(served.shard.now_ns(), from_ns + 500 * kMillisecond_ns) << "16, 32, 64, 128, 256";
  EXPECT_LE(served.shard.now_ns(), from_ns + kSecond_ns);
}

TEST_F(ObjectWaits, what_departed_and_is_let_go_is_given_back_before_anything_lacks_room) {
  seal_half("a");
  seal_half("b");
  const Offset a = place_of("a");
  const Offset b = place_of("b");
  served.owner->readers.pin(a);
  served.owner->readers.pin(b);
  ASSERT_EQ(call(Method::kDelete, id_body("a", 0)).code, Code::kOk);
  ASSERT_EQ(call(Method::kCreate, create_body("c", 1, {.body = kHalf})).code, Code::kNoSpace);
  served.owner->readers.unpin(a);
  EXPECT_EQ(call(Method::kCreate, create_body("c", 1, {.body = kHalf})).code, Code::kOk);
  served.owner->readers.unpin(b);
}

TEST_F(ObjectWaits, what_departed_is_given_back_soon_after_it_is_let_go) {
  seal_half("a");
  const Offset a = place_of("a");
  served.owner->readers.pin(a);
  ASSERT_EQ(call(Method::kDelete, id_body("a", 0)).code, Code::kOk);
  served.pass(3600 * kSecond_ns);
  EXPECT_EQ(served.stat().departed, 1U);
  served.owner->readers.unpin(a);
  served.pass(10 * kSecond_ns);
  EXPECT_EQ(served.stat().departed, 0U);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
}

TEST_F(ObjectWaits, a_session_has_so_many_creates_that_wait) {
  ASSERT_EQ(call(Method::kCreate, create_body("a", 1, {.body = 2 * kHalf})).code, Code::kOk);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 32; ++i) ids.push_back(start_create("w" + std::to_string(i), wire::kForever, 100));
  EXPECT_EQ(waiting(), 32U);
  EXPECT_EQ(call(Method::kCreate, create_body("more", 1, {.body = 100}, wire::kForever)).code,
            Code::kOverloaded);
  Served::Peer other = served.connect();
  const uint64_t id =
      served.start_call(other, Method::kCreate, create_body("other", 1, {.body = 100}, wire::kForever));
  EXPECT_EQ(waiting(), 33U);
  for (const uint64_t one : ids) (void)peer->finish(one);
  served.close(peer);
  EXPECT_EQ(served.finish(other, id).code, Code::kOk)
      << "what it made waits for it no longer than its session";
  EXPECT_EQ(waiting(), 0U);
}

TEST(ObjectWaitsForMemory, create_waits_for_memory_that_comes_whatever_its_time) {
  Served served({.chunks = 12, .chunks_max = 64, .limit = 32 * kMiB});
  Served::Peer peer = served.connect();
  served.growth.allowed = true;
  ASSERT_EQ(served.call(peer, Method::kPut, put_body("old", 1, "stays")).code, Code::kOk);
  const uint64_t id = served.start_call(peer, Method::kCreate, create_body("a", 1, {.body = 16 * kMiB}));
  EXPECT_EQ(served.owner->service->counts().waiting_for_room, 1U);
  EXPECT_GE(served.growth.wanted_bytes_max, 16 * kMiB);
  served.add_chunks(40);
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk);
  EXPECT_EQ(served.object("old"), "stays|") << "nothing goes while memory comes";
  // Now it does not come.
  const uint64_t refused = served.start_call(peer, Method::kCreate, create_body("b", 1, {.body = 15 * kMiB}));
  served.growth.allowed = false;
  served.owner->service->on_growth_refused();
  const Code code = served.finish(peer, refused).code;
  EXPECT_TRUE(code == Code::kNoSpace || code == Code::kOk) << text(code);
}

// --- Readers ---

TEST_F(ObjectWaits, await_ends_with_the_seal) {
  const uint64_t before = served.start_call(peer, Method::kAwait, await_body("apple", wire::kForever));
  const uint64_t fetch = served.start_call(peer, Method::kFetch, await_body("apple", wire::kForever));
  EXPECT_EQ(served.owner->service->counts().waiting_for_objects, 2U);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns) << "what waits without end needs no timer";
  ASSERT_EQ(call(Method::kCreate, create_body("apple", 1, {})).code, Code::kOk);
  EXPECT_FALSE(peer->done(before));
  ASSERT_EQ(call(Method::kSeal, fill_body("apple", 1, 0, {})).code, Code::kOk);
  const Answer answer = served.finish(peer, before);
  ASSERT_EQ(answer.code, Code::kOk);
  EXPECT_EQ(answer.as<wire::ObjectReply>().birth, birth_of(test::as_bytes("apple"), 1));
  EXPECT_EQ(served.finish(peer, fetch).as<wire::FetchReply>().object.birth,
            answer.as<wire::ObjectReply>().birth);
  EXPECT_EQ(served.owner->service->counts().waiting_for_objects, 0U);
}

TEST_F(ObjectWaits, await_ends_with_its_time) {
  const uint64_t from_ns = served.shard.now_ns();
  const uint64_t late = served.start_call(peer, Method::kAwait, await_body("fig", 2 * kSecond_ns));
  const uint64_t soon = served.start_call(peer, Method::kAwait, await_body("apple", kSecond_ns));
  EXPECT_EQ(served.finish(peer, soon).code, Code::kNotFound);
  EXPECT_EQ(served.shard.now_ns(), from_ns + kSecond_ns);
  EXPECT_EQ(served.finish(peer, late).code, Code::kNotFound);
  EXPECT_EQ(served.shard.now_ns(), from_ns + 2 * kSecond_ns);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
}

TEST_F(ObjectWaits, a_session_has_so_many_calls_that_wait_for_objects) {
  Served::Peer other = served.connect();
  for (size_t i = 0; i < wire::kAwaitsPerSession - 1; ++i) {
    (void)served.start_call(other, Method::kAwait, await_body("id" + std::to_string(i), wire::kForever));
  }
  const Answer first =
      served.call(other, Method::kNotices, body_of(wire::NoticesRequest{.cursor = 0, .timeout_ns = 0}));
  const uint64_t cursor = first.as<wire::NoticesReply>().next;
  const std::string notices = body_of(wire::NoticesRequest{.cursor = cursor, .timeout_ns = wire::kForever});
  (void)served.start_call(other, Method::kNotices, notices);
  EXPECT_EQ(served.call(other, Method::kAwait, await_body("more", wire::kForever)).code, Code::kOverloaded);
  EXPECT_EQ(served.call(other, Method::kNotices, notices).code, Code::kOverloaded);
  EXPECT_EQ(served.call(other, Method::kAwait, await_body("more")).code, Code::kNotFound)
      << "what does not wait is answered";
  EXPECT_EQ(call(Method::kPut, put_body("id0", 1, "")).code, Code::kOk);
  EXPECT_EQ(served.owner->service->counts().waiting_for_objects, wire::kAwaitsPerSession - 2);
  EXPECT_EQ(served.owner->service->counts().waiting_for_notices, 0U);
  served.close(other);
  EXPECT_EQ(served.owner->service->counts().waiting_for_objects, 0U);
}

TEST_F(ObjectWaits, await_of_an_object_that_is_put_and_deleted_in_one_turn_waits_on) {
  const uint64_t id = served.start_call(peer, Method::kAwait, await_body("apple", wire::kForever));
  ASSERT_TRUE(served.owner->store.create({.id = test::as_bytes("apple"), .birth = 5}));
  ASSERT_TRUE(served.owner->store.seal(test::as_bytes("apple"), 5));
  ASSERT_TRUE(served.owner->store.erase(test::as_bytes("apple"), 0));
  served.owner->service->on_store_changed();
  served.settle();
  EXPECT_FALSE(peer->done(id));
  EXPECT_EQ(call(Method::kPut, put_body("apple", 1, "")).code, Code::kOk);
  EXPECT_EQ(served.finish(peer, id).code, Code::kOk);
}

}  // namespace
}  // namespace refract::object
