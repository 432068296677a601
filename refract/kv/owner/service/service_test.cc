// SPDX-License-Identifier: Apache-2.0
// The owner's side of the calls, met by hand-made bodies: limits, refusals, full memory, housekeeping.
#include "refract/kv/owner/service/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/layout/batch_wire.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::body_of;
using test::bytes_of;
using test::key_ref;
using test::patterned;
using test::put_request;
using test::reply_as;
using test::Served;
using test::ServedOptions;
using wire::Method;

class TableServiceTest : public testing::Test {
 protected:
  Code call(Method method, const std::string& body, std::string* reply = nullptr) {
    return served.call(peer, method, bytes_of(body), reply);
  }
  Result<uint64_t> put(std::string_view key, std::string_view value) {
    return peer.client->put_and_wait(bytes_of(key), bytes_of(value));
  }
  uint64_t begin_upload(std::string_view key, size_t value_bytes) {
    std::string reply;
    EXPECT_EQ(call(Method::kPutBegin, body_of(put_request(key.size(), value_bytes), key), &reply), Code::kOk);
    return reply_as<wire::Handle>(reply).id;
  }
  // Opens a view of the key's value.
  wire::GetReply open_view(std::string_view key, std::string* first_bytes = nullptr) {
    std::string reply;
    EXPECT_EQ(call(Method::kGet, body_of(key_ref(key.size()), key), &reply), Code::kOk);
    if (first_bytes != nullptr) *first_bytes = reply.substr(sizeof(wire::GetReply));
    return reply_as<wire::GetReply>(reply);
  }
  std::string read_view(uint64_t view, uint64_t from, uint64_t bytes) {
    std::string value;
    for (uint64_t at = from; at < bytes;) {
      const uint64_t piece = std::min<uint64_t>(1024, bytes - at);
      std::string reply;
      EXPECT_EQ(call(Method::kViewPiece, body_of(wire::ViewPieceRequest{view, at, piece}), &reply),
                Code::kOk);
      value += reply;
      at += piece;
    }
    return value;
  }

  Served served;
  Served::Peer peer = served.connect();
};

