// SPDX-License-Identifier: Apache-2.0
// When writes are answered where the table has a log, and what becomes of them when it fails.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/kv/chains/chain_client.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::body_of;
using test::bytes_of;
using test::patterned;
using test::Served;

constexpr Code kUnanswered = Code::kInvalidArgument;  // No write here has a bad argument.

class ServiceLogTest : public testing::Test {
 protected:
  explicit ServiceLogTest(const test::ServedOptions& options = {.chunks = 12,
                                                                .chunks_max = 12,
                                                                .link = {.message_bytes_max = 8'192}})
      : served(options) {
    served.space.table().log_to(&log);
    log.waits = true;
  }
  struct Write {
    std::string key;
    std::string value;
    Result<uint64_t> result = fail(kUnanswered);

    [[nodiscard]] Code code() const noexcept { return result.code(); }
  };
  static runtime::Task<> do_put(RpcClient& client, Write& write, RpcPutOptions options) {
    write.result = co_await client.put(bytes_of(write.key), bytes_of(write.value), options);
  }
  static runtime::Task<> do_erase(RpcClient& client, Write& write) {
    write.result = co_await client.erase(bytes_of(write.key));
  }
  static runtime::Task<> do_put_by_chain(ChainClient& client, Write& write) {
    write.result = co_await client.put(bytes_of(write.key), bytes_of(write.value));
  }
  // Sent, and worked on as far as it goes.
  void start(Write& write, const RpcPutOptions& options = {}) {
    served.shard.spawn(do_put(*peer.client, write, options));
    served.settle();
  }
  void start_erase(Write& write) {
    served.shard.spawn(do_erase(*peer.client, write));
    served.settle();
  }
  size_t progress() {
    const size_t done = served.service.on_log_progress();
    served.settle();
    return done;
  }
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    StringSink sink(value);
    return peer.client->get_and_wait(bytes_of(key), sink) ? value : "nothing";
  }

 public:
  test::ManualLog log;
  Served served;
  Served::Peer peer = served.connect();
};

// A batch, and what it was told.
struct Changing {
  std::vector<RpcCondition> conditions = {};
  std::vector<RpcBatchWrite> writes = {};
  RpcBatch batch = {};
  Code code = Code::kIndeterminate;
  bool is_told = false;

  static runtime::Task<> run(RpcClient& client, Changing& change) {
    change.batch = {.conditions = change.conditions, .writes = change.writes};
    const Result<> changed = co_await client.change(change.batch);
    change.code = changed.code();
    change.is_told = true;
  }
};

// What is told of a table that a crash of the host could take back waits, a refusal too; what says nothing of
// it does not.
TEST_F(ServiceLogTest, a_batch_is_answered_when_it_is_confirmed_and_so_is_its_refusal) {
  const auto start_change = [this](Changing& change) {
    served.shard.spawn(Changing::run(*peer.client, change));
    served.settle();
  };
  const RpcBatchWrite first{.key = bytes_of("a"), .kind = WriteKind::kPut, .value = bytes_of("text")};
  const RpcBatchWrite second{.key = bytes_of("b"), .kind = WriteKind::kAdd, .addend = 1};
  Changing made{.writes = {first, second}};
  start_change(made);
  EXPECT_EQ(get("b"), "1");
  const auto refused = [&](ConditionKind kind, std::string_view key, std::string_view value) {
    return Changing{.conditions = {{.key = bytes_of(key), .kind = kind, .value = bytes_of(value)}},
                    .writes = {first, second}};
  };
  Changing exists = refused(ConditionKind::kAbsent, "a", "");
  Changing differs = refused(ConditionKind::kValue, "a", "other");
  Changing absent = refused(ConditionKind::kExists, "none", "");
  Changing no_number{.writes = {{.key = bytes_of("a"), .kind = WriteKind::kAdd, .addend = 1}, second}};
  Changing holds{.conditions = {{.key = bytes_of("a"), .kind = ConditionKind::kExists}}};
  std::vector<Changing*> all{&made, &exists, &differs, &absent, &no_number, &holds};
  for (size_t i = 1; i < all.size(); ++i) start_change(*all[i]);
  for (const Changing* each : all) EXPECT_FALSE(each->is_told);
  log.room = Code::kReadOnly;
  Changing unwritten{.writes = {first, second}};
  start_change(unwritten);
  EXPECT_TRUE(unwritten.is_told) << "it says nothing of the table";
  EXPECT_EQ(unwritten.code, Code::kReadOnly);
  EXPECT_EQ(served.service.log_stats().read_only, 1U);
  log.confirm_all();
  EXPECT_EQ(progress(), all.size());
  const Code codes[] = {Code::kOk,       Code::kExists,          Code::kVersionMismatch,
                        Code::kNotFound, Code::kInvalidArgument, Code::kOk};
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(all[i]->is_told) << i;
    EXPECT_EQ(all[i]->code, codes[i]) << i;
  }
  EXPECT_EQ(made.writes[1].sum, 1);
}

TEST_F(ServiceLogTest, a_batch_that_the_log_loses_is_indeterminate_and_one_that_it_never_takes_is_refused) {
  const RpcBatchWrite first{.key = bytes_of("a"), .kind = WriteKind::kPut, .value = bytes_of("1")};
  const RpcBatchWrite second{.key = bytes_of("b"), .kind = WriteKind::kPut, .value = bytes_of("1")};
  log.group_bytes_max = 10;
  Changing large{.writes = {first, second}};
  served.shard.spawn(Changing::run(*peer.client, large));
  served.settle();
  EXPECT_EQ(large.code, Code::kTooLarge);
  EXPECT_EQ(large.batch.failed, 2U);
  EXPECT_EQ(get("a"), "nothing");
  log.group_bytes_max = UINT64_MAX;
  Changing made{.writes = {first, second}};
  served.shard.spawn(Changing::run(*peer.client, made));
  served.settle();
  log.failed = Code::kIndeterminate;
  EXPECT_EQ(progress(), 1U);
  EXPECT_TRUE(made.is_told);
  EXPECT_EQ(made.code, Code::kIndeterminate);
}

TEST_F(ServiceLogTest, a_write_is_answered_when_it_is_confirmed_and_reads_do_not_wait) {
  Write put{.key = "key", .value = "value"};
  start(put);
  EXPECT_EQ(put.code(), kUnanswered);
  EXPECT_EQ(get("key"), "value");
  EXPECT_EQ(progress(), 0U);
  EXPECT_EQ(served.service.log_stats().held_answers, 1U);
  Write erase{.key = "key", .value = {}};
  start_erase(erase);
  log.confirmed_position = log.records.front().end;
  EXPECT_EQ(progress(), 1U);
  ASSERT_TRUE(put.result.has_value());
  EXPECT_EQ(erase.code(), kUnanswered);
  log.confirm_all();
  EXPECT_EQ(progress(), 1U);
  EXPECT_EQ(erase.result.value(), put.result.value());
}

TEST_F(ServiceLogTest, what_is_confirmed_at_once_is_answered_at_once) {
  log.waits = false;
  EXPECT_TRUE(peer.client->put_and_wait(bytes_of("key"), bytes_of("value")).has_value());
  EXPECT_TRUE(peer.client->erase_and_wait(bytes_of("key")).has_value());
  EXPECT_EQ(served.service.log_stats().held_answers, 0U);
}

TEST_F(ServiceLogTest, a_refusal_that_tells_of_an_unconfirmed_change_waits_for_it_too) {
  Write put{.key = "key", .value = "value"};
  Write refused{.key = "key", .value = "other"};
  Write missing{.key = "none", .value = {}};
  start(put);
  start(refused, {.if_absent = true});
  start_erase(missing);
  EXPECT_EQ(refused.code(), kUnanswered);
  EXPECT_EQ(missing.code(), kUnanswered);
  log.confirm_all();
  EXPECT_EQ(progress(), 3U);
  EXPECT_EQ(refused.code(), Code::kExists);
  EXPECT_EQ(missing.code(), Code::kNotFound);
}

TEST_F(ServiceLogTest, large_values_and_many_at_once_wait_as_well) {
  Write large{.key = "large", .value = patterned(100'000)};
  start(large);
  ASSERT_TRUE(served.run_until([&] { return log.records.size() == 1; }));
  served.settle();
  EXPECT_EQ(large.code(), kUnanswered);
  std::vector<RpcClient::PutItem> items(3);
  for (size_t i = 0; i < items.size(); ++i) items[i].key = items[i].value = bytes_of("abc").subspan(i, 1);
  const auto put_all = [](RpcClient& client, std::span<RpcClient::PutItem> all,
                          bool& done) -> runtime::Task<> {
    co_await client.multi_put(all);
    done = true;
  };
  bool done = false;
  served.shard.spawn(put_all(*peer.client, items, done));
  ASSERT_TRUE(served.run_until([&] { return log.records.size() == 4; }));
  served.settle();
  EXPECT_FALSE(done);
  log.confirm_all();
  EXPECT_EQ(progress(), 2U) << "the many share a call, and their answer";
  EXPECT_TRUE(large.result.has_value());
  ASSERT_TRUE(served.run_until([&] { return done; }));
  for (const RpcClient::PutItem& item : items) EXPECT_TRUE(item.result.has_value());
}

TEST_F(ServiceLogTest, a_write_that_is_repeated_while_the_first_one_waits_gets_the_same_answer_then) {
  const RpcAttempt attempt{.request = {.client = 7, .sequence = 1}};
  Write first{.key = "key", .value = "value"};
  Write again = first;
  start(first, {.if_absent = true, .attempt = attempt});
  start(again, {.if_absent = true,
                .attempt = {.request = attempt.request, .first_sent_ns = RpcAttempt::kLongAgo_ns}});
  EXPECT_EQ(log.records.size(), 1U);
  EXPECT_EQ(again.code(), kUnanswered);
  log.confirm_all();
  (void)progress();
  ASSERT_TRUE(first.result.has_value());
  EXPECT_EQ(again.result.value(), first.result.value());
}

TEST_F(ServiceLogTest, a_log_that_fails_leaves_waiting_writes_indeterminate_and_the_node_read_only) {
  Write confirmed{.key = "a", .value = "value"};
  Write waiting{.key = "b", .value = "value"};
  start(confirmed);
  log.confirm_all();
  start(waiting);
  log.failed = Code::kIndeterminate;
  log.room = Code::kReadOnly;
  EXPECT_EQ(progress(), 2U);
  EXPECT_TRUE(confirmed.result.has_value()) << "it was confirmed before";
  EXPECT_EQ(waiting.code(), Code::kIndeterminate);
  EXPECT_EQ(peer.client->put_and_wait(bytes_of("c"), bytes_of("value")).code(), Code::kReadOnly);
  EXPECT_EQ(peer.client->put_and_wait(bytes_of("c"), bytes_of(patterned(20'000))).code(), Code::kReadOnly);
  EXPECT_EQ(peer.client->erase_and_wait(bytes_of("a")).code(), Code::kReadOnly);
  EXPECT_EQ(get("b"), "value") << "reads continue";
  EXPECT_EQ(served.service.log_stats().indeterminate, 1U);
  EXPECT_EQ(served.service.log_stats().read_only, 3U);
  // The log has been written again.
  log.failed = log.room = Code::kOk;
  log.confirm_all();
  log.waits = false;
  EXPECT_TRUE(peer.client->put_and_wait(bytes_of("c"), bytes_of("value")).has_value());
}

TEST_F(ServiceLogTest, a_write_for_which_the_log_has_no_room_waits_until_there_is) {
  log.waits = false;
  log.room = Code::kOverloaded;
  std::vector<Write> writes(5);
  for (size_t i = 0; i < writes.size(); ++i) {
    writes[i] = {.key = "key" + std::to_string(i), .value = patterned(100, i)};
    start(writes[i]);
    EXPECT_EQ(writes[i].code(), kUnanswered);
  }
  EXPECT_EQ(served.service.log_stats().waiting_writes, 5U);
  EXPECT_EQ(progress(), 0U);
  // Room for two.
  log.room = Code::kOk;
  log.on_append = [this](const test::ManualLog::Record&) {
    if (log.records.size() == 2) log.room = Code::kOverloaded;
  };
  (void)progress();
  EXPECT_TRUE(writes[0].result.has_value());
  EXPECT_TRUE(writes[1].result.has_value());
  EXPECT_EQ(writes[2].code(), kUnanswered) << "in their order";
  EXPECT_EQ(served.service.log_stats().waiting_writes, 3U);
  log.room = Code::kReadOnly;
  (void)progress();
  EXPECT_EQ(writes[2].code(), Code::kReadOnly);
  EXPECT_EQ(served.service.log_stats().waiting_writes, 0U);
}

TEST_F(ServiceLogTest, the_commit_of_a_large_value_waits_for_room_too_and_keeps_its_bytes) {
  log.waits = false;
  Write large{.key = "large", .value = patterned(50'000)};
  log.room = Code::kOverloaded;
  start(large);
  ASSERT_TRUE(served.run_until([&] { return served.service.log_stats().waiting_writes == 1; }));
  log.room = Code::kOk;
  (void)progress();
  ASSERT_TRUE(large.result.has_value());
  EXPECT_TRUE(get("large") == large.value);
  EXPECT_EQ(served.service.stat().uploads, 0U);
}

TEST_F(ServiceLogTest, what_a_session_waits_for_ends_with_it) {
  Write put{.key = "key", .value = "value"};
  start(put);
  EXPECT_EQ(served.service.log_stats().held_answers, 1U);
  peer.session->close();
  served.settle();
  EXPECT_EQ(served.service.log_stats().held_answers, 0U);
  log.confirm_all();
  EXPECT_EQ(progress(), 0U);
}

TEST_F(ServiceLogTest, a_full_memory_waits_for_what_the_log_gives_back) {
  log.waits = false;
  size_t count = 0;
  const auto key = [](size_t number) { return "fill" + std::to_string(number); };
  while (peer.client->put_and_wait(bytes_of(key(count)), bytes_of(patterned(5'000)))) ++count;
  ASSERT_GT(count, 100U);
  log.waits = true;
  for (const test::ManualLog::Record& record : log.records)
    log.needed[record.buffer.value] = log.position + 1;
  for (size_t i = 0; i < 5; ++i) {
    log.waits = true;
    ASSERT_TRUE(served.space.table().erase(bytes_of(key(i)), 0).has_value());
  }
  EXPECT_GT(served.service.log_stats().held_back_bytes, 25'000U);
  Write put{.key = "more", .value = patterned(5'000)};
  start(put);
  EXPECT_EQ(put.code(), kUnanswered) << "it is not answered no_space";
  log.confirm_all();
  (void)progress();
  log.confirm_all();
  (void)progress();
  EXPECT_TRUE(put.result.has_value());
  EXPECT_EQ(served.service.log_stats().held_back_bytes, 0U);
}

// A client whose entry is there already, so that every put of it goes by chains.
class ChainLogTest : public ServiceLogTest {
 protected:
  ChainLogTest() {
    log.waits = false;
    EXPECT_TRUE(peer.client->put_and_wait(bytes_of("key"), bytes_of("value")).has_value());
    EXPECT_EQ(served.wait(chains.attach()), Code::kOk);
    EXPECT_TRUE(served.wait(chains.put(bytes_of("key"), bytes_of("by chain"))).has_value());
    EXPECT_EQ(chains.counts().all_by_rpc(), 0U);
  }
  void start_by_chain(Write& write) {
    served.shard.spawn(do_put_by_chain(chains, write));
    served.settle();
  }

 public:
  ChainClient chains{*peer.client, served.shard};
};

TEST_F(ChainLogTest, an_install_is_in_the_log_before_it_is_made_and_is_answered_when_confirmed) {
  const uint64_t before = log.records.size();
  std::string seen;
  log.on_append = [&](const test::ManualLog::Record& record) {
    seen = test::text_of(served.space.table().find(bytes_of(record.key))->value);
  };
  log.waits = true;
  Write put{.key = "key", .value = "next"};
  start_by_chain(put);
  EXPECT_EQ(put.code(), kUnanswered);
  ASSERT_EQ(log.records.size(), before + 1);
  EXPECT_EQ(seen, "by chain");
  EXPECT_EQ(log.records.back().value, "next");
  EXPECT_EQ(get("key"), "next");
  std::string value;
  StringSink sink(value);
  EXPECT_TRUE(served.wait(chains.get(bytes_of("key"), sink)).has_value()) << "reads by chains do not wait";
  log.confirm_all();
  EXPECT_EQ(progress(), 1U);
  EXPECT_EQ(put.result.value(), log.records.back().stamp);
}

TEST_F(ChainLogTest, a_log_that_fails_leaves_the_install_indeterminate) {
  log.waits = true;
  Write put{.key = "key", .value = "next"};
  start_by_chain(put);
  log.failed = Code::kIndeterminate;
  log.room = Code::kReadOnly;
  (void)progress();
  EXPECT_EQ(put.code(), Code::kIndeterminate);
  Write refused{.key = "key", .value = "never"};
  start_by_chain(refused);
  EXPECT_EQ(refused.code(), Code::kReadOnly);
  EXPECT_EQ(get("key"), "next");
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ChainLogTest, an_install_without_room_in_the_log_becomes_a_call_that_waits) {
  log.room = Code::kOverloaded;
  Write put{.key = "key", .value = "next"};
  start_by_chain(put);
  EXPECT_EQ(put.code(), kUnanswered);
  EXPECT_EQ(served.service.log_stats().waiting_writes, 1U);
  EXPECT_EQ(get("key"), "by chain");
  log.room = Code::kOk;
  (void)progress();
  EXPECT_TRUE(put.result.has_value());
  EXPECT_EQ(get("key"), "next");
}

TEST_F(ChainLogTest, a_buffer_that_a_chain_replaces_is_held_back_while_the_log_needs_it) {
  log.waits = true;
  log.needed_bytes_min = 0;
  Write first{.key = "key", .value = "first"};
  Write second{.key = "key", .value = "second"};
  start_by_chain(first);
  start_by_chain(second);
  EXPECT_EQ(served.space.table().held_back().count(), 1U);
  log.confirm_all();
  (void)progress();
  EXPECT_EQ(served.space.table().held_back().count(), 0U);
  EXPECT_TRUE(first.result.has_value() && second.result.has_value());
}

}  // namespace
}  // namespace refract::kv
