// SPDX-License-Identifier: Apache-2.0
// A put that comes alone takes a shorter way through the service than one among others: both say and do the
// same, whatever the body.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "refract/base/prng.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::body_of;
using test::bytes_of;
using test::reply_as;
using test::Served;
using test::ServedOptions;
using test::text_of;
using wire::Method;

struct Answer {
  Code code = Code::kOk;
  std::string bytes;

  bool operator==(const Answer&) const = default;
};

class Side {
 public:
  explicit Side(const ServedOptions& options) : served_(options) {}

  Answer alone(const std::string& body) {
    Answer answer;
    answer.code = served_.call(peer_, Method::kPut, bytes_of(body), &answer.bytes);
    return answer;
  }
  // With a call before it, in one message batch.
  Answer among_others(const std::string& body) {
    const std::string nonce = body_of(wire::PingRequest{.nonce = 1});
    const uint64_t deadline_ns = served_.shard.refresh_now() + kSecond_ns;
    auto ping = peer_.session->call({.method = static_cast<uint16_t>(Method::kPing), .head = bytes_of(nonce)},
                                    deadline_ns);
    auto put = peer_.session->call({.method = static_cast<uint16_t>(Method::kPut), .head = bytes_of(body)},
                                   deadline_ns);
    ping.start();
    put.start();
    EXPECT_TRUE(served_.run_until([&] { return ping.done() && put.done(); }));
    const runtime::OpResult result = put.take();
    return {.code = result.code, .bytes = text_of(result.bytes)};
  }
  [[nodiscard]] Served& served() noexcept { return served_; }
  [[nodiscard]] uint64_t puts_counted() const {
    return served_.service.stat().ops[static_cast<size_t>(Method::kPut)];
  }

 private:
  Served served_;
  Served::Peer peer_ = served_.connect();
};

template <typename T, size_t kCount>
T one_of(Prng& prng, const std::array<T, kCount>& choices) {
  return choices[prng.below(kCount)];
}

// Most of its fields right, so that each is met wrong by itself.
std::string any_body(Prng& prng, uint64_t version) {
  const std::string key(prng.below(5), static_cast<char>('a' + prng.below(4)));
  const std::string value(prng.below(40), 'v');
  wire::PutRequest request{};
  request.key.key_bytes = static_cast<uint16_t>(key.size());
  request.key.staged = one_of<uint8_t, 8>(prng, {0, 0, 0, 0, 0, 0, 1, 200});
  request.key.flags = one_of<uint8_t, 8>(prng, {0, 0, 0, 0, 1, 2, 4, 8});
  request.key.value_bytes =
      static_cast<uint32_t>(value.size() + one_of<size_t, 8>(prng, {0, 0, 0, 0, 0, 0, 0, 1}));
  request.if_version = one_of<uint64_t, 6>(prng, {0, 0, 0, 0, version, 7});
  request.ttl_ns = one_of<uint64_t, 6>(prng, {0, 0, 0, 0, kSecond_ns, UINT64_MAX});
  std::string body = body_of(request, key + value);
  if (prng.below(10) == 0) body.resize(prng.below(body.size() + 3), 'x');
  return body;
}

void expect_the_same(Table& left, Table& right) {
  for (char letter = 'a'; letter < 'e'; ++letter) {
    for (size_t length = 1; length < 5; ++length) {
      const std::string key(length, letter);
      const auto one = left.find(bytes_of(key));
      const auto other = right.find(bytes_of(key));
      ASSERT_EQ(one.code(), other.code()) << key;
      if (!one) continue;
      EXPECT_EQ(text_of(one->value), text_of(other->value)) << key;
      EXPECT_EQ(one->version, other->version) << key;
      EXPECT_EQ(one->expires_wall_ns, other->expires_wall_ns) << key;
    }
  }
  EXPECT_EQ(left.stats().entries, right.stats().entries);
}

TEST(TableServiceAlone, a_put_alone_is_a_put_among_others) {
  for (const uint32_t shards : {1u, 2u}) {
    Side alone({.shard_count = shards});
    Side beside({.shard_count = shards});
    Prng prng(shards);
    std::map<Code, int> met;
    uint64_t version = 0;
    for (int step = 0; step < 5'000; ++step) {
      const std::string body = any_body(prng, version);
      const Answer one = alone.alone(body);
      ASSERT_EQ(one, beside.among_others(body)) << "step " << step;
      ++met[one.code];
      if (one.code == Code::kOk) version = reply_as<wire::VersionReply>(one.bytes).version;
    }
    expect_the_same(alone.served().space.table(), beside.served().space.table());
    EXPECT_EQ(alone.puts_counted(), beside.puts_counted());
    EXPECT_EQ(alone.served().server.counts().calls, 5'000u);
    EXPECT_GT(met[Code::kOk], 300);
    EXPECT_GT(met[Code::kMalformed], 100);
    EXPECT_GT(met[Code::kVersionMismatch], 10);
    EXPECT_EQ(met[Code::kWrongShard] > 100, shards > 1);
  }
}

TEST(TableServiceAlone, is_counted_and_refused_where_memory_is_full) {
  Side side({.chunks = 8, .chunks_max = 8});
  const std::string value(1'000, 'v');
  int stored = 0;
  Code code = Code::kOk;
  while (code == Code::kOk) {
    const std::string key = std::to_string(stored);
    wire::PutRequest request{};
    request.key.key_bytes = static_cast<uint16_t>(key.size());
    request.key.value_bytes = static_cast<uint32_t>(value.size());
    code = side.alone(body_of(request, key + value)).code;
    stored += code == Code::kOk ? 1 : 0;
    ASSERT_LT(stored, 20'000);
  }
  EXPECT_EQ(code, Code::kNoSpace);
  EXPECT_EQ(side.puts_counted(), static_cast<uint64_t>(stored) + 1);
  EXPECT_EQ(side.served().space.table().stats().entries, static_cast<uint64_t>(stored));
  EXPECT_TRUE(side.served().is_sound());
}

}  // namespace
}  // namespace refract::kv
