// SPDX-License-Identifier: Apache-2.0
// Claims about one-sided requests: what they do, and what they refuse.
#include <algorithm>
#include <cstring>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/conformance.h"

namespace refract::fabric {
namespace {

constexpr Rights kAll = {.read = true, .write = true, .atomic = true};

LocalSpan local_of(std::vector<std::byte>& bytes) {
  return {bytes.data(), bytes.size()};
}

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  Prng prng(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.next());
  return bytes;
}

uint64_t word_of(std::span<const std::byte> memory, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, memory.data() + offset, sizeof(word));
  return word;
}

}  // namespace

TEST_P(ChannelConformance, read_returns_the_bytes_of_the_region) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{64}, size_t{4096}, kRegionBytes}) {
    const size_t offset = bytes == kRegionBytes ? 0 : 24;
    std::vector<std::byte> local(bytes);
    const Event event =
        perform(pair.client, {.local = local_of(local), .remote = at(offset), .op = Op::kRead});
    EXPECT_EQ(event.completion.code, Code::kOk) << bytes;
    EXPECT_TRUE(std::equal(local.begin(), local.end(), region_.begin() + static_cast<ptrdiff_t>(offset)))
        << bytes;
  }
}

TEST_P(ChannelConformance, write_changes_these_bytes_and_no_others) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> expected = region_copy();
  for (const size_t bytes : {size_t{1}, size_t{8}, size_t{4096}, kRegionBytes - 3}) {
    std::vector<std::byte> local = random_bytes(bytes, bytes);
    std::memcpy(expected.data() + 3, local.data(), bytes);
    const Event event = perform(pair.client, {.local = local_of(local), .remote = at(3), .op = Op::kWrite});
    EXPECT_EQ(event.completion.code, Code::kOk) << bytes;
    // The completion may come before the bytes can be seen; what follows on the channel comes after them.
    std::vector<std::byte> back(bytes);
    (void)perform(pair.client, {.local = local_of(back), .remote = at(3), .op = Op::kRead});
    EXPECT_TRUE(back == local) << bytes;
    EXPECT_TRUE(region_copy() == expected) << bytes;
  }
}

TEST_P(ChannelConformance, compare_swap_returns_the_old_value_and_swaps_only_a_match) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const uint64_t before = word_of(region_, 64);
  Event event =
      perform(pair.client, {.remote = at(64), .compare = before, .operand = 5, .op = Op::kCompareSwap});
  EXPECT_EQ(event.completion.code, Code::kOk);
  EXPECT_EQ(event.completion.value, before);
  event = perform(pair.client, {.remote = at(64), .compare = before, .operand = 6, .op = Op::kCompareSwap});
  EXPECT_EQ(event.completion.code, Code::kOk);
  EXPECT_EQ(event.completion.value, 5u) << "a failed comparison returns what the word holds";
  EXPECT_EQ(word_of(region_, 64), 5u);
}

TEST_P(ChannelConformance, fetch_adds_of_two_channels_all_count) {
  serve(kAll);
  const Pair one = open();
  const Pair two = open();
  ASSERT_TRUE(one.client != nullptr && two.client != nullptr);
  const uint64_t before = word_of(region_, 128);
  constexpr uint64_t kRounds = 500;
  for (uint64_t i = 0; i < kRounds; ++i) {
    for (const End& channel : {one.client, two.client}) {
      const Request request = {.token = next_token_++, .remote = at(128), .operand = 3, .op = Op::kFetchAdd};
      ASSERT_TRUE(post(channel, {&request, 1}));
    }
  }
  ASSERT_TRUE(settle([&] { return client_->count(Op::kFetchAdd) == 2 * kRounds; }));
  std::vector<bool> seen(2 * kRounds);
  for (const Event& event : client_->events()) {
    if (event.completion.op != Op::kFetchAdd) continue;
    ASSERT_EQ(event.completion.code, Code::kOk);
    const uint64_t step = (event.completion.value - before) / 3;
    ASSERT_LT(step, seen.size());
    EXPECT_FALSE(seen[step]) << "two requests saw the same old value";
    seen[step] = true;
  }
  EXPECT_EQ(word_of(region_, 128), before + 3 * 2 * kRounds);
}

