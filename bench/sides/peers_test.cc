// SPDX-License-Identifier: Apache-2.0
// The stores that others wrote and that loads are put on beside ours: how their answers are read, and that
// our clients of them ask and check as they should. Who has no such program gets no test of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/load/memcached_driver.h"
#include "bench/load/redis_driver.h"
#include "bench/load/table_driver.h"
#include "bench/sides/memcached.h"
#include "bench/sides/redis.h"

namespace refract::bench::peers_test {
namespace {

std::string answer(MemcachedOp op, uint16_t status, const std::string& extras, const std::string& value,
                   uint8_t version = 0) {
  std::string text(kMemcachedHeadBytes, '\0');
  text[0] = static_cast<char>(0x81);
  text[1] = static_cast<char>(op);
  text[4] = static_cast<char>(extras.size());
  text[7] = static_cast<char>(status);
  const size_t body = extras.size() + value.size();
  for (size_t i = 0; i < 4; ++i) text[8 + i] = static_cast<char>(body >> (8 * (3 - i)) & 0xff);
  text[23] = static_cast<char>(version);
  return text + extras + value;
}

struct Heard {
  MemcachedReply reply;
  std::string value;
  std::string text;
};

// Everything that a stream says, when it comes in pieces of `piece` bytes.
std::vector<Heard> read_all(const std::string& stream, size_t piece, size_t target_bytes) {
  std::vector<std::byte> target(target_bytes);
  MemcachedReader reader(target);
  std::vector<Heard> heard;
  for (size_t at = 0; at < stream.size();) {
    size_t left = std::min(piece, stream.size() - at);
    size_t copied = 0;
    for (const iovec& room : reader.room()) {
      const size_t count = std::min(left, room.iov_len);
      std::memcpy(room.iov_base, stream.data() + at + copied, count);
      copied += count;
      left -= count;
    }
    reader.received(copied);
    at += copied;
    for (MemcachedReply reply = reader.next(); reply.kind != MemcachedReply::Kind::kNone;
         reply = reader.next()) {
      const auto* bytes = reinterpret_cast<const char*>(target.data());
      heard.push_back({reply, std::string(bytes, reply.bytes), std::string(reply.text)});
      if (reply.kind == MemcachedReply::Kind::kMalformed) return heard;
    }
  }
  return heard;
}

TEST(MemcachedReader, reads_the_same_replies_however_the_stream_is_cut) {
  const std::string large(200'000, 'x');
  const std::string flags(4, '\0');
  const std::string stream =
      answer(MemcachedOp::kSet, 0, "", "", 7) + answer(MemcachedOp::kGet, 0, flags, "abc", 9) +
      answer(MemcachedOp::kGet, 1, "", "Not found") + answer(MemcachedOp::kGet, 0, flags, "") +
      answer(MemcachedOp::kGet, 0, flags, large) + answer(MemcachedOp::kSet, 3, "", "Too large.");
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{23}, size_t{1000}, size_t{70'000}, stream.size()}) {
    const std::vector<Heard> heard = read_all(stream, piece, 200'000);
    ASSERT_EQ(heard.size(), 6U) << piece;
    EXPECT_EQ(heard[0].reply.op, MemcachedOp::kSet);
    EXPECT_EQ(heard[0].reply.version, 7U);
    EXPECT_EQ(heard[1].value, "abc");
    EXPECT_EQ(heard[1].reply.version, 9U);
    EXPECT_EQ(heard[2].reply.status, 1);
    EXPECT_EQ(heard[2].text, "Not found");
    EXPECT_EQ(heard[3].reply.bytes, 0U);
    EXPECT_TRUE(heard[4].value == large) << piece;
    EXPECT_EQ(heard[5].text, "Too large.");
  }
}

TEST(MemcachedReader, refuses_what_makes_no_sense) {
  const std::string flags(4, '\0');
  std::string no_magic = answer(MemcachedOp::kGet, 0, flags, "abc");
  no_magic[0] = 0;
  std::string extras_beyond_body = answer(MemcachedOp::kGet, 0, flags, "");
  extras_beyond_body[4] = 100;
  for (const std::string& stream :
       {no_magic, extras_beyond_body, answer(MemcachedOp::kGet, 0, flags, "longer than the target")}) {
    const std::vector<Heard> heard = read_all(stream, 100, 3);
    ASSERT_FALSE(heard.empty());
    EXPECT_EQ(heard.back().reply.kind, MemcachedReply::Kind::kMalformed);
  }
}

TEST(MemcachedRequest, has_the_bytes_of_the_binary_protocol) {
  std::array<char, kMemcachedRequestBytesMax> bytes;
  const std::span<char, kMemcachedRequestBytesMax> room(bytes);
  ASSERT_EQ(write_request({.op = MemcachedOp::kGet, .key_bytes = 16}, room), 24U);
  EXPECT_EQ(std::string(bytes.data(), 24),
            std::string("\x80\0\0\x10\0\0\0\0\0\0\0\x10", 12) + std::string(12, '\0'));
  ASSERT_EQ(write_request({.op = MemcachedOp::kSet, .key_bytes = 8, .value_bytes = 300, .version = 5}, room),
            32U);
  EXPECT_EQ(std::string(bytes.data(), 32), std::string("\x80\1\0\x8\x8\0\0\0\0\0\1\x3c", 12) +
                                               std::string(11, '\0') + "\5" + std::string(8, '\0'));
}

// What a load may ask of any store that keeps what it is told.
void expect_it_serves(PipelinedDriver& driver, WorkloadOptions options) {
  const Timer timer = Timer::calibrate();
  const Reported<> filled = driver.fill(0, options.keys / 2);
  ASSERT_TRUE(filled) << filled.error().what;
  options.seconds = 600;
  options.operations = options.value_bytes > 1'000'000 ? 40 : 2'000;
  options.get_share = 1;
  Workload gets(options, timer);
  Reported<WorkloadResult> result = run_workload(driver, gets);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->operations, options.operations);
  EXPECT_EQ(result->requests, options.operations);
  EXPECT_GT(result->missing, 0U) << "half of the keys are not there";
  options.get_share = 0.5;
  options.in_order = true;
  options.operations = 0;
  Workload mixed(options, timer);
  result = run_workload(driver, mixed);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->operations, options.keys);
}

// Reads that a write follows, of so few keys that several are under way of each.
void expect_it_replaces(PipelinedDriver& driver, WorkloadOptions options) {
  options.keys = 2;
  options.get_share = 0.5;
  options.replace_share = 0.5;
  options.seconds = 600;
  options.operations = 1'000;
  Workload workload(options, Timer::calibrate());
  const Reported<WorkloadResult> result = run_workload(driver, workload);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->operations, 1'000U);
  EXPECT_EQ(result->missing, 0U);
  EXPECT_EQ(result->overloaded, 0U);
  EXPECT_GT(result->requests, 1'400U);
}

struct Asked {
  WorkloadOptions options;
  size_t depth;
};
const WorkloadOptions kSmall{.keys = 500, .key_bytes = 19, .value_bytes = 100};
const WorkloadOptions kLarge{.keys = 4, .key_bytes = 8, .value_bytes = 3'000'000};
const std::array kAsked = {Asked{kSmall, 1}, Asked{kSmall, 3}, Asked{kSmall, 64}, Asked{kLarge, 1},
                           Asked{kLarge, 3}};

TEST(Memcached, serves_short_and_long_values_to_a_client_of_any_depth) {
  for (const auto& [options, depth] : kAsked) {
    const Reported<Memcached> memcached = Memcached::start(
        {.keys = options.keys, .key_bytes = options.key_bytes, .value_bytes = options.value_bytes});
    if (!memcached && memcached.error().code == Code::kUnsupported) GTEST_SKIP() << memcached.error().what;
    ASSERT_TRUE(memcached) << memcached.error().what;
    const Contents contents(options.key_bytes, options.value_bytes);
    const auto driver = MemcachedDriver::connect(memcached->port(), {.depth = depth}, contents);
    ASSERT_TRUE(driver) << driver.error().what;
    expect_it_serves(**driver, options);
    if (options.value_bytes < 1'000) expect_it_replaces(**driver, options);
  }
}

TEST(Memcached, says_that_it_is_full_instead_of_forgetting) {
  const Reported<Memcached> memcached = Memcached::start({.keys = 1, .key_bytes = 16, .value_bytes = 65'536});
  if (!memcached && memcached.error().code == Code::kUnsupported) GTEST_SKIP() << memcached.error().what;
  ASSERT_TRUE(memcached) << memcached.error().what;
  const auto driver = MemcachedDriver::connect(memcached->port(), {.depth = 8}, Contents(16, 65'536));
  ASSERT_TRUE(driver) << driver.error().what;
  const Reported<> filled = (*driver)->fill(0, 20'000);
  ASSERT_FALSE(filled);
  EXPECT_NE(filled.error().what.find("Out of memory"), std::string::npos) << filled.error().what;
}

TEST(Redis, serves_short_and_long_values_to_a_client_of_any_depth) {
  for (const auto& [options, depth] : kAsked) {
    const Reported<Redis> redis = Redis::start({.over_tcp = true});
    if (!redis && redis.error().code == Code::kUnsupported) GTEST_SKIP() << redis.error().what;
    ASSERT_TRUE(redis) << redis.error().what;
    const Contents contents(options.key_bytes, options.value_bytes);
    const auto driver = RedisDriver::connect(redis->port(), {.depth = depth}, contents);
    ASSERT_TRUE(driver) << driver.error().what;
    expect_it_serves(**driver, options);
    if (options.value_bytes < 1'000) expect_it_replaces(**driver, options);
  }
}

TEST(Redis, is_scanned_as_far_as_it_goes_whatever_is_asked_for) {
  for (const uint64_t keys : {uint64_t{1}, uint64_t{60}, uint64_t{5'000}}) {
    const Reported<Redis> redis = Redis::start({.over_tcp = true});
    if (!redis && redis.error().code == Code::kUnsupported) GTEST_SKIP() << redis.error().what;
    ASSERT_TRUE(redis) << redis.error().what;
    const Contents contents(16, 64);
    const auto filler = RedisDriver::connect(redis->port(), {.depth = 8}, contents);
    ASSERT_TRUE(filler) << filler.error().what;
    ASSERT_TRUE((*filler)->fill(0, keys));
    const auto driver = RedisDriver::connect(redis->port(), {.depth = 8, .has_scans = true}, contents);
    ASSERT_TRUE(driver) << driver.error().what;
    WorkloadOptions options{.keys = keys, .get_share = 0, .scan_share = 1, .seconds = 600, .operations = 200};
    Workload workload(options, Timer::calibrate());
    const Reported<WorkloadResult> result = run_workload(**driver, workload);
    ASSERT_TRUE(result) << result.error().what;
    EXPECT_EQ(result->operations, 200U);
    EXPECT_EQ(result->missing, 0U);
    EXPECT_GE(result->scanned, 200U);
    EXPECT_LE(result->scanned, 200 * kScanEntriesMax);
  }
}

void expect_table_keeps_entries(ByteTable& table, const Contents& contents) {
  constexpr uint64_t kKeys = 2'000;
  fill_table(table, contents, kKeys / 2);
  fill_table(table, contents, kKeys / 2);  // Overwriting takes no room.
  WorkloadOptions options{.keys = kKeys,
                          .key_bytes = contents.key_bytes(),
                          .value_bytes = contents.value_bytes(),
                          .in_order = true,
                          .seconds = 600};
  TableDriver driver(table, contents);
  Workload gets(options, Timer::calibrate());
  Reported<WorkloadResult> result = run_workload(driver, gets);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->operations, kKeys);
  EXPECT_EQ(result->missing, kKeys / 2);
  EXPECT_EQ(result->requests, 0U);
  options.get_share = 0;
  Workload puts(options, Timer::calibrate());
  result = run_workload(driver, puts);
  ASSERT_TRUE(result) << result.error().what;
  gets.begin();
  result = run_workload(driver, gets);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->missing, 0U);
  options.get_share = 0;
  options.replace_share = 1;
  Workload replaces(options, Timer::calibrate());
  result = run_workload(driver, replaces);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->operations, kKeys);
  EXPECT_EQ(result->missing, 0U);
}

TEST(ByteTable, keeps_entries_of_any_sizes_under_their_keys) {
  for (const auto& [key_bytes, value_bytes] :
       {std::pair{16UL, 64UL}, std::pair{16UL, 65UL}, std::pair{8UL, 1UL}, std::pair{301UL, 5'000UL}}) {
    const Contents contents(key_bytes, value_bytes);
    const ByteTable::Sizes sizes = {.keys = 2'000, .key_bytes = key_bytes, .value_bytes = value_bytes};
    const auto table = make_open_addressing(sizes);
    ASSERT_TRUE(table) << table.error().what;
    expect_table_keeps_entries(**table, contents);
    const auto cuckoo = make_cuckoo_table(sizes);
    if (!cuckoo && cuckoo.error().code == Code::kUnsupported) continue;
    ASSERT_TRUE(cuckoo) << cuckoo.error().what;
    expect_table_keeps_entries(**cuckoo, contents);
  }
}

}  // namespace
}  // namespace refract::bench::peers_test
