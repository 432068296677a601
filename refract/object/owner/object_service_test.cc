// SPDX-License-Identifier: Apache-2.0
// The calls that make, read and end objects, one after the other: what each answers, by hand, so that also
// what no client of ours sends is seen. Over loopback.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "refract/object/testing/test_object_service.h"

namespace refract::object::object_service_test {
namespace {

using kv::test::patterned;
using test::Answer;
using test::await_body;
using test::body_of;
using test::create_body;
using test::fill_body;
using test::id_body;
using test::Lengths;
using test::many_body;
using test::put_body;
using test::Served;
using wire::Method;

constexpr wire::Place kNowhere{};

class ObjectCalls : public testing::Test {
 protected:
  Answer call(Method method, std::string_view body) { return served.call(peer, method, body); }
  Code create(std::string_view id, uint64_t claim, const Lengths& lengths) {
    return call(Method::kCreate, create_body(id, claim, lengths)).code;
  }
  Code put(std::string_view id, uint64_t claim, std::string_view body, std::string_view metadata = {}) {
    return call(Method::kPut, put_body(id, claim, body, metadata)).code;
  }
  void expect_nothing_is_left() {
    const wire::StatReply stat = served.stat();
    EXPECT_EQ(stat.creations, 0U);
    EXPECT_EQ(stat.creation_bytes, 0U);
    EXPECT_EQ(served.owner->windows.open_count(), 0U);
    EXPECT_EQ(served.owner->fetches.count(), 0U);
    EXPECT_TRUE(served.owner->is_sound());
  }

 public:
  Served served;
  Served::Peer peer = served.connect();
};

TEST_F(ObjectCalls, create_and_seal_read_the_creators_memory) {
  const Lengths lengths{.body = 100'003, .metadata = 5};
  std::string memory = patterned(lengths.filled());
  const wire::Place place = served.lend(memory);
  const Answer created = call(Method::kCreate, create_body("apple", 7, lengths));
  ASSERT_EQ(created.code, Code::kOk);
  const auto reply = created.as<wire::CreateReply>();
  EXPECT_EQ(reply.object_at % kBodyAlignment, 0U);
  EXPECT_EQ(reply.window.key, 0U);
  EXPECT_EQ(served.stat().creation_bytes, lengths.body + lengths.metadata);
  EXPECT_EQ(call(Method::kAwait, await_body("apple")).code, Code::kNotFound) << "it is not sealed";
  const Answer sealed = call(Method::kSeal, fill_body("apple", 7, lengths.filled(), place));
  ASSERT_EQ(sealed.code, Code::kOk);
  EXPECT_EQ(sealed.as<wire::SealReply>().object_at, reply.object_at);
  EXPECT_TRUE(served.object("apple") ==
              memory.substr(0, lengths.body) + "|" + memory.substr(memory.size() - 5));
  const auto found = call(Method::kAwait, await_body("apple")).as<wire::ObjectReply>();
  EXPECT_EQ(found.object_at, reply.object_at);
  EXPECT_EQ(found.birth, birth_of(test::as_bytes("apple"), 7));
  EXPECT_EQ(found.body_bytes, lengths.body);
  EXPECT_EQ(found.metadata_bytes, lengths.metadata);
  expect_nothing_is_left();
}

TEST_F(ObjectCalls, objects_of_every_length_have_their_bytes) {
  uint64_t claim = 1;
  for (const uint64_t body : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{8}, uint64_t{64},
                              256 * kKiB - 1, 256 * kKiB, 256 * kKiB + 1, 2 * kMiB}) {
    for (const uint32_t metadata : {0U, 1U, 1000U}) {
      const Lengths lengths{.body = body, .metadata = metadata};
      const std::string id = "of " + std::to_string(body) + " and " + std::to_string(metadata);
      std::string memory = patterned(lengths.filled() + 8, claim);
      const wire::Place place = served.lend(memory);
      ASSERT_EQ(create(id, claim, lengths), Code::kOk) << id;
      const wire::Place source = lengths.filled() > 0 ? place : kNowhere;
      ASSERT_EQ(call(Method::kSeal, fill_body(id, claim, lengths.filled(), source)).code, Code::kOk) << id;
      const uint64_t metadata_at = lengths.filled() - metadata;
      EXPECT_TRUE(served.object(id) == memory.substr(0, body) + "|" + memory.substr(metadata_at, metadata));
      EXPECT_EQ(call(Method::kDelete, id_body(id, 0)).code, Code::kOk);
      ++claim;
    }
  }
  EXPECT_EQ(served.stat().used, 0U);
}

TEST_F(ObjectCalls, what_is_filled_is_read_before_the_seal) {
  const Lengths lengths{.body = 3 * kMiB, .metadata = 0};
  std::string memory = patterned(lengths.filled());
  const wire::Place place = served.lend(memory);
  ASSERT_EQ(create("apple", 7, lengths), Code::kOk);
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, kMiB, place)).code, Code::kOk);
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, 0, kNowhere)).code, Code::kOk) << "says nothing";
  served.settle();
  ASSERT_TRUE(served.run_until([&] { return served.owner->service->pulls().counts().bytes == kMiB; }));
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, 2 * kMiB, place)).code, Code::kOk);
  ASSERT_TRUE(served.run_until([&] { return served.owner->service->pulls().counts().bytes == 2 * kMiB; }));
  const std::string before = memory.substr(0, 2 * kMiB);
  // What was final is not looked at again.
  std::fill(memory.begin(), memory.begin() + static_cast<ptrdiff_t>(2 * kMiB), 'x');
  ASSERT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), place)).code, Code::kOk);
  EXPECT_TRUE(served.object("apple") == before + memory.substr(2 * kMiB) + "|");
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, kMiB, place)).code, Code::kOk) << "it knows more";
  expect_nothing_is_left();
}

