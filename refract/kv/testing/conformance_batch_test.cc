// SPDX-License-Identifier: Apache-2.0
// What every way to a store promises of batches: several changes at one moment, if all conditions hold then.
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/layout/batch_wire.h"
#include "refract/kv/testing/conformance.h"

namespace refract::kv {
namespace {

using test::bytes_of;

RpcCondition when(std::string_view key, ConditionKind kind, uint64_t version = 0,
                  std::string_view value = {}) {
  return {.key = bytes_of(key), .kind = kind, .version = version, .value = bytes_of(value)};
}
RpcBatchWrite put_of(std::string_view key, std::string_view value, uint64_t ttl_ns = 0) {
  return {.key = bytes_of(key), .kind = WriteKind::kPut, .value = bytes_of(value), .ttl_ns = ttl_ns};
}
RpcBatchWrite erase_of(std::string_view key) {
  return {.key = bytes_of(key), .kind = WriteKind::kErase};
}
RpcBatchWrite add_of(std::string_view key, int64_t addend) {
  return {.key = bytes_of(key), .kind = WriteKind::kAdd, .addend = addend};
}

Code change(StoreFixture& store, RpcBatch& batch) {
  return runtime::block_on(store.shard(), store.client().change(batch)).code();
}

TEST_P(KvConformance, a_batch_makes_all_its_changes_and_tells_what_they_made) {
  const uint64_t old = refract::test::needed(put("gone", "was here"));
  ASSERT_TRUE(put("n", "40"));
  const std::vector<RpcCondition> conditions{
      when("fresh", ConditionKind::kAbsent), when("gone", ConditionKind::kVersion, old),
      when("n", ConditionKind::kValue, 0, "40"), when("n", ConditionKind::kExists)};
  std::vector<RpcBatchWrite> writes{put_of("fresh", "1"), erase_of("gone"), add_of("n", 2), erase_of("none"),
                                    add_of("m", -1)};
  RpcBatch batch{.conditions = conditions, .writes = writes};
  ASSERT_EQ(change(*store, batch), Code::kOk);
  EXPECT_EQ(get("fresh").value, "1");
  EXPECT_EQ(get("fresh").got.version, writes[0].version);
  EXPECT_EQ(get("gone").code, Code::kNotFound);
  EXPECT_EQ(writes[1].version, old);
  EXPECT_EQ(get("n").value, "42");
  EXPECT_EQ(writes[2].sum, 42);
  EXPECT_EQ(writes[3].version, 0U);
  EXPECT_EQ(writes[4].sum, -1);
  EXPECT_TRUE(store->is_sound(3));
}

// Rows have codes of their own: an error changes nothing of its key, and all else happens.
TEST_P(KvConformance, rows_of_a_batch_answer_for_themselves) {
  using functions::Function;
  ASSERT_TRUE(put("n", "40"));
  const uint64_t text = refract::test::needed(put("text", "t"));
  ASSERT_TRUE(put("lasting", "x"));
  const int64_t two = 2;
  const auto addend = std::as_bytes(std::span(&two, 1));
  const auto run = [](std::string_view key, Function function, std::span<const std::byte> arguments) {
    return RpcBatchWrite{
        .key = bytes_of(key), .kind = WriteKind::kFunction, .value = arguments, .function = function};
  };
  const std::vector<RpcCondition> conditions{when("text", ConditionKind::kVersion, text)};
  std::vector<RpcBatchWrite> writes{run("n", Function::kAdd, addend),
                                    run("text", Function::kAdd, addend),
                                    run("log", Function::kAppend, bytes_of("entry")),
                                    put_of("plain", "1"),
                                    erase_of("none"),
                                    put_of("lasting", "y"),
                                    put_of("lock", "me"),
                                    put_of("missing", "1")};
  writes[5].if_absent = true;
  writes[6].if_absent = true;
  writes[7].if_present = true;
  RpcBatch batch{.conditions = conditions, .writes = writes};
  ASSERT_EQ(change(*store, batch), Code::kOk);
  const std::vector<Code> codes{Code::kOk,       Code::kInvalidArgument, Code::kOk, Code::kOk,
                                Code::kNotFound, Code::kExists,          Code::kOk, Code::kNotFound};
  for (size_t i = 0; i < writes.size(); ++i) EXPECT_EQ(writes[i].code, codes[i]) << i;
  EXPECT_EQ(writes[0].answer_bytes, 8U);
  EXPECT_EQ(writes[0].answer[0], std::byte{42});
  EXPECT_EQ(writes[1].answer_bytes, 1U);
  EXPECT_EQ(writes[1].version, 0U);
  EXPECT_EQ(writes[2].answer[0], std::byte{5});
  EXPECT_EQ(get("n").value, "42");
  EXPECT_EQ(get("n").got.version, writes[0].version);
  EXPECT_EQ(get("text").got.version, text);
  EXPECT_EQ(get("log").value, "entry");
  EXPECT_EQ(get("plain").value, "1");
  EXPECT_EQ(get("lasting").value, "x");
  EXPECT_EQ(get("lock").value, "me");
  EXPECT_EQ(get("missing").code, Code::kNotFound);
  // What the owner cannot run refuses the batch, and is named.
  std::vector<RpcBatchWrite> nonsense{put_of("plain", "2"), run("n", Function::kAdd, bytes_of("2"))};
  RpcBatch refused{.conditions = {}, .writes = nonsense};
  EXPECT_EQ(change(*store, refused), Code::kInvalidArgument);
  EXPECT_EQ(refused.failed, 1U);
  EXPECT_EQ(get("plain").value, "1");
  EXPECT_TRUE(store->is_sound(6));
}

TEST_P(KvConformance, what_a_batch_puts_may_expire_at_a_moment_or_as_what_is_there) {
  std::vector<RpcBatchWrite> first{put_of("soon", "5", 50 * kMillisecond_ns)};
  RpcBatch batch{.conditions = {}, .writes = first};
  ASSERT_EQ(change(*store, batch), Code::kOk);
  const uint64_t then = get("soon").got.expires_wall_ns;
  std::vector<RpcBatchWrite> second{put_of("soon", "6"), put_of("as soon", "7"), put_of("stays", "8")};
  second[0].keeps_expiry = true;
  second[1].expires_wall_ns = then;
  second[2].keeps_expiry = true;
  RpcBatch more{.conditions = {}, .writes = second};
  ASSERT_EQ(change(*store, more), Code::kOk);
  EXPECT_EQ(get("soon").value, "6");
  EXPECT_EQ(get("soon").got.expires_wall_ns, then);
  EXPECT_EQ(get("as soon").got.expires_wall_ns, then);
  EXPECT_EQ(get("stays").got.expires_wall_ns, 0U);
  second[0].expires_wall_ns = then;
  EXPECT_EQ(change(*store, more), Code::kInvalidArgument) << "it expires in two ways";
  EXPECT_EQ(more.failed, 0U);
}

TEST_P(KvConformance, a_batch_whose_condition_does_not_hold_changes_nothing_and_says_which) {
  const uint64_t version = refract::test::needed(put("key", "value"));
  const auto refused = [&](const RpcCondition& condition, Code code) {
    const std::vector<RpcCondition> conditions{when("key", ConditionKind::kExists), condition};
    std::vector<RpcBatchWrite> writes{put_of("key", "other"), put_of("new", "1")};
    RpcBatch batch{.conditions = conditions, .writes = writes};
    EXPECT_EQ(change(*store, batch), code);
    EXPECT_EQ(batch.failed, 1U);
    EXPECT_EQ(get("key").got.version, version);
    EXPECT_EQ(get("new").code, Code::kNotFound);
  };
  refused(when("key", ConditionKind::kAbsent), Code::kExists);
  refused(when("none", ConditionKind::kExists), Code::kNotFound);
  refused(when("key", ConditionKind::kVersion, version + 1), Code::kVersionMismatch);
  refused(when("key", ConditionKind::kValue, 0, "Value"), Code::kVersionMismatch);
  std::vector<RpcBatchWrite> twice{put_of("a", "1"), add_of("key", 1), put_of("a", "2")};
  RpcBatch batch{.conditions = {}, .writes = twice};
  EXPECT_EQ(change(*store, batch), Code::kInvalidArgument);
  EXPECT_EQ(batch.failed, 2U);
  std::vector<RpcBatchWrite> no_number{put_of("a", "1"), add_of("key", 1)};
  RpcBatch other{.conditions = {}, .writes = no_number};
  EXPECT_EQ(change(*store, other), Code::kInvalidArgument);
  EXPECT_EQ(other.failed, 1U);
  EXPECT_EQ(get("a").code, Code::kNotFound);
}

TEST_P(KvConformance, a_batch_may_be_longer_than_a_message_and_so_may_its_answer) {
  const std::string large(3 * store->message_bytes_max(), 'x');
  std::vector<std::string> keys;
  for (size_t i = 0; i < 1'500; ++i) keys.push_back("of a long batch " + std::to_string(i));
  std::vector<RpcBatchWrite> writes{put_of("large", large)};
  for (const std::string& key : keys) writes.push_back(add_of(key, 7));
  RpcBatch batch{.conditions = {}, .writes = writes};
  ASSERT_EQ(change(*store, batch), Code::kOk);
  EXPECT_EQ(get("large").value, large);
  EXPECT_EQ(get(keys.back()).value, "7");
  EXPECT_EQ(get(keys.back()).got.version, writes.back().version);
  EXPECT_EQ(writes.back().sum, 7);
  EXPECT_TRUE(store->is_sound(1 + keys.size()));
  expect_nothing_open();
}

TEST_P(KvConformance, a_batch_has_limits_that_are_told_before_anything_is_sent) {
  std::vector<RpcCondition> many(kBatchKeysMax + 1, when("key", ConditionKind::kAbsent));
  RpcBatch batch{.conditions = many, .writes = {}};
  EXPECT_EQ(change(*store, batch), Code::kTooLarge);
  batch.conditions = batch.conditions.first(kBatchKeysMax);
  EXPECT_EQ(change(*store, batch), Code::kOk);
  std::vector<RpcBatchWrite> empty{put_of("a", "1"), put_of("", "1")};
  RpcBatch nameless{.conditions = {}, .writes = empty};
  EXPECT_EQ(change(*store, nameless), Code::kInvalidArgument);
  EXPECT_EQ(nameless.failed, 1U);
  const std::string large(kBatchBytesMax, 'x');
  std::vector<RpcBatchWrite> too_long{put_of("a", large)};
  RpcBatch heavy{.conditions = {}, .writes = too_long};
  EXPECT_EQ(change(*store, heavy), Code::kTooLarge);
}

TEST_P(KvConformance, what_a_batch_puts_has_its_time_to_live) {
  std::vector<RpcBatchWrite> writes{put_of("soon", "5", 50 * kMillisecond_ns), put_of("stays", "6")};
  RpcBatch batch{.conditions = {}, .writes = writes};
  ASSERT_EQ(change(*store, batch), Code::kOk);
  EXPECT_GT(get("soon").got.expires_wall_ns, 0U);
  store->let_pass_ns(60 * kMillisecond_ns);
  EXPECT_EQ(get("soon").code, Code::kNotFound);
  EXPECT_EQ(get("stays").value, "6");
}

}  // namespace
}  // namespace refract::kv
