// SPDX-License-Identifier: Apache-2.0
// What one client asks for at a time is bounded, counted, and does not make others wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::patterned;
using test::Served;
using wire::Method;

std::string scan_body() {
  const wire::ScanRequest request{.cursor = 0, .keys_min = 1'000'000};
  return {reinterpret_cast<const char*>(&request), sizeof(request)};
}

uint64_t start(Served::Peer& peer, Method method, const std::string& body) {
  return peer.session->start({.method = static_cast<uint16_t>(method), .head = bytes_of(body)});
}

TEST(Overload, a_client_with_many_scans_does_not_make_others_wait_for_them) {
  Served served({.link = {.depth = 64, .message_bytes_max = 64 * 1024}});
  Served::Peer greedy = served.connect();
  Served::Peer other = served.connect();
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(other.client->put_and_wait(bytes_of("key" + std::to_string(i)), bytes_of("value")));
  }
  std::vector<uint64_t> scans;
  for (int i = 0; i < 40; ++i) scans.push_back(start(greedy, Method::kScan, scan_body()));
  wire::KeyRef ref{};
  ref.key_bytes = 4;
  const std::string get(reinterpret_cast<const char*>(&ref), sizeof(ref));
  const uint64_t single = start(other, Method::kGet, get + "key7");
  const uint64_t page = start(other, Method::kScan, scan_body());
  const auto scans_done = [&] {
    return std::ranges::count_if(scans, [&](uint64_t id) { return greedy.session->done(id); });
  };
  while (!other.session->done(single)) (void)served.shard.poll_once();
  EXPECT_LE(scans_done(), 2) << "a page, and perhaps one more while the answer was under way";
  EXPECT_GT(served.service.stat().waiting_scans, 30u);
  while (!other.session->done(page)) (void)served.shard.poll_once();
  EXPECT_LE(scans_done(), 5) << "sessions take turns with their pages";
  ASSERT_TRUE(served.run_until([&] { return scans_done() == 40; }));
  EXPECT_EQ(served.service.stat().waiting_scans, 0u);
  for (const uint64_t id : scans) EXPECT_EQ(greedy.session->finish(id).code, Code::kOk);
  EXPECT_EQ(other.session->finish(single).code, Code::kOk);
  EXPECT_EQ(other.session->finish(page).code, Code::kOk);
}

TEST(Overload, scans_of_a_session_that_ends_are_forgotten) {
  Served served({.link = {.depth = 64, .message_bytes_max = 64 * 1024}});
  Served::Peer greedy = served.connect();
  for (int i = 0; i < 10; ++i) (void)start(greedy, Method::kScan, scan_body());
  greedy = {};
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 0; }));
  served.settle();
  EXPECT_EQ(served.service.stat().waiting_scans, 0u);
  Served::Peer next = served.connect();
  EXPECT_EQ(served.call(next, Method::kScan, bytes_of(scan_body())), Code::kOk);
}