TEST_F(ObjectCalls, all_that_was_filled_needs_no_source_at_the_seal) {
  const Lengths lengths{.body = 100'000, .metadata = 0};
  std::string memory = patterned(lengths.filled());
  const wire::Place place = served.lend(memory);
  ASSERT_EQ(create("apple", 7, lengths), Code::kOk);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), kNowhere)).code, Code::kAccessDenied);
  ASSERT_EQ(call(Method::kFilled, fill_body("apple", 7, lengths.filled(), place)).code, Code::kOk);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), kNowhere)).code, Code::kOk);
  EXPECT_TRUE(served.object("apple") == memory + "|");
}

TEST_F(ObjectCalls, seal_says_the_same_when_it_is_sent_again) {
  ASSERT_EQ(create("apple", 7, {}), Code::kOk);
  const Answer first = call(Method::kSeal, fill_body("apple", 7, 0, kNowhere));
  ASSERT_EQ(first.code, Code::kOk);
  const Answer second = call(Method::kSeal, fill_body("apple", 7, 0, kNowhere));
  EXPECT_EQ(second.code, Code::kOk);
  EXPECT_EQ(second.bytes, first.bytes);
  EXPECT_EQ(served.stat().sealed_ever, 1U);
  const Answer created = call(Method::kCreate, create_body("apple", 7, {}));
  EXPECT_EQ(created.as<wire::CreateReply>().is_sealed, 1U);
  EXPECT_EQ(created.as<wire::CreateReply>().object_at, first.as<wire::SealReply>().object_at);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 8, 0, kNowhere)).code, Code::kExists);
  EXPECT_EQ(call(Method::kSeal, fill_body("fig", 7, 0, kNowhere)).code, Code::kNotFound);
  ASSERT_EQ(call(Method::kDelete, id_body("apple", 0)).code, Code::kOk);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, 0, kNowhere)).code, Code::kIndeterminate);
}

TEST_F(ObjectCalls, an_id_has_one_creator) {
  ASSERT_EQ(create("apple", 7, {.body = 10}), Code::kOk);
  EXPECT_EQ(create("apple", 8, {.body = 10}), Code::kExists);
  EXPECT_EQ(put("apple", 8, "red"), Code::kExists);
  EXPECT_EQ(put("apple", 7, "red"), Code::kInvalidArgument) << "the same claim, with other lengths";
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 8, 0, kNowhere)).code, Code::kExists);
  EXPECT_EQ(call(Method::kAbort, id_body("apple", 8)).code, Code::kExists);
  EXPECT_EQ(create("apple", 7, {.body = 10}), Code::kOk) << "the same call";
  EXPECT_EQ(served.stat().creations, 1U);
  EXPECT_EQ(call(Method::kAbort, id_body("apple", 7)).code, Code::kOk);
  EXPECT_EQ(call(Method::kAbort, id_body("apple", 7)).code, Code::kNotFound);
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, 0, kNowhere)).code, Code::kNotFound);
  EXPECT_EQ(put("apple", 8, "red"), Code::kNotFound) << "it was aborted, too";
  EXPECT_EQ(put("apple", 9, "red"), Code::kOk);
  EXPECT_EQ(put("apple", 9, "red"), Code::kOk) << "the same call";
  EXPECT_EQ(put("apple", 10, "red"), Code::kExists);
  EXPECT_EQ(served.object("apple"), "red|");
  expect_nothing_is_left();
}