TEST_P(ChannelConformance, what_the_key_bounds_or_rights_do_not_cover_is_refused_without_effect) {
  serve({.read = true, .write = true, .atomic = true});
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const std::vector<std::byte> before = region_copy();
  const RemoteKey wrong = {key_.bits ^ 1};
  const uint64_t last = kRegionBytes - 8;
  struct Case {
    const char* what;
    RemoteSpan remote;
    size_t bytes;
  };
  const Case cases[] = {
      {"wrong key", {RemotePointer::at(kRegion, 0), wrong}, 8},
      {"key 0", {RemotePointer::at(kRegion, 0), {}}, 8},
      {"region that was never registered", {RemotePointer::at(kRegion + 1, 0), key_}, 8},
      {"region 0", {RemotePointer::at(0, 0), key_}, 8},
      {"one byte over the end", at(last + 1), 8},
      {"just behind the end", at(kRegionBytes), 8},
      {"far behind the end", at(RemotePointer::kOffsetMask), 8},
      {"from inside to far outside", at(8), kRegionBytes},
  };
  for (const Case& item : cases) {
    std::vector<std::byte> local(item.bytes, std::byte{0xee});
    const std::vector<std::byte> untouched = local;
    for (const Op op : {Op::kRead, Op::kWrite, Op::kCompareSwap, Op::kFetchAdd}) {
      const bool is_atomic = op == Op::kCompareSwap || op == Op::kFetchAdd;
      if (is_atomic && (item.bytes != 8 || item.remote.address.offset() % 8 != 0)) continue;
      Request request = {.remote = item.remote, .operand = 1, .op = op};
      if (!is_atomic) request.local = local_of(local);
      EXPECT_EQ(perform(pair.client, request).completion.code, Code::kAccessDenied)
          << item.what << " op " << int{static_cast<uint8_t>(op)};
    }
    EXPECT_TRUE(local == untouched) << item.what;
    EXPECT_TRUE(region_copy() == before) << item.what;
  }
  std::vector<std::byte> local(8);
  const Event event = perform(pair.client, {.local = local_of(local), .remote = at(last), .op = Op::kRead});
  EXPECT_EQ(event.completion.code, Code::kOk) << "the channel stays open";
}

// As a window on an object does, whose neighbours are not to be reached.
TEST_P(ChannelConformance, a_region_may_begin_inside_of_a_page) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  constexpr uint64_t kFirst = 72;
  constexpr uint64_t kBytes = 9'000;
  std::vector<std::byte> expected = region_copy();
  const Reported<RemoteKey> key = fixture_->server().register_region({.region = kRegion + 1,
                                                                      .base = region_.data() + kFirst,
                                                                      .bytes = kBytes,
                                                                      .rights = kAll,
                                                                      .first = kFirst});
  ASSERT_TRUE(key.has_value()) << key.error().to_string();
  const auto inside = [&](uint64_t offset) {
    return RemoteSpan{RemotePointer::at(kRegion + 1, offset), *key};
  };
  std::vector<std::byte> local(kBytes);
  Event event = perform(pair.client, {.local = local_of(local), .remote = inside(kFirst), .op = Op::kRead});
  EXPECT_EQ(event.completion.code, Code::kOk);
  EXPECT_TRUE(std::ranges::equal(local, std::span(expected).subspan(kFirst, kBytes)));
  local = random_bytes(100, 1);
  event = perform(pair.client,
                  {.local = local_of(local), .remote = inside(kFirst + kBytes - 100), .op = Op::kWrite});
  EXPECT_EQ(event.completion.code, Code::kOk);
  std::ranges::copy(local, expected.begin() + kFirst + kBytes - 100);
  event = perform(pair.client,
                  {.local = local_of(local), .remote = inside(kFirst + kBytes - 99), .op = Op::kWrite});
  EXPECT_EQ(event.completion.code, Code::kAccessDenied);
  event = perform(pair.client, {.local = local_of(local), .remote = at(0), .op = Op::kRead});
  EXPECT_EQ(event.completion.code, Code::kOk) << "the other one is served as before";
  EXPECT_TRUE(region_copy() == expected);
  (void)fixture_->server().revoke_region(kRegion + 1);
}