TEST_F(TableServiceTest, a_malformed_body_is_refused_and_changes_nothing) {
  ASSERT_TRUE(put("key", "value").has_value());
  const Heap::Stats before = served.space.heap().stats();
  for (uint16_t number = 1; number < wire::kMethods; ++number) {
    const auto method = static_cast<Method>(number);
    if (method == Method::kStat) continue;
    EXPECT_EQ(call(method, ""), Code::kMalformed) << wire::name(method);
    EXPECT_EQ(call(method, "abc"), Code::kMalformed) << wire::name(method);
  }
  EXPECT_EQ(call(Method::kStat, "x"), Code::kMalformed);
  EXPECT_EQ(call(static_cast<Method>(0), ""), Code::kUnsupported);
  EXPECT_EQ(call(Method::kPutPulled, ""), Code::kMalformed);
  EXPECT_EQ(call(static_cast<Method>(20), ""), Code::kUnsupported);
  EXPECT_EQ(call(static_cast<Method>(0xffff), "whatever"), Code::kUnsupported);

  EXPECT_EQ(call(Method::kGet, body_of(key_ref(0))), Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kGet, body_of(key_ref(4), "key")), Code::kMalformed);
  EXPECT_EQ(call(Method::kGet, body_of(key_ref(2), "key")), Code::kMalformed);
  EXPECT_EQ(call(Method::kPut, body_of(put_request(3, 5), "keyvalu")), Code::kMalformed);
  EXPECT_EQ(call(Method::kPut, body_of(put_request(3, 5), "keyvalues")), Code::kMalformed);
  EXPECT_EQ(call(Method::kPut, body_of(put_request(3, kValueBytesMax + 1), "key")), Code::kTooLarge);
  EXPECT_EQ(call(Method::kPutBegin, body_of(put_request(3, kValueBytesMax + 1), "key")), Code::kTooLarge);
  EXPECT_EQ(call(Method::kPutBegin, body_of(put_request(3, 5), "keyvalue")), Code::kMalformed);

  const auto many = [](uint16_t keys, uint16_t reserved = 0, uint32_t end = 0) {
    return wire::ManyRequest{.keys = keys, .reserved = reserved, .reserved_end = end};
  };
  const std::string key = body_of(wire::KeyLength{3}, "key");
  EXPECT_EQ(call(Method::kGetMany, body_of(many(1), key)), Code::kOk);
  for (const std::string& body :
       {std::string(), std::string("abc"), body_of(many(0)), body_of(many(1)), body_of(many(2), key),
        body_of(many(1), key + key), body_of(many(1), key + "x"), body_of(many(1), key.substr(0, 4)),
        body_of(many(1), key.substr(0, 1)), body_of(many(1), body_of(wire::KeyLength{0})),
        body_of(many(1, 1), key), body_of(many(1, 0, 1), key), body_of(many(17))}) {
    EXPECT_EQ(call(Method::kGetMany, body), Code::kMalformed) << body.size();
  }

  const auto one = [](uint16_t key_bytes, uint32_t value_bytes, uint16_t reserved = 0) {
    return body_of(wire::PutOfMany{
        .ttl_ns = 0, .value_bytes = value_bytes, .key_bytes = key_bytes, .reserved = reserved});
  };
  for (const std::string& body :
       {std::string(), std::string("abc"), body_of(many(0)), body_of(many(1)),
        body_of(many(2), one(5, 5) + "othervalue"), body_of(many(1), one(5, 5) + "othervalue!"),
        body_of(many(1), one(5, 5) + "othervalu"), body_of(many(1), one(5, UINT32_MAX) + "othervalue"),
        body_of(many(1), one(0, 5) + "value"), body_of(many(1), one(5, 5, 1) + "othervalue"),
        body_of(many(1), one(65'535, 0) + "other"), body_of(many(2), one(5, 5) + "othervalue" + one(3, 1))}) {
    EXPECT_EQ(call(Method::kPutMany, body), Code::kMalformed) << body.size();
  }

  wire::PutRequest odd = put_request(3, 1);
  odd.key.flags = 2;
  EXPECT_EQ(call(Method::kPut, body_of(odd, "keyv")), Code::kMalformed);
  odd.key.flags = wire::KeyRef::kIfAbsent;
  odd.if_version = 9;
  EXPECT_EQ(call(Method::kPut, body_of(odd, "keyv")), Code::kInvalidArgument);
  odd = put_request(3, 1);
  odd.key.staged = wire::kStagedKeysPerSession + 1;
  EXPECT_EQ(call(Method::kPut, body_of(odd, "v")), Code::kMalformed);
  odd.key.staged = 1;
  EXPECT_EQ(call(Method::kPut, body_of(odd, "v")), Code::kInvalidated) << "nothing was staged";

  wire::KeyRef strange = key_ref(3);
  strange.value_bytes = 1;
  EXPECT_EQ(call(Method::kExists, body_of(strange, "key")), Code::kMalformed);
  EXPECT_EQ(served.space.table().stats().entries, 1u);
  EXPECT_EQ(served.space.heap().stats().buffers_live, before.buffers_live);
  EXPECT_EQ(open_view("key").value_bytes, 5u);
}

// Every method is fed random bytes, and bodies that are right but for some bytes.
TEST_F(TableServiceTest, random_bodies_get_clear_answers_and_damage_nothing) {
  Prng prng(11);
  const std::vector<Code> clear = {
      Code::kOk,        Code::kNotFound,   Code::kExists,      Code::kVersionMismatch,
      Code::kMalformed, Code::kTooLarge,   Code::kUnsupported, Code::kInvalidArgument,
      Code::kNoSpace,   Code::kOverloaded, Code::kInvalidated};
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(put("key" + std::to_string(i), patterned(prng.below(5000))).has_value());
  const std::vector<std::string> seeds = {body_of(put_request(4, 6), "key1valued"),
                                          body_of(key_ref(4), "key1"),
                                          body_of(wire::ScanRequest{0, 50}),
                                          body_of(wire::EraseRequest{key_ref(4), 0}, "key2"),
                                          body_of(wire::StageKeyRequest{1, 0, 0, 0}, "key3"),
                                          body_of(put_request(4, 100'000), "key1")};
  uint64_t replies = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string body;
    if (prng.chance(0.5)) {
      body = seeds[prng.below(seeds.size())];
      for (uint64_t flips = prng.below(4); flips > 0; --flips)
        body[prng.below(body.size())] = static_cast<char>(prng.next());
    } else {
      body.resize(prng.below(80));
      for (char& byte : body) byte = static_cast<char>(prng.chance(0.5) ? prng.below(8) : prng.next());
    }
    const auto method = static_cast<Method>(prng.below(wire::kMethods + 2));
    const Code code = call(method, body);
    ASSERT_NE(std::ranges::find(clear, code), clear.end()) << text(code);
    ++replies;
    ASSERT_TRUE(round % 1000 != 0 || served.is_sound()) << round;
  }
  EXPECT_EQ(served.server.counts().closed_malformed, 0u);
  ASSERT_TRUE(served.is_sound());
  peer = {};
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 0; }));
  EXPECT_EQ(served.pins.sessions.count(), 0u);
  EXPECT_TRUE(served.is_sound());
  EXPECT_GE(replies, 20'000u);
}

TEST_F(TableServiceTest, a_batch_that_lies_is_refused_and_changes_nothing) {
  wire::BatchRequest request{.conditions = 0, .writes = 1, .staged_bytes = 0, .identity = {}};
  wire::WriteOfBatch write{.argument = 0, .value_bytes = 1, .key_bytes = 1, .kind = 1, .detail = 0};
  const auto asked = [&](std::string_view behind) {
    return call(Method::kBatch, body_of(request, body_of(write, behind)));
  };
  EXPECT_EQ(call(Method::kBatch, ""), Code::kMalformed);
  EXPECT_EQ(call(Method::kBatchPiece, ""), Code::kMalformed);
  EXPECT_EQ(asked("k"), Code::kMalformed) << "no value";
  EXPECT_EQ(asked("kvx"), Code::kMalformed) << "too much";
  write.kind = 5;
  EXPECT_EQ(asked("kv"), Code::kMalformed) << "no such kind";
  write.kind = 2;
  EXPECT_EQ(asked("kv"), Code::kMalformed) << "an erasure with a value";
  write.kind = 1;
  for (const uint8_t detail : std::array<uint8_t, 3>{3, 16, 128}) {
    write.detail = detail;
    EXPECT_EQ(asked("kv"), Code::kMalformed) << "no such flags, or both conditions";
  }
  for (const uint8_t detail : std::array<uint8_t, 2>{4, 12}) {
    write = {.argument = 1, .value_bytes = 1, .key_bytes = 1, .kind = 1, .detail = detail};
    EXPECT_EQ(asked("kv"), Code::kMalformed) << "it expires in two ways";
  }
  for (const uint8_t function : std::array<uint8_t, 2>{0, 7}) {
    write = {
        .argument = functions::version(), .value_bytes = 1, .key_bytes = 1, .kind = 4, .detail = function};
    EXPECT_EQ(asked("kv"), Code::kMalformed) << "no such function";
  }
  write = {.argument = 0, .value_bytes = 0, .key_bytes = 1, .kind = 3, .detail = 1};
  EXPECT_EQ(asked("k"), Code::kMalformed) << "an add has no details";
  write = {.argument = 0, .value_bytes = 1, .key_bytes = 1, .kind = 1, .detail = 0};
  request.writes = 2;
  EXPECT_EQ(asked("kv"), Code::kMalformed) << "one is missing";
  request = {.conditions = 1, .writes = 0, .staged_bytes = 0, .identity = {}};
  EXPECT_EQ(asked("kv"), Code::kMalformed) << "a condition of absence with a value";
  request = {.conditions = 0,
             .writes = 1,
             .staged_bytes = 0,
             .identity = {.client = 1, .sequence = 0, .repeats_ns = 0}};
  EXPECT_EQ(asked("kv"), Code::kMalformed) << "half an identity";
  request = {.conditions = 0, .writes = 1, .staged_bytes = 18, .identity = {}};
  EXPECT_EQ(call(Method::kBatch, body_of(request)), Code::kInvalidated) << "nothing was staged";
  EXPECT_EQ(call(Method::kBatchPiece, body_of(wire::BatchPieceRequest{.offset = 1, .reserved = 0}, "x")),
            Code::kInvalidated);
  EXPECT_EQ(served.space.table().stats().entries, 0U);
}

TEST_F(TableServiceTest, pieces_must_follow_on_each_other_and_stay_inside) {
  const uint64_t upload = begin_upload("key", 10);
  ASSERT_NE(upload, 0u);
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{upload + 1, 0}, "abc")),
            Code::kInvalidated);
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{upload, 3}, "abc")),
            Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{upload, 0}, "abcdefghijk")),
            Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{upload, 0}, "abcde")), Code::kOk);
  EXPECT_EQ(call(Method::kPutCommit, body_of(wire::Handle{upload})), Code::kInvalidArgument)
      << "half is missing";
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{upload, UINT64_MAX - 2}, "fghij")),
            Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{upload, 5}, "fghij")), Code::kOk);
  EXPECT_EQ(call(Method::kGet, body_of(key_ref(3), "key")), Code::kNotFound) << "not committed yet";
  EXPECT_EQ(call(Method::kPutCommit, body_of(wire::Handle{upload})), Code::kOk);
  EXPECT_EQ(call(Method::kPutCommit, body_of(wire::Handle{upload})), Code::kInvalidated);
  std::string value;
  (void)open_view("key", &value);
  EXPECT_EQ(value, "abcdefghij");
}