TEST_F(ObjectCalls, puts_of_one_call_have_a_code_each) {
  ASSERT_EQ(put("b", 1, "there"), Code::kOk);
  const std::vector<std::string> puts = {put_body("a", 2, "one", "m"), put_body("b", 3, "two"),
                                         put_body("c", 4, "")};
  const Answer answer = call(Method::kPutMany, many_body(puts));
  ASSERT_EQ(answer.code, Code::kOk);
  ASSERT_EQ(answer.bytes.size(), 6U);
  const auto codes = answer.as<std::array<uint16_t, 3>>();
  EXPECT_EQ(codes[0], 0U);
  EXPECT_EQ(code_from_wire(codes[1]), Code::kExists);
  EXPECT_EQ(codes[2], 0U);
  EXPECT_EQ(served.object("a"), "one|m");
  EXPECT_EQ(served.object("b"), "there|");
  EXPECT_EQ(served.object("c"), "|");
  std::vector<std::string> too_many(wire::kPutsPerCall + 1, put_body("d", 5, ""));
  EXPECT_EQ(call(Method::kPutMany, many_body(too_many)).code, Code::kInvalidArgument);
  too_many.pop_back();
  EXPECT_EQ(call(Method::kPutMany, many_body(too_many)).code, Code::kOk);
}

TEST_F(ObjectCalls, padding_holds_nothing_of_what_was_there_before) {
  ASSERT_EQ(put("secret", 1, std::string(2000, 's')), Code::kOk);
  ASSERT_EQ(call(Method::kDelete, id_body("secret", 0)).code, Code::kOk);
  for (int i = 0; i < 20; ++i) {
    const std::string id = "id" + std::to_string(i);
    ASSERT_EQ(put(id, 2, "1", std::string(1900, 'm')), Code::kOk);
    const Result<Object> object = served.owner->store.find(test::as_bytes(id));
    ASSERT_TRUE(object);
    const std::byte* body = served.base() + object->object.value + ObjectParts::body_at();
    for (int at = 1; at < 8; ++at) ASSERT_EQ(body[at], std::byte{0});
  }
}

TEST_F(ObjectCalls, delete_names_the_holders_and_the_birth) {
  ASSERT_EQ(put("apple", 7, "red"), Code::kOk);
  const uint64_t birth = birth_of(test::as_bytes("apple"), 7);
  EXPECT_EQ(call(Method::kDelete, id_body("apple", birth + 1)).code, Code::kVersionMismatch);
  const Offset at = served.owner->store.find(test::as_bytes("apple"))->object;
  served.owner->readers.pin(at);
  served.owner->readers.pin(at);
  const Answer answer = call(Method::kDelete, id_body("apple", birth));
  ASSERT_EQ(answer.code, Code::kOk);
  EXPECT_EQ(answer.as<wire::DeleteReply>().holders, 2U);
  EXPECT_EQ(call(Method::kDelete, id_body("apple", 0)).code, Code::kNotFound);
  EXPECT_EQ(served.stat().departed, 1U);
  EXPECT_EQ(served.stat().departed_bytes, 3U);
  EXPECT_EQ(put("apple", 8, "green"), Code::kOk) << "the id is free at once";
  served.owner->readers.unpin(at);
  served.pass(kSecond_ns);
  EXPECT_EQ(served.stat().departed, 1U);
  served.owner->readers.unpin(at);
  // No call comes: a timer looks.
  served.pass(10 * kSecond_ns);
  EXPECT_EQ(served.stat().departed, 0U);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns) << "an owner that waits for nothing has no timer";
}