TEST_P(ChannelConformance, offset_plus_length_that_overflows_is_refused) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const std::vector<std::byte> before = region_copy();
  std::byte byte{};
  // Never dereferenced: a provider refuses such a length before it looks at a local byte.
  for (const uint64_t bytes : {~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{1} << 63}) {
    for (const Op op : {Op::kRead, Op::kWrite}) {
      const Event event =
          perform(pair.client, {.local = {&byte, static_cast<size_t>(bytes)}, .remote = at(8), .op = op});
      EXPECT_EQ(event.completion.code, Code::kAccessDenied) << bytes;
    }
  }
  EXPECT_TRUE(region_copy() == before);
}

TEST_P(ChannelConformance, a_missing_right_is_refused_without_effect) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  for (unsigned mask = 0; mask < 8; ++mask) {
    const Rights rights = {.read = (mask & 1) != 0, .write = (mask & 2) != 0, .atomic = (mask & 4) != 0};
    serve(rights);
    std::vector<std::byte> local(8, std::byte{0x5a});
    const auto code_of = [&](Op op) {
      std::fill(local.begin(), local.end(), std::byte{0x5a});
      Request request = {.remote = at(16), .compare = word_of(region_, 16), .operand = 1, .op = op};
      if (op == Op::kRead || op == Op::kWrite) request.local = local_of(local);
      return perform(pair.client, request).completion.code;
    };
    const std::vector<std::byte> before = region_copy();
    EXPECT_EQ(code_of(Op::kRead), rights.read ? Code::kOk : Code::kAccessDenied) << mask;
    EXPECT_EQ(code_of(Op::kWrite), rights.write ? Code::kOk : Code::kAccessDenied) << mask;
    EXPECT_EQ(region_copy() == before, !rights.write) << mask;
    const std::vector<std::byte> between = region_copy();
    EXPECT_EQ(code_of(Op::kFetchAdd), rights.atomic ? Code::kOk : Code::kAccessDenied) << mask;
    EXPECT_EQ(code_of(Op::kCompareSwap), rights.atomic ? Code::kOk : Code::kAccessDenied) << mask;
    EXPECT_EQ(region_copy() == between, !rights.atomic) << mask;
    fixture_->server().revoke_region(kRegion);
  }
}

TEST_P(ChannelConformance, a_misaligned_atomic_is_an_invalid_argument) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const std::vector<std::byte> before = region_copy();
  for (const uint64_t offset : {1u, 4u, 7u, 63u}) {
    for (const Op op : {Op::kCompareSwap, Op::kFetchAdd}) {
      const Event event = perform(pair.client, {.remote = at(offset), .operand = 1, .op = op});
      EXPECT_EQ(event.completion.code, Code::kInvalidArgument) << offset;
    }
  }
  EXPECT_TRUE(region_copy() == before);
}

TEST_P(ChannelConformance, a_revoked_region_is_gone_and_its_successor_has_another_key) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const RemoteKey old_key = key_;
  std::vector<std::byte> local(8, std::byte{0x11});
  const Request read = {.local = local_of(local), .remote = at(0), .op = Op::kRead};
  EXPECT_EQ(perform(pair.client, read).completion.code, Code::kOk);
  fixture_->server().revoke_region(kRegion);
  EXPECT_EQ(perform(pair.client, read).completion.code, Code::kAccessDenied);
  await_return(pair.client);
  serve(kAll);
  EXPECT_NE(key_, old_key);
  EXPECT_EQ(perform(pair.client, read).completion.code, Code::kAccessDenied) << "the old key stays refused";
  await_return(pair.client);
  Request with_new_key = read;
  with_new_key.remote = at(0);
  EXPECT_EQ(perform(pair.client, with_new_key).completion.code, Code::kOk);
}