TEST_F(TableServiceTest, a_session_holds_a_bounded_number_of_uploads_and_gives_idle_ones_up) {
  const Heap::Stats before = served.space.heap().stats();
  std::vector<uint64_t> uploads;
  for (size_t i = 0; i < wire::kUploadsPerSession; ++i) uploads.push_back(begin_upload("key", 100'000));
  const std::string begin = body_of(put_request(3, 100'000), "key");
  EXPECT_EQ(call(Method::kPutBegin, begin), Code::kOverloaded);
  EXPECT_EQ(served.service.stat().uploads, wire::kUploadsPerSession);
  Served::Peer other = served.connect();
  EXPECT_EQ(served.call(other, Method::kPutBegin, bytes_of(begin)), Code::kOk) << "each session has its own";
  EXPECT_EQ(served.call(other, Method::kPutAbandon, bytes_of(body_of(wire::Handle{uploads[0]}))),
            Code::kInvalidated)
      << "a session cannot reach another one's";

  EXPECT_EQ(call(Method::kPutAbandon, body_of(wire::Handle{uploads[0]})), Code::kOk);
  EXPECT_EQ(call(Method::kPutBegin, begin), Code::kOk);
  EXPECT_EQ(call(Method::kPutBegin, begin), Code::kOverloaded);
  served.space.clock().advance_ns(SessionState::kIdle_ns / 2);
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{uploads[1], 0}, "x")), Code::kOk);
  served.space.clock().advance_ns(SessionState::kIdle_ns / 2);
  EXPECT_EQ(call(Method::kPutBegin, begin), Code::kOk);
  EXPECT_EQ(call(Method::kPutPiece, body_of(wire::PutPieceRequest{uploads[1], 1}, "x")), Code::kOk)
      << "the one in use was spared";

  other = {};
  peer = {};
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 0; }));
  EXPECT_EQ(served.space.heap().stats().buffers_live, before.buffers_live);
  EXPECT_EQ(served.space.heap().stats().bytes_live, before.bytes_live);
}