TEST_F(ObjectCalls, kept_objects_are_not_evicted) {
  ASSERT_EQ(put("kept", 1, std::string(1000, 'k')), Code::kOk);
  ASSERT_EQ(put("other", 2, std::string(1000, 'o')), Code::kOk);
  EXPECT_EQ(call(Method::kKeep, id_body("fig", 0, 1)).code, Code::kNotFound);
  EXPECT_EQ(call(Method::kKeep, id_body("kept", 77, 1)).code, Code::kVersionMismatch);
  EXPECT_EQ(call(Method::kKeep, id_body("kept", birth_of(test::as_bytes("kept"), 1), 1)).code, Code::kOk);
  EXPECT_EQ(served.stat().kept_bytes, 1000U);
  EXPECT_EQ(call(Method::kAwait, await_body("kept")).as<wire::ObjectReply>().flags, ObjectRecord::kKept);
  const Answer evicted = call(Method::kEvict, body_of(wire::EvictRequest{kMiB}));
  ASSERT_EQ(evicted.code, Code::kOk);
  EXPECT_EQ(evicted.as<wire::EvictReply>().bytes, 1000U);
  EXPECT_EQ(served.object("kept"), std::string(1000, 'k') + "|");
  EXPECT_EQ(served.object("other"), "not_found");
  EXPECT_EQ(call(Method::kKeep, id_body("kept", 0, 0)).code, Code::kOk);
  EXPECT_EQ(call(Method::kEvict, body_of(wire::EvictRequest{1})).as<wire::EvictReply>().bytes, 1000U);
  EXPECT_EQ(call(Method::kEvict, body_of(wire::EvictRequest{1})).as<wire::EvictReply>().bytes, 0U);
  EXPECT_EQ(call(Method::kEvict, body_of(wire::EvictRequest{0})).as<wire::EvictReply>().bytes, 0U);
}

TEST_F(ObjectCalls, evict_of_very_many_lets_others_have_their_turn) {
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(put("id" + std::to_string(i), 1, "x"), Code::kOk);
  const uint64_t evict = served.start_call(peer, Method::kEvict, body_of(wire::EvictRequest{3000}));
  const Answer answer = served.finish(peer, evict);
  EXPECT_EQ(answer.as<wire::EvictReply>().bytes, 3000U);
  EXPECT_EQ(served.stat().evicted_ever, 3000U);
  EXPECT_EQ(served.stat().objects, 0U);
}

TEST_F(ObjectCalls, a_refused_read_ends_the_seal_and_leaves_the_creation) {
  const Lengths lengths{.body = 600'000, .metadata = 0};
  std::string memory = patterned(lengths.filled());
  const wire::Place place = served.lend(memory);
  ASSERT_EQ(create("apple", 7, lengths), Code::kOk);
  served.take_back(place);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), place)).code, Code::kAccessDenied);
  const wire::Place again = served.lend(memory);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), {again.address, again.key + 1})).code,
            Code::kAccessDenied);
  EXPECT_EQ(served.stat().creations, 1U);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), again)).code, Code::kOk);
  EXPECT_TRUE(served.object("apple") == memory + "|");
}

TEST_F(ObjectCalls, memory_that_ends_too_early_is_a_refusal) {
  const Lengths lengths{.body = 600'000, .metadata = 0};
  std::string memory = patterned(300'000);
  const wire::Place place = served.lend(memory);
  ASSERT_EQ(create("apple", 7, lengths), Code::kOk);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), place)).code, Code::kAccessDenied);
  EXPECT_EQ(call(Method::kAbort, id_body("apple", 7)).code, Code::kOk);
  expect_nothing_is_left();
}

TEST_F(ObjectCalls, a_seal_without_time_reads_nothing) {
  const Lengths lengths{.body = 600'000, .metadata = 0};
  std::string memory = patterned(lengths.filled());
  const wire::Place place = served.lend(memory);
  ASSERT_EQ(create("apple", 7, lengths), Code::kOk);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), place, 0)).code,
            Code::kDeadlineExceeded);
  EXPECT_EQ(served.owner->service->pulls().counts().reads, 0U);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), place)).code, Code::kOk);
}

