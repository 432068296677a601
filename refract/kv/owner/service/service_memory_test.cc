// SPDX-License-Identifier: Apache-2.0
// What becomes of writes when the memory is full, and of those that wait for it to grow.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/kv/owner/service/service.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::body_of;
using test::bytes_of;
using test::patterned;
using test::put_request;
using test::reply_as;
using test::Served;
using wire::Method;

// Fills the memory with values of 10,000 bytes; returns how many fit.
size_t fill_memory(Served::Peer& peer) {
  size_t count = 0;
  while (peer.client->put_and_wait(bytes_of("fill" + std::to_string(count)),
                                   bytes_of(patterned(10'000, count)))) {
    ++count;
  }
  return count;
}

TEST(TableServiceMemory, a_full_memory_is_said_and_loses_nothing) {
  Served served({.chunks = 6, .chunks_max = 6});
  Served::Peer peer = served.connect();
  const size_t count = fill_memory(peer);
  ASSERT_GT(count, 100u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(peer.client->put_and_wait(bytes_of("more"), bytes_of(patterned(10'000))).code(),
              Code::kNoSpace);
    EXPECT_EQ(peer.client->put_and_wait(bytes_of("fill0"), bytes_of(patterned(3'000'000))).code(),
              Code::kNoSpace);
  }
  for (size_t i = 0; i < count; ++i) {
    std::string value;
    StringSink sink(value);
    ASSERT_TRUE(peer.client->get_and_wait(bytes_of("fill" + std::to_string(i)), sink).has_value());
    ASSERT_TRUE(value == patterned(10'000, i)) << i;
  }
  // What is erased makes room again.
  for (size_t i = 0; i < count; i += 2) {
    ASSERT_TRUE(peer.client->erase_and_wait(bytes_of("fill" + std::to_string(i))).has_value());
  }
  EXPECT_TRUE(peer.client->put_and_wait(bytes_of("more"), bytes_of(patterned(10'000))).has_value());
  EXPECT_TRUE(served.is_sound());
}

class GrowingMemory : public testing::Test {
 protected:
  GrowingMemory() {
    count = fill_memory(peer);
    served.growth.allowed = true;
    served.growth.asked = 0;
  }
  // A put that is sent and, as there is no room, not answered. `bytes` must stay until it is.
  void start_put(std::string_view key, std::string_view bytes, Result<uint64_t>& result) {
    const auto write = [](RpcClient& client, std::string_view its_key, std::string_view its_value,
                          Result<uint64_t>& outcome) -> runtime::Task<> {
      outcome = co_await client.put(bytes_of(its_key), bytes_of(its_value));
    };
    served.shard.spawn(write(*peer.client, key, bytes, result));
    served.settle();
  }

  Served served{{.chunks = 6, .chunks_max = 64}};
  Served::Peer peer = served.connect();
  size_t count = 0;
  const std::string value = patterned(10'000, 1);
  const std::string long_value = patterned(3'000'000, 2);
  Result<uint64_t> small = fail(Code::kInvalidated);
  Result<uint64_t> large = fail(Code::kInvalidated);
};

TEST_F(GrowingMemory, writes_wait_while_the_node_can_grow_and_go_on_when_it_has) {
  start_put("small", value, small);
  start_put("large", long_value, large);
  EXPECT_EQ(served.service.stat().waiting_for_memory, 2u);
  EXPECT_GT(served.growth.asked, 0u);
  EXPECT_GE(served.growth.wanted_bytes, 1u);
  // Reads and others do not wait behind them.
  std::string got;
  StringSink sink(got);
  EXPECT_TRUE(peer.client->get_and_wait(bytes_of("fill0"), sink).has_value());

  served.space.add_chunks(16);
  served.service.on_memory_added();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_TRUE(small.has_value());
  EXPECT_TRUE(large.has_value());
  EXPECT_EQ(served.service.stat().waiting_for_memory, 0u);
  ASSERT_TRUE(peer.client->get_and_wait(bytes_of("large"), sink).has_value());
  EXPECT_TRUE(got == long_value);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(GrowingMemory, growth_that_does_not_suffice_lets_the_rest_wait_on) {
  start_put("large", long_value, large);
  served.space.add_chunks(1);
  served.service.on_memory_added();
  served.settle();
  EXPECT_EQ(served.service.stat().waiting_for_memory, 1u);
  EXPECT_GE(served.growth.wanted_bytes, kChunkBytes);
  served.space.add_chunks(8);
  served.service.on_memory_added();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_TRUE(large.has_value());
}

TEST_F(GrowingMemory, refused_growth_answers_no_space) {
  start_put("small", value, small);
  start_put("large", long_value, large);
  served.growth.allowed = false;
  served.service.on_growth_refused();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_EQ(small.code(), Code::kNoSpace);
  EXPECT_EQ(large.code(), Code::kNoSpace);
  EXPECT_EQ(served.service.stat().waiting_for_memory, 0u);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(GrowingMemory, a_value_that_is_refused_does_not_keep_others_from_theirs) {
  start_put("large", long_value, large);
  start_put("small", value, small);
  served.growth.refused_bytes = long_value.size();
  served.growth.asked = 0;
  served.service.on_growth_refused();
  served.settle();
  EXPECT_EQ(large.code(), Code::kNoSpace);
  EXPECT_EQ(served.service.stat().waiting_for_memory, 1u);
  EXPECT_EQ(served.growth.asked, 1u) << "again, for the small one";
  served.space.add_chunks(1);
  served.service.on_memory_added();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_TRUE(small.has_value());
}

TEST_F(GrowingMemory, what_waits_is_forgotten_with_its_session) {
  Served::Peer other = served.connect();
  const std::string body = body_of(put_request(5, 1'500'000), "other");
  const uint64_t call =
      other.session->start({.method = static_cast<uint16_t>(Method::kPutBegin), .head = bytes_of(body)});
  ASSERT_NE(call, 0u);
  served.settle();
  EXPECT_EQ(served.service.stat().waiting_for_memory, 1u);
  other = {};
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 1; }));
  EXPECT_EQ(served.service.stat().waiting_for_memory, 0u);
  const uint64_t live = served.space.heap().stats().buffers_live;
  served.space.add_chunks(8);
  served.service.on_memory_added();
  served.settle();
  EXPECT_EQ(served.space.heap().stats().buffers_live, live);
}

TEST_F(GrowingMemory, waiting_writes_are_bounded) {
  std::vector<Served::Peer> peers;
  std::vector<uint64_t> calls;
  const std::string body = body_of(put_request(5, 1'500'000), "other");
  for (int i = 0; i < 10; ++i) {
    peers.push_back(served.connect());
    for (int j = 0; j < 30; ++j) {
      uint64_t id = 0;
      ASSERT_TRUE(served.run_until([&] {
        id = peers.back().session->start(
            {.method = static_cast<uint16_t>(Method::kPutBegin), .head = bytes_of(body)});
        return id != 0;
      }));
      calls.push_back(id);
    }
  }
  served.settle();
  EXPECT_EQ(served.service.stat().waiting_for_memory, 256u);
  size_t refused = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    rpc::Session& session = *peers[i / 30].session;
    if (session.done(calls[i]) && session.finish(calls[i]).code == Code::kOverloaded) ++refused;
  }
  EXPECT_EQ(refused, 300u - 256u);
}

// A bucket without a free slot and a memory without a line, which only a commit in the middle finds: a client
// that begins an upload has its buffer already.
class CommitWithoutRoom : public testing::Test {
 protected:
  CommitWithoutRoom() {
    const std::string body = body_of(put_request(3, value.size()), "key");
    std::string reply;
    EXPECT_EQ(served.call(peer, Method::kPutBegin, bytes_of(body), &reply), Code::kOk);
    upload = reply_as<wire::Handle>(reply);
    const wire::PutPieceRequest piece{.upload = upload.id, .offset = 0};
    EXPECT_EQ(served.call(peer, Method::kPutPiece, bytes_of(body_of(piece, value))), Code::kOk);
    const uint64_t bucket = bucket_of("key");
    for (int i = 0; served.space.table().stats().entries < kSlotsPerBucket; ++i) {
      const std::string other = "other" + std::to_string(i);
      if (bucket_of(other) != bucket) continue;
      EXPECT_TRUE(peer.client->put_and_wait(bytes_of(other), bytes_of("value")).has_value());
    }
    while (served.space.heap().allocate_bucket_chunk()) {
    }
    while (served.space.heap().allocate_line()) {
    }
  }
  uint64_t bucket_of(std::string_view key) {
    return bucket_index(served.space.table().hash(bytes_of(key)), 16);
  }
  uint64_t start_commit() {
    return peer.session->start(
        {.method = static_cast<uint16_t>(Method::kPutCommit), .head = std::as_bytes(std::span(&upload, 1))});
  }
  Code end_upload(Method method) { return served.call(peer, method, std::as_bytes(std::span(&upload, 1))); }

  Served served{{.chunks = 6, .chunks_max = 64}};
  Served::Peer peer = served.connect();
  const std::string value = patterned(400, 3);
  wire::Handle upload{};
};

TEST_F(CommitWithoutRoom, waits_while_the_node_can_grow_and_goes_on_when_it_has) {
  served.growth.allowed = true;
  const uint64_t commit = start_commit();
  served.settle();
  EXPECT_FALSE(peer.session->done(commit));
  EXPECT_EQ(served.service.stat().waiting_for_memory, 1u);
  EXPECT_GT(served.growth.asked, 0u);
  // What is committed is what was there when the commit came.
  const wire::PutPieceRequest piece{.upload = upload.id, .offset = 0};
  EXPECT_EQ(served.call(peer, Method::kPutPiece, bytes_of(body_of(piece, "late"))), Code::kInvalidArgument);

  served.space.add_chunks(4);
  served.service.on_memory_added();
  ASSERT_TRUE(served.run_until([&] { return peer.session->done(commit); }));
  EXPECT_EQ(peer.session->finish(commit).code, Code::kOk);
  std::string got;
  StringSink sink(got);
  EXPECT_TRUE(peer.client->get_and_wait(bytes_of("key"), sink).has_value());
  EXPECT_TRUE(got == value);
  EXPECT_EQ(end_upload(Method::kPutAbandon), Code::kInvalidated) << "it is no upload any more";
  EXPECT_TRUE(served.is_sound());
}

TEST_F(CommitWithoutRoom, is_told_that_there_is_no_space_and_may_come_again) {
  EXPECT_EQ(end_upload(Method::kPutCommit), Code::kNoSpace);
  EXPECT_EQ(served.service.stat().uploads, 1u);
  EXPECT_EQ(end_upload(Method::kPutCommit), Code::kNoSpace);
  served.space.add_chunks(4);
  EXPECT_EQ(end_upload(Method::kPutCommit), Code::kOk);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(CommitWithoutRoom, ends_with_its_upload_or_its_session) {
  served.growth.allowed = true;
  const uint64_t commit = start_commit();
  served.settle();
  const uint64_t live = served.space.heap().stats().buffers_live;
  EXPECT_EQ(end_upload(Method::kPutAbandon), Code::kOk);
  EXPECT_EQ(served.space.heap().stats().buffers_live, live - 1);
  served.space.add_chunks(4);
  served.service.on_memory_added();
  ASSERT_TRUE(served.run_until([&] { return peer.session->done(commit); }));
  EXPECT_EQ(peer.session->finish(commit).code, Code::kInvalidated);
  EXPECT_EQ(served.space.table().stats().entries, kSlotsPerBucket);
  EXPECT_TRUE(served.is_sound());
}

// Counts the looks at all pins.
class CountedPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override { ++looks; }
  size_t looks = 0;
};

class QuietNode : public testing::Test {
 protected:
  QuietNode() { served.pins.all.add(counted); }
  void put(std::string_view key, size_t value_bytes) {
    EXPECT_TRUE(peer.client->put_and_wait(bytes_of(key), bytes_of(patterned(value_bytes))).has_value());
  }
  uint64_t retired_bytes() { return served.service.stat().bytes_retired; }
  // Lets virtual time pass, and everything that falls due happen.
  void let_pass(uint64_t ns) {
    const uint64_t until_ns = served.shard.refresh_now() + ns;
    EXPECT_FALSE(served.shard.run_until([] { return false; }, until_ns));
  }

  Served served;
  Served::Peer peer = served.connect();
  CountedPins counted;
};

TEST_F(QuietNode, holds_no_retired_buffer_and_no_timer) {
  put("key", 100);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns) << "nothing to reclaim, no timer";
  put("key", 100);
  EXPECT_GT(retired_bytes(), 0u);
  let_pass(kSecond_ns);
  EXPECT_EQ(retired_bytes(), 0u);
  EXPECT_EQ(counted.looks, 1u);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
}

TEST_F(QuietNode, looks_rarely_while_a_view_is_held_and_frees_what_others_retire_meanwhile) {
  put("key", 100'000);
  std::string reply;
  ASSERT_EQ(served.call(peer, Method::kGet, bytes_of(body_of(test::key_ref(3), "key")), &reply), Code::kOk);
  const auto view = reply_as<wire::GetReply>(reply).view;
  ASSERT_NE(view, 0u);
  ASSERT_TRUE(peer.client->erase_and_wait(bytes_of("key")).has_value());
  let_pass(600 * kSecond_ns);
  const uint64_t held_bytes = retired_bytes();
  EXPECT_GE(held_bytes, 100'000u);
  EXPECT_LE(counted.looks, 14u);

  put("other", 100);
  put("other", 100);
  EXPECT_GT(retired_bytes(), held_bytes);
  let_pass(kSecond_ns);
  EXPECT_EQ(retired_bytes(), held_bytes);

  EXPECT_EQ(served.call(peer, Method::kViewClose, bytes_of(body_of(wire::Handle{view}))), Code::kOk);
  let_pass(10 * kSecond_ns);
  EXPECT_EQ(retired_bytes(), 0u);
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
}

}  // namespace
}  // namespace refract::kv
