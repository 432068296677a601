// SPDX-License-Identifier: Apache-2.0
// The claims of the contract, over every store of conformance_stores_test.cc.
#include "refract/kv/testing/conformance.h"

#include <map>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {

using test::bytes_of;
using test::patterned;

TEST_P(KvConformance, values_of_every_length_come_back_as_they_were_put) {
  const size_t body = body_bytes();
  std::vector<size_t> lengths = {0,    1,         7,        8,    4095,     4096,
                                 4097, 64 * kKiB, kMiB - 1, kMiB, kMiB + 1, 16 * kMiB};
  // Around what fits a put, a reply, a piece of an upload and of a view, and two of them.
  for (const size_t border :
       {body - 24 - 3, body - 24, body - 32, body - 16, body, 2 * (body - 16), 2 * body - 32}) {
    for (size_t length = border - 2; length <= border + 2; ++length) lengths.push_back(length);
  }
  for (const size_t length : lengths) {
    const std::string value = patterned(length, length);
    const Result<uint64_t> version = put("key", value);
    ASSERT_TRUE(version.has_value()) << length << " " << text(version.code());
    const Read read = get("key");
    ASSERT_EQ(read.code, Code::kOk) << length;
    EXPECT_EQ(read.got.version, *version);
    EXPECT_EQ(read.got.value_bytes, length);
    ASSERT_TRUE(read.value == value) << length;
    const Read blocking = get("key", true);
    ASSERT_TRUE(blocking.code == Code::kOk && blocking.value == value) << length;
  }
  EXPECT_TRUE(store->is_sound(1));
  expect_nothing_open();
}