TEST_F(ObjectCalls, lengths_that_lie_or_overflow_are_refused) {
  EXPECT_EQ(create("apple", 7, {.body = UINT64_MAX}), Code::kTooLarge);
  EXPECT_EQ(create("apple", 7, {.body = UINT64_MAX - 100, .metadata = 64}), Code::kTooLarge);
  EXPECT_EQ(create("apple", 7, {.body = uint64_t{1} << 47}), Code::kTooLarge);
  EXPECT_EQ(create("apple", 7, {.body = 8 * kMiB + 1}), Code::kTooLarge) << "more than the limit";
  EXPECT_EQ(create("apple", 7, {.body = 8 * kMiB - 10, .metadata = 11}), Code::kTooLarge);
  EXPECT_EQ(create("apple", 7, {.body = 1, .metadata = kMetadataBytesMax + 1}), Code::kTooLarge);
  EXPECT_EQ(served.stat().creations, 0U);
  ASSERT_EQ(create("apple", 7, {.body = 104}), Code::kOk);
  std::string memory(200, 'x');
  const wire::Place place = served.lend(memory);
  const auto seal = [&](uint64_t filled, const wire::Place& source) {
    return call(Method::kSeal, fill_body("apple", 7, filled, source)).code;
  };
  EXPECT_EQ(seal(103, place), Code::kInvalidArgument);
  EXPECT_EQ(seal(105, place), Code::kInvalidArgument);
  EXPECT_EQ(seal(UINT64_MAX, place), Code::kInvalidArgument);
  EXPECT_EQ(seal(104, {place.address, 0}), Code::kInvalidArgument) << "no key";
  EXPECT_EQ(seal(104, {place.address | RemotePointer::kOffsetMask, place.key}), Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, 105, place)).code, Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, UINT64_MAX, place)).code, Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kFilled, fill_body("apple", 7, 104, kNowhere)).code, Code::kInvalidArgument);
  EXPECT_EQ(seal(104, place), Code::kOk);
  // A put whose body is shorter, or longer, than it says.
  std::string lying = put_body("fig", 7, "1234");
  lying.pop_back();
  EXPECT_EQ(call(Method::kPut, lying).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kPut, put_body("fig", 7, "1234") + "5").code, Code::kMalformed);
  wire::PutRequest huge{.claim = 7,
                        .timeout_ns = 0,
                        .body_bytes = UINT32_MAX,
                        .metadata_bytes = 2,
                        .id_bytes = 3,
                        .reserved = {}};
  EXPECT_EQ(call(Method::kPut, body_of(huge, "fig1")).code, Code::kMalformed);
  const std::string many = body_of(wire::CountRequest{.count = 1, .reserved = 0}) + body_of(huge, "fig1");
  EXPECT_EQ(call(Method::kPutMany, many).code, Code::kMalformed);
  huge.metadata_bytes = kMetadataBytesMax + 1;
  EXPECT_EQ(call(Method::kPut, body_of(huge, "fig1")).code, Code::kTooLarge);
  EXPECT_EQ(served.stat().objects, 1U);
  expect_nothing_is_left();
}