TEST_F(TableServiceTest, a_view_keeps_its_bytes_while_the_entry_is_overwritten_again_and_again) {
  const std::string value = patterned(300'000);
  ASSERT_TRUE(put("key", value).has_value());
  std::string first;
  const wire::GetReply reply = open_view("key", &first);
  ASSERT_NE(reply.view, 0u);
  EXPECT_EQ(served.pins.sessions.count(), 1u);
  // Far more than the space has room for: every other buffer is reused many times over.
  for (uint64_t i = 1; i < 400; ++i) ASSERT_TRUE(put("key", patterned(300'000, i)).has_value());
  EXPECT_TRUE(first + read_view(reply.view, first.size(), value.size()) == value);
  ASSERT_TRUE(peer.client->erase_and_wait(bytes_of("key")).has_value());
  served.space.heap().reclaim();
  EXPECT_GT(served.space.heap().stats().bytes_retired, 0u) << "the view holds its buffer back";
  EXPECT_TRUE(first + read_view(reply.view, first.size(), value.size()) == value);

  EXPECT_EQ(call(Method::kViewPiece, body_of(wire::ViewPieceRequest{reply.view, 300'000, 1})),
            Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kViewPiece, body_of(wire::ViewPieceRequest{reply.view, UINT64_MAX, 2})),
            Code::kInvalidArgument);
  EXPECT_EQ(call(Method::kViewPiece, body_of(wire::ViewPieceRequest{reply.view, 0, 200'000})),
            Code::kTooLarge);
  EXPECT_EQ(call(Method::kViewClose, body_of(wire::Handle{reply.view})), Code::kOk);
  EXPECT_EQ(call(Method::kViewClose, body_of(wire::Handle{reply.view})), Code::kInvalidated);
  EXPECT_EQ(call(Method::kViewPiece, body_of(wire::ViewPieceRequest{reply.view, 0, 1})), Code::kInvalidated);
  served.space.heap().reclaim();
  EXPECT_EQ(served.space.heap().stats().bytes_retired, 0u);
}

TEST_F(TableServiceTest, views_are_bounded_for_each_session_and_end_with_it) {
  ASSERT_TRUE(put("key", patterned(100'000)).has_value());
  const std::string get = body_of(key_ref(3), "key");
  for (size_t i = 0; i < wire::kViewsPerSession; ++i) EXPECT_EQ(call(Method::kGet, get), Code::kOk);
  EXPECT_EQ(call(Method::kGet, get), Code::kOverloaded);
  EXPECT_EQ(served.service.stat().views, wire::kViewsPerSession);
  Served::Peer other = served.connect();
  EXPECT_EQ(served.call(other, Method::kGet, bytes_of(get)), Code::kOk);
  EXPECT_EQ(served.pins.sessions.count(), wire::kViewsPerSession + 1);
  served.space.clock().advance_ns(SessionState::kIdle_ns);
  EXPECT_EQ(call(Method::kGet, get), Code::kOk) << "one that was not touched for long makes room";
  peer = {};
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 1; }));
  EXPECT_EQ(served.pins.sessions.count(), 1u);
}

TEST_F(TableServiceTest, a_staged_key_serves_one_call) {
  const std::string key(3000, 'k');
  EXPECT_EQ(call(Method::kStageKey, body_of(wire::StageKeyRequest{4, 0, 0, 0}, "x")), Code::kMalformed);
  EXPECT_EQ(call(Method::kStageKey, body_of(wire::StageKeyRequest{2, 0, 5, 0}, "x")), Code::kInvalidated);
  EXPECT_EQ(call(Method::kStageKey, body_of(wire::StageKeyRequest{2, 0, 0, 0}, key.substr(0, 1500))),
            Code::kOk);
  EXPECT_EQ(call(Method::kStageKey, body_of(wire::StageKeyRequest{2, 0, 1500, 0}, key.substr(1500))),
            Code::kOk);
  wire::PutRequest request = put_request(3000, 5);
  request.key.staged = 3;
  EXPECT_EQ(call(Method::kPut, body_of(request, "value")), Code::kOk);
  EXPECT_EQ(call(Method::kPut, body_of(request, "value")), Code::kInvalidated) << "the place is empty again";
  EXPECT_EQ(peer.client->erase_and_wait(bytes_of(key)).code(), Code::kOk);
  // No key is longer than its length can say.
  const std::string piece(1900, 'k');
  Code code = Code::kOk;
  size_t staged = 0;
  for (; staged + piece.size() <= 65'535; staged += piece.size()) {
    code = call(Method::kStageKey,
                body_of(wire::StageKeyRequest{0, 0, static_cast<uint16_t>(staged), 0}, piece));
    ASSERT_EQ(code, Code::kOk);
  }
  EXPECT_EQ(
      call(Method::kStageKey, body_of(wire::StageKeyRequest{0, 0, static_cast<uint16_t>(staged), 0}, piece)),
      Code::kTooLarge);
}

TEST_F(TableServiceTest, a_space_that_becomes_full_is_asked_to_grow_in_time) {
  EXPECT_EQ(served.growth.asked, 0u);
  served.growth.allowed = true;
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(put("key" + std::to_string(i), patterned(900'000)).has_value());
  EXPECT_GT(served.growth.asked, 0u);
  EXPECT_EQ(served.service.stat().waiting_for_memory, 0u) << "asked before a client had to wait";
}

TEST_F(TableServiceTest, the_sweep_removes_what_has_expired_and_its_timer_ends_with_the_last_of_them) {
  ASSERT_TRUE(put("stays", "value").has_value());
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns) << "no timer without a time to live";
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of("key" + std::to_string(i)), bytes_of("value"),
                                          {.ttl_ns = kSecond_ns + static_cast<uint64_t>(i)}));
  }
  EXPECT_NE(served.shard.next_timer_ns(), kForever_ns);
  const uint64_t begin_ns = served.shard.refresh_now();
  ASSERT_TRUE(served.shard.run_until([&] { return served.space.table().stats().expiring_entries == 0; },
                                     begin_ns + 200 * kSecond_ns));
  EXPECT_LE(served.shard.now_ns() - begin_ns, 130 * kSecond_ns) << "two rounds";
  EXPECT_EQ(served.service.stat().expired, 500u);
  EXPECT_EQ(served.space.table().stats().entries, 1u);
  ASSERT_TRUE(served.run_until([&] { return served.service.stat().bytes_retired == 0; }));
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
  EXPECT_TRUE(served.is_sound());
}

// A wake-up a round is what is left of it. And an entry that comes later and goes earlier is met
// in time, since the sweep then no longer sleeps for the first one.
TEST_F(TableServiceTest, nothing_is_swept_before_the_first_entry_is_due) {
  ASSERT_TRUE(peer.client->put_and_wait(bytes_of("late"), bytes_of("value"), {.ttl_ns = 3'600 * kSecond_ns}));
  const uint64_t begin_ns = served.shard.refresh_now();
  uint64_t moments = 0;
  uint64_t last_ns = begin_ns;
  ASSERT_FALSE(served.shard.run_until(
      [&] {
        moments += served.shard.now_ns() == std::exchange(last_ns, served.shard.now_ns()) ? 0 : 1;
        return served.space.table().stats().expiring_entries == 0;
      },
      begin_ns + 1'000 * kSecond_ns));
  EXPECT_LE(moments, 20U);
  ASSERT_TRUE(peer.client->put_and_wait(bytes_of("soon"), bytes_of("value"), {.ttl_ns = kSecond_ns}));
  const uint64_t soon_ns = served.shard.refresh_now();
  ASSERT_TRUE(served.shard.run_until([&] { return served.space.table().stats().expiring_entries == 1; },
                                     soon_ns + 130 * kSecond_ns));
  EXPECT_LE(served.shard.now_ns() - soon_ns, 62 * kSecond_ns) << "a round, and its beginning";
}

TEST_F(TableServiceTest, several_sources_of_pins_are_asked_as_one) {
  class Fixed final : public PinSource {
   public:
    explicit Fixed(uint64_t offset) noexcept : offset_(offset) {}
    void collect(PinSet& pins) noexcept override { pins.add({offset_}); }

   private:
    uint64_t offset_;
  };
  Fixed first(64);
  Fixed second(128);
  PinSources sources;
  sources.add(first);
  sources.add(second);
  PinSet set;
  sources.collect(set);
  EXPECT_TRUE(set.contains({64}) && set.contains({128}) && !set.contains({192}));
}

}  // namespace
}  // namespace refract::kv