TEST_P(ChannelConformance, whoever_revokes_a_region_learns_how_much_was_written_into_it) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  if (!pair.client->capabilities().counts_written_bytes) GTEST_SKIP() << "a device writes and does not say";
  std::vector<std::byte> local(100, std::byte{0x33});
  Request write = {.local = local_of(local), .remote = at(0), .op = Op::kWrite};
  EXPECT_EQ(perform(pair.client, write).completion.code, Code::kOk);
  write.local.bytes = 40;
  write.remote = at(64);
  EXPECT_EQ(perform(pair.client, write).completion.code, Code::kOk);
  Request read = write;
  read.op = Op::kRead;
  EXPECT_EQ(perform(pair.client, read).completion.code, Code::kOk);
  write.remote.key.bits ^= 1;
  EXPECT_EQ(perform(pair.client, write).completion.code, Code::kAccessDenied);
  EXPECT_EQ(fixture_->server().revoke_region(kRegion), 140u);
  EXPECT_EQ(fixture_->server().revoke_region(kRegion), 0u) << "it is gone";
  serve(kAll);
  EXPECT_EQ(fixture_->server().revoke_region(kRegion), 0u) << "its successor begins again";
}

TEST_P(ChannelConformance, a_refusal_without_token_is_reported_and_a_success_is_not) {
  serve({.read = true, .write = true});
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> local(8, std::byte{0x22});
  const Request good = {.local = local_of(local), .remote = at(0), .op = Op::kWrite};
  const Request bad = {.remote = at(0), .operand = 1, .op = Op::kFetchAdd};
  ASSERT_TRUE(post(pair.client, {&good, 1}));
  ASSERT_TRUE(post(pair.client, {&bad, 1}));
  ASSERT_TRUE(settle([&] { return client_->count(Op::kFetchAdd) == 1; }));
  EXPECT_EQ(client_->find(Op::kFetchAdd)->completion.code, Code::kAccessDenied);
  EXPECT_EQ(client_->find(Op::kFetchAdd)->completion.token, 0u);
  quiet();
  EXPECT_EQ(client_->count(Op::kWrite), 0u);
  EXPECT_EQ(region_[0], std::byte{0x22});
}

TEST_P(ChannelConformance, requests_take_effect_in_the_order_posted) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  constexpr size_t kRounds = 200;
  std::vector<uint64_t> values(2 * kRounds);
  std::vector<uint64_t> reads(kRounds);
  // WRITE, READ, WRITE of one word, many times: every READ must see the WRITE before it and not the one
  // after.
  for (size_t i = 0; i < kRounds; ++i) {
    values[2 * i] = 2 * i + 1;
    values[2 * i + 1] = 2 * i + 2;
    const auto bytes_of = [](uint64_t& word) { return LocalSpan{reinterpret_cast<std::byte*>(&word), 8}; };
    const Request requests[] = {
        {.local = bytes_of(values[2 * i]), .remote = at(256), .op = Op::kWrite},
        {.token = next_token_++, .local = bytes_of(reads[i]), .remote = at(256), .op = Op::kRead},
        {.local = bytes_of(values[2 * i + 1]), .remote = at(256), .op = Op::kWrite},
    };
    ASSERT_TRUE(post(pair.client, requests));
  }
  ASSERT_TRUE(settle([&] { return client_->count(Op::kRead) == kRounds; }));
  for (size_t i = 0; i < kRounds; ++i) EXPECT_EQ(reads[i], 2 * i + 1);
}

TEST_P(ChannelConformance, a_message_arrives_after_the_writes_posted_before_it) {
  serve(kAll);
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  constexpr uint64_t kRounds = 200;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    std::vector<uint64_t> written(512, round * 0x9e3779b97f4a7c15);
    auto* bytes = reinterpret_cast<std::byte*>(written.data());
    uint64_t signal = round;
    const Request requests[] = {
        {.local = {bytes, written.size() * 8}, .remote = at(4096), .op = Op::kWrite},
        {.local = {reinterpret_cast<std::byte*>(&signal), 8}, .tail = {}, .op = Op::kSend},
    };
    ASSERT_TRUE(post(pair.client, requests));
    std::unique_ptr<Event> message;
    ASSERT_TRUE(settle([&] {
      message = server_->take_message();
      return message != nullptr;
    }));
    EXPECT_EQ(word_of(message->bytes, 0), round);
    EXPECT_EQ(std::memcmp(region_.data() + 4096, written.data(), written.size() * 8), 0) << round;
  }
}

}  // namespace refract::fabric