// Each body cut anywhere, with a byte too many, or with a reserved byte that is not 0.
TEST_F(ObjectCalls, bodies_that_make_no_sense_are_refused_and_change_nothing) {
  ASSERT_EQ(put("apple", 7, "red"), Code::kOk);
  const std::vector<std::string> two = {put_body("m1", 1, "one"), put_body("m2", 2, "two")};
  const std::vector<std::pair<Method, std::string>> bodies = {
      {Method::kCreate, create_body("fig", 1, {})},
      {Method::kFilled, fill_body("fig", 1, 0, kNowhere)},
      {Method::kSeal, fill_body("fig", 1, 0, kNowhere)},
      {Method::kAbort, id_body("fig", 1)},
      {Method::kPut, put_body("fig", 1, "body")},
      {Method::kPutMany, many_body(two)},
      {Method::kAwait, await_body("apple")},
      {Method::kFetch, await_body("apple")},
      {Method::kFetchDone, body_of(wire::FetchDoneRequest{1})},
      {Method::kDelete, id_body("apple", 0)},
      {Method::kEvict, body_of(wire::EvictRequest{100})},
      {Method::kKeep, id_body("apple", 0, 1)},
      {Method::kList, body_of(wire::ListRequest{0})},
      {Method::kNotices, body_of(wire::NoticesRequest{.cursor = 0, .timeout_ns = 0})}};
  for (const auto& [method, body] : bodies) {
    for (size_t bytes = 0; bytes < body.size(); ++bytes) {
      ASSERT_EQ(call(method, body.substr(0, bytes)).code, Code::kMalformed) << name(method) << " " << bytes;
    }
    ASSERT_EQ(call(method, body + "x").code, Code::kMalformed) << name(method);
  }
  EXPECT_EQ(call(Method::kStat, "x").code, Code::kMalformed);
  const std::vector<std::pair<Method, size_t>> reserved = {
      {Method::kCreate, 30},  {Method::kCreate, 31}, {Method::kFilled, 42}, {Method::kSeal, 47},
      {Method::kAbort, 10},   {Method::kAbort, 15},  {Method::kPut, 26},    {Method::kPutMany, 4},
      {Method::kPutMany, 39}, {Method::kAwait, 12},  {Method::kFetch, 15},  {Method::kDelete, 10},
      {Method::kDelete, 11},  {Method::kKeep, 11}};
  for (const auto& [method, at] : reserved) {
    for (auto [of, body] : bodies) {
      if (of != method) continue;
      body[at] = 2;
      ASSERT_EQ(call(method, body).code, Code::kMalformed) << name(method) << " " << at;
    }
  }
  EXPECT_EQ(served.object("apple"), "red|");
  EXPECT_EQ(served.stat().objects, 1U);
  EXPECT_EQ(served.stat().kept_bytes, 0U);
  expect_nothing_is_left();
}

TEST_F(ObjectCalls, ids_have_1_to_255_bytes) {
  for (const size_t bytes : {size_t{0}, size_t{256}, size_t{1000}}) {
    const std::string id(bytes, 'i');
    EXPECT_EQ(create(id, 1, {}), Code::kInvalidArgument);
    EXPECT_EQ(put(id, 1, ""), Code::kInvalidArgument);
    EXPECT_EQ(call(Method::kSeal, fill_body(id, 1, 0, kNowhere)).code, Code::kInvalidArgument);
    EXPECT_EQ(call(Method::kAwait, await_body(id)).code, Code::kInvalidArgument);
    EXPECT_EQ(call(Method::kDelete, id_body(id, 0)).code, Code::kInvalidArgument);
    EXPECT_EQ(call(Method::kAbort, id_body(id, 0)).code, Code::kInvalidArgument);
    const std::vector<std::string> one = {put_body(id, 1, "")};
    EXPECT_EQ(call(Method::kPutMany, many_body(one)).code, Code::kInvalidArgument);
  }
  for (const size_t bytes : {size_t{1}, size_t{255}}) {
    const std::string id(bytes, '\0');
    EXPECT_EQ(put(id, 1, "body"), Code::kOk);
    EXPECT_EQ(served.object(id), "body|");
  }
}

TEST_F(ObjectCalls, methods_that_there_are_not_are_unsupported) {
  for (const uint16_t number : std::array<uint16_t, 4>{0, 0x3ff, 0x413, 0xffff}) {
    EXPECT_EQ(call(static_cast<Method>(number), "").code, Code::kUnsupported) << number;
    EXPECT_EQ(name(static_cast<Method>(number)), "");
  }
  EXPECT_EQ(call(Method::kWhere, id_body("apple", 0)).code, Code::kUnsupported) << "it shares nothing";
  EXPECT_EQ(name(Method::kCreate), "create");
  EXPECT_EQ(name(Method::kWhere), "where");
  EXPECT_EQ(name(Method::kCopies), "copies");
  EXPECT_EQ(name(Method::kRank), "rank");
  EXPECT_EQ(name(Method::kBroadcast), "broadcast");
}

// --- Windows ---