TEST(Overload, one_client_leaves_places_to_others_while_the_node_grows) {
  Served served({.chunks = 6, .chunks_max = 64, .link = {.depth = 64, .message_bytes_max = 16 * 1024}});
  Served::Peer filler = served.connect();
  const std::string value = patterned(10'000);
  for (int i = 0; filler.client->put_and_wait(bytes_of("fill" + std::to_string(i)), bytes_of(value)); ++i) {
  }
  served.growth.allowed = true;
  const auto put_body = [&](const std::string& key) {
    wire::PutRequest request{};
    request.key = {.key_bytes = static_cast<uint16_t>(key.size()),
                   .staged = 0,
                   .flags = 0,
                   .value_bytes = static_cast<uint32_t>(value.size())};
    return std::string(reinterpret_cast<const char*>(&request), sizeof(request)) + key + value;
  };
  Served::Peer greedy = served.connect();
  Served::Peer other = served.connect();
  std::vector<uint64_t> calls;
  for (int i = 0; i < 60; ++i) {
    calls.push_back(start(greedy, Method::kPut, put_body("greedy" + std::to_string(i))));
    ASSERT_NE(calls.back(), 0u);
    (void)served.shard.poll_once();
  }
  served.settle();
  const uint64_t waiting = served.service.stat().waiting_for_memory;
  EXPECT_LT(waiting, 60u);
  EXPECT_EQ(served.service.stat().overloaded, 60u - waiting);
  EXPECT_GE(served.service.stat().waiting_bytes, waiting * value.size());
  const uint64_t one = start(other, Method::kPut, put_body("other"));
  served.settle();
  EXPECT_EQ(served.service.stat().waiting_for_memory, waiting + 1);
  EXPECT_FALSE(other.session->done(one));
  served.space.add_chunks(8);
  served.service.on_memory_added();
  ASSERT_TRUE(served.run_until([&] { return other.session->done(one); }));
  EXPECT_EQ(other.session->finish(one).code, Code::kOk);
  for (const uint64_t id : calls) (void)greedy.session->finish(id);
}

// Begins an upload of so many bytes; its id where there is one.
std::pair<Code, uint64_t> begin_upload(Served& served, Served::Peer& peer, uint32_t value_bytes) {
  wire::PutRequest request{};
  request.key = {.key_bytes = 1, .staged = 0, .flags = 0, .value_bytes = value_bytes};
  const std::string body(reinterpret_cast<const char*>(&request), sizeof(request));
  std::string reply;
  const Code code = served.call(peer, Method::kPutBegin, bytes_of(body + "k"), &reply);
  uint64_t id = 0;
  if (reply.size() == sizeof(id)) std::memcpy(&id, reply.data(), sizeof(id));
  return {code, id};
}

TEST(Overload, uploads_of_all_clients_together_are_bounded_and_forgotten_ones_make_room) {
  constexpr uint32_t kPart = 1 << 20;
  Served served({.chunks = 60, .chunks_max = 60, .upload_bytes_max = 4 * kPart});
  std::vector<Served::Peer> peers;
  std::vector<uint64_t> uploads;
  for (int i = 0; i < 4; ++i) {
    peers.push_back(served.connect());
    const auto [code, id] = begin_upload(served, peers.back(), kPart);
    ASSERT_EQ(code, Code::kOk);
    uploads.push_back(id);
  }
  Served::Peer late = served.connect();
  EXPECT_EQ(begin_upload(served, late, 1).first, Code::kOverloaded);
  EXPECT_EQ(served.service.stat().upload_bytes, 4 * kPart);
  EXPECT_TRUE(late.client->put_and_wait(bytes_of("small"), bytes_of("value")).has_value());
  // One that ends makes room, and so does a client that goes.
  EXPECT_EQ(served.call(peers[0], Method::kPutAbandon, std::as_bytes(std::span(&uploads[0], 1))), Code::kOk);
  EXPECT_EQ(begin_upload(served, late, kPart).first, Code::kOk);
  EXPECT_EQ(begin_upload(served, late, 1).first, Code::kOverloaded);
  peers[1] = {};
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 4; }));
  EXPECT_EQ(begin_upload(served, late, kPart).first, Code::kOk);
  // Forgotten uploads of others go when another client needs their share, and all of them for one that is
  // larger.
  served.space.clock().advance_ns(SessionState::kIdle_ns);
  EXPECT_EQ(begin_upload(served, peers[0], 20 * kPart).first, Code::kOk) << "one alone may be larger";
  EXPECT_EQ(served.service.stat().uploads, 1u);
  EXPECT_EQ(served.service.stat().upload_bytes, 20 * kPart);
  EXPECT_EQ(begin_upload(served, late, 1).first, Code::kOverloaded);
}

TEST(Overload, stat_says_what_clients_hold) {
  Served served({.link = {.depth = 32, .message_bytes_max = 2048}});
  Served::Peer peer = served.connect();
  const std::string value = patterned(100'000);
  ASSERT_TRUE(peer.client->put_and_wait(bytes_of("key"), bytes_of(value)).has_value());
  wire::KeyRef ref{};
  ref.key_bytes = 3;
  const std::string get(reinterpret_cast<const char*>(&ref), sizeof(ref));
  wire::PutRequest begin{};
  begin.key = {.key_bytes = 3, .staged = 0, .flags = 0, .value_bytes = 50'000};
  const std::string put(reinterpret_cast<const char*>(&begin), sizeof(begin));
  EXPECT_EQ(served.call(peer, Method::kGet, bytes_of(get + "key")), Code::kOk);
  EXPECT_EQ(served.call(peer, Method::kPutBegin, bytes_of(put + "key")), Code::kOk);
  const Result<wire::StatReply> stat = served.wait(peer.client->stat());
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->view_bytes, 100'000u);
  EXPECT_EQ(stat->upload_bytes, 50'000u);
  EXPECT_EQ(stat->overloaded, 0u);
  for (size_t i = 1; i < wire::kUploadsPerSession; ++i) {
    EXPECT_EQ(served.call(peer, Method::kPutBegin, bytes_of(put + "key")), Code::kOk);
  }
  EXPECT_EQ(served.call(peer, Method::kPutBegin, bytes_of(put + "key")), Code::kOverloaded);
  EXPECT_EQ(served.service.stat().overloaded, 1u);
}

}  // namespace
}  // namespace refract::kv