TEST_P(KvConformance, keys_of_every_length_are_accepted_and_kept_apart) {
  const size_t body = body_bytes();
  std::vector<size_t> lengths = {1, 2, 255, 256, 257, 4096, 32'768, 65'534, 65'535};
  for (size_t border : {body - 8, body - 16, body - 24}) {
    for (size_t length = border - 2; length <= border + 2; ++length) {
      if (length <= kKeyBytesMax) lengths.push_back(length);
    }
  }
  for (const size_t length : lengths) {
    ASSERT_TRUE(put(patterned(length), std::to_string(length)).has_value()) << length;
  }
  // A long key with a long value goes by both kinds of pieces.
  ASSERT_TRUE(put(patterned(65'000), patterned(3 * body)).has_value());
  for (const size_t length : lengths) {
    EXPECT_EQ(get(patterned(length)).value, std::to_string(length));
    EXPECT_EQ(get(patterned(length), true).value, std::to_string(length));
    const Result<Got> there = store->exists(bytes_of(patterned(length)));
    ASSERT_TRUE(there.has_value());
    EXPECT_EQ(there->value_bytes, std::to_string(length).size());
  }
  EXPECT_EQ(get(patterned(65'000)).value, patterned(3 * body));
  for (const size_t length : lengths) {
    EXPECT_EQ(get(patterned(length)).code, Code::kOk) << "others were erased, not this one";
    EXPECT_TRUE(erase(patterned(length)).has_value());
    EXPECT_EQ(get(patterned(length)).code, Code::kNotFound) << length;
  }
  EXPECT_TRUE(store->is_sound(1));
}

TEST_P(KvConformance, conditions_hold_for_small_and_large_values) {
  for (const size_t length : {size_t{10}, 3 * body_bytes()}) {
    const std::string key = "key" + std::to_string(length);
    EXPECT_EQ(put(key, patterned(length), {.if_version = 1}).code(), Code::kNotFound);
    const Result<uint64_t> first = put(key, patterned(length), {.if_absent = true});
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(put(key, patterned(length, 1), {.if_absent = true}).code(), Code::kExists);
    EXPECT_EQ(put(key, patterned(length, 2), {.if_version = *first + 1}).code(), Code::kVersionMismatch);
    EXPECT_EQ(put(key, patterned(length, 3), {.if_absent = true, .if_version = 1}).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(get(key).value, patterned(length)) << "a refused put changes nothing";
    const Result<uint64_t> second = put(key, patterned(length, 4), {.if_version = *first});
    ASSERT_TRUE(second.has_value());
    EXPECT_GT(*second, *first);
    EXPECT_EQ(erase(key, *first).code(), Code::kVersionMismatch);
    EXPECT_EQ(erase(key, *second), *second);
    EXPECT_EQ(erase(key).code(), Code::kNotFound);
  }
}

TEST_P(KvConformance, an_entry_is_gone_when_its_time_to_live_has_passed) {
  constexpr uint64_t kShort_ns = 60 * kSecond_ns;
  const uint64_t before_ns = store->wall_ns();
  const Result<uint64_t> version = put("short", "value", {.ttl_ns = kShort_ns});
  ASSERT_TRUE(version.has_value());
  const uint64_t after_ns = store->wall_ns();
  ASSERT_TRUE(put("long", patterned(3 * body_bytes()), {.ttl_ns = 2 * kShort_ns}).has_value());
  ASSERT_TRUE(put("endless", "value", {.ttl_ns = UINT64_MAX}).has_value());
  const uint64_t expires_wall_ns = get("short").got.expires_wall_ns;
  EXPECT_GE(expires_wall_ns, before_ns + kShort_ns);
  EXPECT_LE(expires_wall_ns, after_ns + kShort_ns);
  EXPECT_EQ(get("endless").got.expires_wall_ns, 0u);
  store->let_pass_ns(kShort_ns);
  EXPECT_EQ(get("short").code, Code::kNotFound);
  EXPECT_EQ(store->exists(bytes_of("short")).code(), Code::kNotFound);
  EXPECT_EQ(put("short", "value", {.if_version = *version}).code(), Code::kNotFound);
  EXPECT_EQ(erase("short").code(), Code::kNotFound);
  EXPECT_EQ(get("long").code, Code::kOk);
  store->let_pass_ns(kShort_ns);
  EXPECT_EQ(get("long").code, Code::kNotFound);
  EXPECT_EQ(get("endless").code, Code::kOk);
  EXPECT_TRUE(put("short", "again", {.if_absent = true}).has_value());
  EXPECT_EQ(get("short").value, "again");
}

TEST_P(KvConformance, a_sink_that_refuses_ends_the_get_with_too_large) {
  class Refusing final : public ValueSink {
   public:
    std::byte* room(uint64_t) override { return nullptr; }
  } refusing;
  ASSERT_TRUE(put("small", "value").has_value());
  ASSERT_TRUE(put("large", patterned(5 * body_bytes())).has_value());
  for (const std::string_view key : {"small", "large"}) {
    EXPECT_EQ(store->get(bytes_of(key), refusing).code(), Code::kTooLarge);
    EXPECT_EQ(store->get_and_wait(bytes_of(key), refusing).code(), Code::kTooLarge);
  }
  expect_nothing_open();
}

// Every entry that is there throughout is returned, with its version and size, while the table grows under
// the scan.
TEST_P(KvConformance, a_scan_returns_every_entry_while_the_table_grows) {
  std::map<std::string, uint64_t> versions;
  for (int i = 0; i < 500; ++i) {
    const std::string key = "old" + std::to_string(i) + std::string(i % 50 == 0 ? 20'000 : 0, 'x');
    const Result<uint64_t> version = put(key, std::string(static_cast<size_t>(i), 'v'));
    ASSERT_TRUE(version.has_value());
    versions[key] = *version;
  }
  const uint64_t buckets = stat().buckets;
  std::map<std::string, uint64_t> seen;
  uint64_t cursor = 0;
  int added = 0;
  do {
    const Result<RpcClient::Page> page = store->scan(cursor, 10);
    ASSERT_TRUE(page.has_value()) << text(page.code());
    for (const RpcClient::ScannedKey& key : page->keys) {
      seen[key.key] = key.version;
      if (key.key.starts_with("old")) {
        EXPECT_EQ(key.value_bytes, std::stoull(key.key.substr(3)));
      }
    }
    cursor = page->next;
    for (int i = 0; i < 40; ++i, ++added) ASSERT_TRUE(put("new" + std::to_string(added), "v").has_value());
  } while (cursor != 0);
  EXPECT_GT(stat().buckets, buckets) << "the table was to grow meanwhile";
  for (const auto& [key, version] : versions) EXPECT_EQ(seen[key], version) << key.substr(0, 10);
  expect_nothing_open();
}

TEST_P(KvConformance, multi_put_and_multi_get_give_each_item_its_own_outcome) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (size_t i = 0; i < 300; ++i) {
    keys.push_back("key" + std::to_string(i) + std::string(i % 30 == 0 ? 40'000 : 0, 'k'));
    values.push_back(patterned(i % 20 == 0 ? 3 * body_bytes() : i, i));
  }
  std::vector<RpcClient::PutItem> puts;
  for (size_t i = 0; i < keys.size(); ++i)
    puts.push_back({.key = bytes_of(keys[i]), .value = bytes_of(values[i]), .options = {}});
  puts[17].options.if_version = 1;
  store->multi_put(puts);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(puts[i].result.code(), i == 17 ? Code::kNotFound : Code::kOk) << i;
  }
  std::vector<std::string> got(keys.size());
  std::vector<std::unique_ptr<StringSink>> sinks;
  std::vector<RpcClient::GetItem> gets;
  for (size_t i = 0; i < keys.size(); ++i) {
    sinks.push_back(std::make_unique<StringSink>(got[i]));
    gets.push_back({.key = bytes_of(keys[i]), .sink = sinks.back().get()});
  }
  store->multi_get(gets);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(gets[i].result.code(), i == 17 ? Code::kNotFound : Code::kOk) << i;
    ASSERT_TRUE(i == 17 || got[i] == values[i]) << i;
  }
  store->multi_get({});
  EXPECT_TRUE(store->is_sound(keys.size() - 1));
}

// A model of the table beside it, through mixed operations of all sizes.
TEST_P(KvConformance, random_operations_agree_with_a_model) {
  std::map<std::string, std::pair<uint64_t, std::string>> model;
  Prng prng(7);
  for (int step = 0; step < 3000; ++step) {
    const std::string key =
        "key" + std::to_string(prng.below(40)) + std::string(prng.below(8) == 0 ? 3'000 : 0, 'k');
    const auto entry = model.find(key);
    switch (prng.below(4)) {
      case 0: {
        const std::string value = patterned(prng.below(prng.below(10) == 0 ? 20'000 : 200), prng.next());
        const bool if_absent = prng.below(4) == 0;
        const Result<uint64_t> version = put(key, value, {.if_absent = if_absent});
        ASSERT_EQ(version.code(), if_absent && entry != model.end() ? Code::kExists : Code::kOk);
        if (version) model[key] = {*version, value};
        break;
      }
      case 1: {
        const uint64_t if_version = entry != model.end() && prng.below(2) == 0 ? entry->second.first : 0;
        const Result<uint64_t> erased = erase(key, if_version);
        ASSERT_EQ(erased.code(), entry == model.end() ? Code::kNotFound : Code::kOk);
        model.erase(key);
        break;
      }
      default: {
        const Read read = get(key, prng.below(2) == 0);
        ASSERT_EQ(read.code, entry == model.end() ? Code::kNotFound : Code::kOk);
        if (entry != model.end()) {
          ASSERT_EQ(read.got.version, entry->second.first);
          ASSERT_TRUE(read.value == entry->second.second);
        }
      }
    }
  }
  EXPECT_TRUE(store->is_sound(model.size()));
}

TEST_P(KvConformance, versions_grow_and_are_never_used_twice) {
  uint64_t newest = 0;
  for (int round = 0; round < 200; ++round) {
    const Result<uint64_t> version = put("key" + std::to_string(round % 3), "value");
    ASSERT_TRUE(version.has_value());
    EXPECT_GT(*version, newest);
    newest = *version;
    if (round % 2 == 0) {
      EXPECT_EQ(erase("key" + std::to_string(round % 3)), newest);
    }
  }
}

TEST_P(KvConformance, a_put_and_an_erase_that_are_repeated_are_executed_once) {
  const RpcAttempt first{.request = {.client = 3, .sequence = 1}};
  const RpcAttempt again{.request = first.request, .first_sent_ns = RpcAttempt::kLongAgo_ns};
  for (const size_t length : {size_t{10}, 3 * body_bytes()}) {
    RpcPutOptions options{.if_absent = true, .attempt = first};
    options.attempt.request.sequence += length;
    const std::string key = "key" + std::to_string(length);
    const Result<uint64_t> version = put(key, patterned(length), options);
    ASSERT_TRUE(version.has_value());
    options.attempt.first_sent_ns = again.first_sent_ns;
    EXPECT_EQ(put(key, patterned(length), options), *version);
    EXPECT_EQ(get(key).got.version, *version);
    EXPECT_EQ(get(key).value, patterned(length)) << "the identity lies in front of the key";
  }
  const Result<uint64_t> gone = store->client().erase_and_wait(bytes_of("key10"), 0, 0, first);
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(store->client().erase_and_wait(bytes_of("key10"), 0, 0, again), *gone);
  EXPECT_EQ(get("key10").code, Code::kNotFound);
}

}  // namespace refract::kv