TEST_F(ObjectCalls, what_is_written_through_a_window_is_sealed_and_cannot_be_written_any_more) {
  const Lengths lengths{.body = 100'000, .metadata = 10};
  std::string memory = patterned(lengths.filled());
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory));
  const Answer created = call(Method::kCreate, create_body("apple", 7, lengths, 0, true));
  ASSERT_EQ(created.code, Code::kOk);
  const wire::Place window = created.as<wire::CreateReply>().window;
  ASSERT_NE(window.key, 0U);
  ASSERT_EQ(served.one_sided(peer, fabric::Op::kWrite, window, 0, bytes.first(50'000)), Code::kOk);
  ASSERT_EQ(served.one_sided(peer, fabric::Op::kWrite, window, 50'000, bytes.subspan(50'000)), Code::kOk);
  EXPECT_NE(served.one_sided(peer, fabric::Op::kWrite, window, 50'001, bytes.subspan(50'000)), Code::kOk)
      << "it ends with the metadata";
  ASSERT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), kNowhere)).code, Code::kOk);
  EXPECT_NE(served.one_sided(peer, fabric::Op::kWrite, window, 0, bytes.first(8)), Code::kOk);
  EXPECT_TRUE(served.object("apple") ==
              memory.substr(0, lengths.body) + "|" + memory.substr(memory.size() - 10));
  expect_nothing_is_left();
}

TEST_F(ObjectCalls, a_window_that_has_brought_too_little_is_closed) {
  const Lengths lengths{.body = 100'000, .metadata = 0};
  std::string memory = patterned(lengths.filled());
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory));
  wire::Place window =
      call(Method::kCreate, create_body("apple", 7, lengths, 0, true)).as<wire::CreateReply>().window;
  ASSERT_EQ(served.one_sided(peer, fabric::Op::kWrite, window, 0, bytes.first(99'999)), Code::kOk);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), kNowhere)).code,
            Code::kInvalidArgument);
  EXPECT_NE(served.one_sided(peer, fabric::Op::kWrite, window, 0, bytes.first(8)), Code::kOk);
  // The same create again: a new window, from the beginning.
  const Answer again = call(Method::kCreate, create_body("apple", 7, lengths, 0, true));
  ASSERT_EQ(again.code, Code::kOk);
  window = again.as<wire::CreateReply>().window;
  ASSERT_EQ(served.one_sided(peer, fabric::Op::kWrite, window, 0, bytes), Code::kOk);
  EXPECT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), kNowhere)).code, Code::kOk);
  EXPECT_TRUE(served.object("apple") == memory + "|");
}

TEST_F(ObjectCalls, windows_end_with_their_creation) {
  const std::string body = create_body("apple", 7, {.body = 1000}, 0, true);
  const wire::Place window = call(Method::kCreate, body).as<wire::CreateReply>().window;
  EXPECT_EQ(served.owner->windows.open_count(), 1U);
  EXPECT_EQ(call(Method::kAbort, id_body("apple", 7)).code, Code::kOk);
  std::string memory(1000, 'x');
  EXPECT_NE(served.one_sided(peer, fabric::Op::kWrite, window, 0, std::as_writable_bytes(std::span(memory))),
            Code::kOk);
  expect_nothing_is_left();
}

TEST(ObjectCallsElsewhere, a_channel_without_windows_and_reads_is_told_so) {
  Served served({.link = {.depth = 64, .message_bytes_max = 2048}});
  Served::Peer peer = served.connect();
  EXPECT_EQ(served.call(peer, Method::kCreate, create_body("apple", 7, {.body = 16}, 0, true)).code,
            Code::kUnsupported);
  EXPECT_EQ(served.call(peer, Method::kCreate, create_body("none", 7, {}, 0, true)).code, Code::kOk)
      << "nothing is written";
  ASSERT_EQ(served.call(peer, Method::kCreate, create_body("apple", 7, {.body = 16})).code, Code::kOk);
  std::string memory(10, 'x');
  const wire::Place place = served.lend(memory);
  EXPECT_EQ(served.call(peer, Method::kSeal, fill_body("apple", 7, 16, place)).code, Code::kUnsupported);
  EXPECT_EQ(served.call(peer, Method::kFilled, fill_body("apple", 7, 16, place)).code, Code::kUnsupported);
  std::string large(1900, 'x');
  ASSERT_EQ(served.call(peer, Method::kPut, put_body("fig", 1, large)).code, Code::kOk);
  ASSERT_EQ(served.call(peer, Method::kFetch, await_body("fig")).code, Code::kOk);
  // One that fits its put and not its answer.
  large.resize(1990);
  ASSERT_EQ(served.call(peer, Method::kPut, put_body("g", 1, large)).code, Code::kOk);
  EXPECT_EQ(served.call(peer, Method::kFetch, await_body("g")).code, Code::kUnsupported);
}

// --- Fetches ---

TEST_F(ObjectCalls, fetch_has_small_objects_in_its_answer) {
  ASSERT_EQ(put("apple", 7, "red", "m1"), Code::kOk);
  const Answer answer = call(Method::kFetch, await_body("apple"));
  ASSERT_EQ(answer.code, Code::kOk);
  EXPECT_EQ(answer.as<wire::FetchReply>().fetch, 0U);
  EXPECT_EQ(answer.as<wire::FetchReply>().object.body_bytes, 3U);
  EXPECT_EQ(answer.behind<wire::FetchReply>(), std::string("red\0\0\0\0\0m1", 10));
  EXPECT_EQ(served.owner->fetches.count(), 0U);
  EXPECT_EQ(call(Method::kFetch, await_body("fig")).code, Code::kNotFound);
}

TEST_F(ObjectCalls, fetch_holds_large_objects_until_they_are_read) {
  const Lengths lengths{.body = 50'000, .metadata = 0};
  std::string memory = patterned(lengths.filled());
  const wire::Place place = served.lend(memory);
  ASSERT_EQ(create("apple", 7, lengths), Code::kOk);
  ASSERT_EQ(call(Method::kSeal, fill_body("apple", 7, lengths.filled(), place)).code, Code::kOk);
  const auto reply = call(Method::kFetch, await_body("apple")).as<wire::FetchReply>();
  ASSERT_NE(reply.fetch, 0U);
  EXPECT_EQ(call(Method::kDelete, id_body("apple", 0)).as<wire::DeleteReply>().holders, 1U);
  EXPECT_EQ(served.stat().departed_bytes, lengths.body);
  std::string read(lengths.body, '\0');
  const std::span<std::byte> target = std::as_writable_bytes(std::span(read));
  EXPECT_EQ(served.one_sided(peer, fabric::Op::kRead, reply.window, 0, target), Code::kOk);
  EXPECT_TRUE(read == memory);
  EXPECT_NE(served.one_sided(peer, fabric::Op::kWrite, reply.window, 0, target.first(8)), Code::kOk)
      << "no creator and no reader changes an object";
  EXPECT_EQ(call(Method::kFetchDone, body_of(wire::FetchDoneRequest{reply.fetch + 1})).code,
            Code::kInvalidated);
  EXPECT_EQ(call(Method::kFetchDone, body_of(wire::FetchDoneRequest{reply.fetch})).code, Code::kOk);
  EXPECT_EQ(call(Method::kFetchDone, body_of(wire::FetchDoneRequest{reply.fetch})).code, Code::kInvalidated);
  EXPECT_NE(served.one_sided(peer, fabric::Op::kRead, reply.window, 0, target), Code::kOk);
  served.pass(kSecond_ns);
  EXPECT_EQ(served.stat().departed_bytes, 0U);
  expect_nothing_is_left();
}

TEST_F(ObjectCalls, a_session_has_so_many_fetches) {
  ASSERT_EQ(call(Method::kCreate, create_body("apple", 7, {.body = 5000})).code, Code::kOk);
  std::string memory(5000, 'x');
  ASSERT_EQ(call(Method::kSeal, fill_body("apple", 7, 5000, served.lend(memory))).code, Code::kOk);
  for (size_t i = 0; i < wire::kFetchesPerSession; ++i) {
    ASSERT_EQ(call(Method::kFetch, await_body("apple")).code, Code::kOk);
  }
  EXPECT_EQ(call(Method::kFetch, await_body("apple")).code, Code::kOverloaded);
  EXPECT_EQ(served.owner->service->counts().fetches, wire::kFetchesPerSession);
  EXPECT_EQ(served.owner->service->counts().overloaded, 1U);
  Served::Peer other = served.connect();
  EXPECT_EQ(served.call(other, Method::kFetch, await_body("apple")).code, Code::kOk);
  served.close(peer);
  EXPECT_EQ(served.owner->fetches.count(), 1U);
  served.close(other);
  expect_nothing_is_left();
}

}  // namespace
}  // namespace refract::object::object_service_test
