// SPDX-License-Identifier: Apache-2.0
// Transactions over several shards, as one of them serves them: by calls, good ones and others.
#include "refract/kv/owner/transactions/transaction_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::Served;
using wire::TransactionMethod;

// One session of the shard, which is home and part here: the two are told apart by what they are asked.
class Client {
 public:
  explicit Client(Served& served)
      : served_(served), peer_(served.connect()), calls_(*peer_.session, served.shard) {}

  [[nodiscard]] TransactionName begin() { return needed(served_.wait(calls_.begin(deadline()))); }
  // From now on its transactions have tried since then.
  void has_tried_since(uint64_t begun_ns) noexcept { begun_ns_ = begun_ns; }
  [[nodiscard]] Code prepare(const TransactionName& name, std::string_view key, std::string_view value) {
    std::vector<RpcBatchWrite> writes{
        {.key = bytes_of(key), .kind = WriteKind::kPut, .value = bytes_of(value)}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    return served_.wait(calls_.prepare(batch, terms(name))).code();
  }
  using Held = TransactionCalls::Held;
  [[nodiscard]] Result<Held> change(RpcBatch& batch, const TransactionName& name, bool is_home,
                                    uint64_t not_after_wall_ns = 0) {
    TransactionCalls::Terms terms = this->terms(name);
    terms.not_after_wall_ns = not_after_wall_ns;
    return served_.wait(is_home ? calls_.decide(batch, terms) : calls_.prepare(batch, terms));
  }
  // Not awaited: what it said.
  struct Call {
    std::string key;
    std::vector<RpcBatchWrite> writes;
    RpcBatch batch;
    std::optional<Code> code;
    runtime::Task<> task;
  };
  enum class As : uint8_t { kPart, kHome, kBatch };
  [[nodiscard]] std::unique_ptr<Call> start(const TransactionName& name, std::string_view key,
                                            As as = As::kPart) {
    auto call = std::make_unique<Call>();
    call->key = key;
    call->writes = {{.key = bytes_of(call->key), .kind = WriteKind::kAdd, .addend = 1}};
    call->batch = {.conditions = {}, .writes = call->writes};
    call->task = run(*call, name, as);
    call->task.start();
    served_.settle();
    return call;
  }
  [[nodiscard]] Code decide(const TransactionName& name, std::string_view key, std::string_view value) {
    std::vector<RpcBatchWrite> writes{
        {.key = bytes_of(key), .kind = WriteKind::kPut, .value = bytes_of(value)}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    return change(batch, name, true).code();
  }
  [[nodiscard]] Code outcome(const TransactionName& name) {
    return served_.wait(calls_.ask_outcome(name, deadline()));
  }
  [[nodiscard]] Code call(TransactionMethod method, std::string_view body) {
    return served_.call(peer_, wire::Method{static_cast<uint16_t>(method)}, bytes_of(body));
  }
  [[nodiscard]] Code settle(const TransactionName& name) {
    return call(TransactionMethod::kSettle,
                test::body_of(wire::NameRequest{.place = name.place.bits, .number = name.number}));
  }
  [[nodiscard]] RpcClient& rpc() { return *peer_.client; }
  [[nodiscard]] TransactionCalls& calls() { return calls_; }

 private:
  [[nodiscard]] uint64_t deadline() const { return served_.shard.now_ns() + kSecond_ns; }
  [[nodiscard]] TransactionCalls::Terms terms(const TransactionName& name) const {
    const uint64_t begun_ns = begun_ns_ != 0 ? begun_ns_ : served_.shard.now_ns();
    return {.name = name, .begun_ns = begun_ns, .deadline_ns = deadline()};
  }
  [[nodiscard]] runtime::Task<> run(Call& call, TransactionName name, As as) {
    if (as == As::kBatch) {
      const Result<> changed = co_await rpc().change(call.batch, deadline());
      call.code = changed.code();
    } else if (as == As::kHome) {
      const Result<Held> decided = co_await calls_.decide(call.batch, terms(name));
      call.code = decided.code();
    } else {
      const Result<Held> prepared = co_await calls_.prepare(call.batch, terms(name));
      call.code = prepared.code();
    }
  }

  Served& served_;
  Served::Peer peer_;
  TransactionCalls calls_;
  uint64_t begun_ns_ = 0;  // 0: each has just begun.
};

std::string get(Client& client, std::string_view key) {
  std::string value;
  StringSink sink(value);
  const Result<Got> got = client.rpc().get_and_wait(bytes_of(key), sink);
  return got ? value : std::string(text(got.code()));
}

TEST(TransactionService, a_part_is_seen_by_calls_when_it_is_decided) {
  Served served;
  Client client(served);
  const TransactionName name = client.begin();
  ASSERT_EQ(client.prepare(name, "part", "1"), Code::kOk);
  EXPECT_EQ(get(client, "part"), "not_found");
  ASSERT_EQ(client.decide(name, "home", "2"), Code::kOk);
  EXPECT_EQ(get(client, "part"), "1");
  EXPECT_EQ(get(client, "home"), "2");
  const RpcClient::Page page = needed(served.wait(client.rpc().scan(0, 100)));
  EXPECT_EQ(page.keys.size(), 2U);
  EXPECT_EQ(client.settle(name), Code::kOk);
  EXPECT_EQ(client.settle(name), Code::kNotFound);
  EXPECT_EQ(client.outcome(name), Code::kOk);
  EXPECT_EQ(client.decide(name, "home", "3"), Code::kInvalidated) << "twice";
  EXPECT_EQ(get(client, "home"), "2");
}

TEST(TransactionService, a_scan_shows_what_was_there_before_the_decision) {
  Served served;
  Client client(served);
  ASSERT_TRUE(client.rpc().put_and_wait(bytes_of("old"), bytes_of("longer than before")));
  const TransactionName name = client.begin();
  ASSERT_EQ(client.prepare(name, "old", "1"), Code::kOk);
  const TransactionName other = client.begin();
  ASSERT_EQ(client.prepare(other, "new", "1"), Code::kOk);
  const RpcClient::Page page = needed(served.wait(client.rpc().scan(0, 100)));
  ASSERT_EQ(page.keys.size(), 1U);
  EXPECT_EQ(page.keys[0].key, "old");
  EXPECT_EQ(page.keys[0].value_bytes, 18U);
}

runtime::Task<> put_once(RpcClient& client, bool& is_put) {
  const Result<uint64_t> version = co_await client.put(bytes_of("key"), bytes_of("2"));
  EXPECT_TRUE(version);
  is_put = true;
}

TEST(TransactionService, a_write_of_a_held_key_waits_for_it) {
  Served served;
  Client client(served);
  Client other(served);
  const TransactionName name = client.begin();
  ASSERT_EQ(client.prepare(name, "key", "1"), Code::kOk);
  bool is_put = false;
  served.shard.spawn(put_once(other.rpc(), is_put));
  served.settle();
  EXPECT_FALSE(is_put);
  ASSERT_EQ(client.decide(name, "home", "1"), Code::kOk);
  ASSERT_EQ(client.settle(name), Code::kOk);
  EXPECT_TRUE(served.run_until([&] { return is_put; }));
  EXPECT_EQ(get(client, "key"), "2");
}

TEST(TransactionService, a_client_that_never_decides_loses_to_those_that_wait) {
  Served served;
  Client client(served);
  Client other(served);
  const TransactionName name = client.begin();
  ASSERT_EQ(client.prepare(name, "key", "1"), Code::kOk);
  const uint64_t begun_ns = served.shard.refresh_now();
  EXPECT_TRUE(other.rpc().put_and_wait(bytes_of("key"), bytes_of("2")));
  EXPECT_LE(served.shard.refresh_now() - begun_ns, 3 * TransactionService::kPatience_ns);
  EXPECT_EQ(served.transactions.counts().overdue, 1U);
  EXPECT_EQ(client.decide(name, "home", "1"), Code::kConflict);
  EXPECT_EQ(get(client, "home"), "not_found");
  EXPECT_EQ(get(client, "key"), "2");
}

// Whose parts hold "key", and two others: one that began before it, and one that began later.
struct Three {
  Served served;
  Client holder{served};
  Client older{served};
  Client younger{served};
  TransactionName name;

  Three() {
    served.space.clock().advance_ns(kMillisecond_ns);
    const uint64_t now_ns = served.shard.refresh_now();
    older.has_tried_since(now_ns - 30);
    holder.has_tried_since(now_ns - 20);
    younger.has_tried_since(now_ns - 10);
    name = holder.begin();
    EXPECT_EQ(holder.prepare(name, "key", "1"), Code::kOk);
  }
};

TEST(TransactionService, older_transactions_wait_and_younger_ones_are_refused) {
  Three three;
  const auto older = three.older.start(three.older.begin(), "key");
  EXPECT_FALSE(older->code);
  EXPECT_EQ(three.younger.prepare(three.younger.begin(), "key", "3"), Code::kConflict);
  ASSERT_EQ(three.holder.decide(three.name, "home", "1"), Code::kOk);
  ASSERT_EQ(three.holder.settle(three.name), Code::kOk);
  three.served.settle();
  EXPECT_EQ(older->code, Code::kOk);
  EXPECT_EQ(older->writes[0].sum, 2);
  EXPECT_EQ(three.served.transactions.counts().waited, 1U);
  EXPECT_EQ(three.served.transactions.counts().conflicts, 1U);
}

// The decision has not been made meanwhile, for or against it.
TEST(TransactionService, decisions_wait_likewise) {
  Three three;
  const TransactionName name = three.older.begin();
  const auto older = three.older.start(name, "key", Client::As::kHome);
  EXPECT_FALSE(older->code);
  ASSERT_EQ(three.holder.settle(three.name), Code::kConflict);
  three.served.settle();
  EXPECT_EQ(older->code, Code::kOk);
  EXPECT_EQ(three.older.outcome(name), Code::kOk);
  EXPECT_EQ(get(three.older, "key"), "1");
}

TEST(TransactionService, nothing_waits_for_longer_than_its_time_and_the_holder_may_still_decide) {
  Three three;
  const uint64_t begun_ns = three.served.shard.refresh_now();
  const auto older = three.older.start(three.older.begin(), "key");
  EXPECT_TRUE(three.served.run_until([&] { return older->code.has_value(); }));
  EXPECT_EQ(older->code, Code::kConflict);
  EXPECT_EQ(three.served.shard.refresh_now() - begun_ns, 5 * kMillisecond_ns);
  EXPECT_EQ(three.holder.decide(three.name, "home", "1"), Code::kOk);
  EXPECT_EQ(three.served.transactions.counts().overdue, 0U);
}

TEST(TransactionService, of_those_that_wait_the_oldest_has_the_key_next) {
  Three three;
  Client oldest(three.served);
  oldest.has_tried_since(three.served.shard.refresh_now() - 1'000);
  const auto older = three.older.start(three.older.begin(), "key");
  const TransactionName name = oldest.begin();
  const auto first = oldest.start(name, "key");
  EXPECT_FALSE(older->code);
  EXPECT_FALSE(first->code);
  ASSERT_EQ(three.holder.settle(three.name), Code::kConflict);
  three.served.settle();
  EXPECT_EQ(first->code, Code::kOk);
  EXPECT_EQ(older->code, Code::kConflict) << "what holds the key now is older than it";
}

TEST(TransactionService, one_session_does_not_wait_with_more_than_its_share) {
  Three three;
  std::vector<std::unique_ptr<Client::Call>> calls;
  for (size_t i = 0; i < 20; ++i) calls.push_back(three.older.start(three.older.begin(), "key"));
  const auto are_refused = [](const auto& call) { return call->code == Code::kConflict; };
  EXPECT_EQ(std::ranges::count_if(calls, are_refused), 4);
  EXPECT_TRUE(three.served.run_until([&] { return std::ranges::all_of(calls, are_refused); }));
}

TEST(TransactionService, what_waits_ends_with_its_session) {
  Three three;
  {
    Client gone(three.served);
    gone.has_tried_since(1);
    const auto call = gone.start(gone.begin(), "key");
    EXPECT_FALSE(call->code);
  }
  ASSERT_TRUE(three.served.run_until([&] { return three.served.server.session_count() == 3; }));
  ASSERT_EQ(three.holder.settle(three.name), Code::kConflict);
  EXPECT_EQ(three.younger.prepare(three.younger.begin(), "key", "3"), Code::kOk);
}

// It holds nothing meanwhile, so its age says nothing.
TEST(TransactionService, batches_of_one_shard_wait_for_held_keys) {
  Three three;
  const auto batch = three.younger.start({}, "key", Client::As::kBatch);
  EXPECT_FALSE(batch->code);
  EXPECT_EQ(three.served.service.stat().overloaded, 0U);
  ASSERT_EQ(three.holder.decide(three.name, "home", "1"), Code::kOk);
  ASSERT_EQ(three.holder.settle(three.name), Code::kOk);
  three.served.settle();
  EXPECT_EQ(batch->code, Code::kOk);
  EXPECT_EQ(batch->writes[0].sum, 2);
  // Of a part that stays it is told in the end, as by those who wait and are asked again.
  const TransactionName name = three.holder.begin();
  ASSERT_EQ(three.holder.prepare(name, "key", "1"), Code::kOk);
  const auto other = three.younger.start({}, "key", Client::As::kBatch);
  EXPECT_TRUE(three.served.run_until([&] { return other->code.has_value(); }));
  EXPECT_EQ(other->code, Code::kOk);
  EXPECT_EQ(three.served.transactions.counts().overdue, 1U);
}

TEST(TransactionService, a_session_that_closes_leaves_no_part_and_no_word) {
  Served served;
  Client other(served);
  TransactionName committed;
  TransactionName open;
  {
    Client client(served);
    committed = client.begin();
    ASSERT_EQ(client.prepare(committed, "a", "1"), Code::kOk);
    ASSERT_EQ(client.decide(committed, "home", "1"), Code::kOk);
    open = client.begin();
    ASSERT_EQ(client.prepare(open, "b", "1"), Code::kOk);
  }
  ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 1; }));
  EXPECT_EQ(served.parts.count(), 0U);
  EXPECT_EQ(get(other, "a"), "1");
  EXPECT_EQ(get(other, "b"), "not_found");
  // Another session learns what became of both, and decides by none.
  EXPECT_EQ(other.outcome(committed), Code::kOk);
  EXPECT_EQ(other.outcome(open), Code::kConflict);
  EXPECT_EQ(other.decide(open, "home", "2"), Code::kInvalidated);
  EXPECT_TRUE(served.is_sound());
}

// More transactions than a session may have words, and none is used up.
TEST(TransactionService, words_come_back) {
  Served served;
  Client client(served);
  for (int i = 0; i < 500; ++i) {
    const TransactionName name = client.begin();
    const uint64_t opened_ns = client.calls().opened_ns();
    ASSERT_EQ(client.prepare(name, "part", std::to_string(i)), Code::kOk);
    const bool is_refused = i % 3 == 0;
    if (!is_refused) {
      ASSERT_EQ(client.decide(name, "home", std::to_string(i)), Code::kOk);
    }
    client.calls().end(name, is_refused, opened_ns);
    client.calls().settle(name);
    served.settle();
    EXPECT_EQ(served.parts.count(), 0U);
  }
  EXPECT_EQ(get(client, "part"), "499");
}

// What is refused uses up a number of its word; then the word has others.
TEST(TransactionService, numbers_come_back) {
  constexpr uint64_t kAll = (uint64_t{1} << kNumbersShift) * wire::kWordsPerCall;
  Served served;
  Client client(served);
  for (uint64_t i = 0; i < kAll + kAll / 4; ++i) {
    const TransactionName name = client.begin();
    ASSERT_NE(name.number % (uint64_t{1} << kNumbersShift), 0U) << i << ": it is of the next range";
    client.calls().end(name, /*is_refused=*/true, client.calls().opened_ns());
  }
  const TransactionName name = client.begin();
  ASSERT_EQ(client.prepare(name, "part", "1"), Code::kOk);
  EXPECT_EQ(client.decide(name, "home", "1"), Code::kOk);
}

// A session may have twice as many as are given at a time.
TEST(TransactionService, words_are_asked_for_before_there_are_none) {
  Served served;
  Client client(served);
  (void)client.begin();
  for (size_t i = 1; i < 2 * wire::kWordsPerCall; ++i) {
    served.settle();
    runtime::Task<Result<TransactionName>> begun = client.calls().begin(kSecond_ns);
    begun.start();
    ASSERT_TRUE(begun.done()) << i << ": it awaits an answer";
    ASSERT_TRUE(begun.take());
  }
}

TEST(TransactionService, parts_and_answers_may_be_longer_than_a_message) {
  Served served;
  Client client(served);
  std::vector<std::string> keys;
  std::vector<RpcBatchWrite> writes;
  const std::string value(40, 'v');
  for (int i = 0; i < 4'000; ++i) keys.push_back("key " + std::to_string(i));
  for (const std::string& key : keys) {
    writes.push_back({.key = bytes_of(key), .kind = WriteKind::kPut, .value = bytes_of(value)});
  }
  for (const bool is_home : {false, true}) {
    const TransactionName name = client.begin();
    RpcBatch batch{.conditions = {}, .writes = writes};
    ASSERT_TRUE(client.change(batch, name, is_home));
    std::vector<uint64_t> versions;
    for (const RpcBatchWrite& write : writes) versions.push_back(write.version);
    EXPECT_TRUE(std::ranges::is_sorted(versions));
    EXPECT_GT(versions.front(), 0U);
    EXPECT_EQ(client.settle(name), is_home ? Code::kNotFound : Code::kConflict);
  }
  EXPECT_EQ(get(client, keys.back()), value);
}

// A part stands on an entry that expires before the home decides.
TEST(TransactionService, what_has_expired_since_it_was_prepared_is_decided_against) {
  constexpr uint64_t kLease_ns = kMillisecond_ns;
  for (const uint64_t waited_ns : {kLease_ns - 1, kLease_ns}) {
    Served served;
    Client client(served);
    ASSERT_TRUE(client.rpc().put_and_wait(bytes_of("lease"), bytes_of("mine"), {.ttl_ns = kLease_ns}));
    ManualClock& clock = served.space.clock();
    const uint64_t expires_wall_ns = clock.wall_ns() + kLease_ns;
    const std::vector<RpcCondition> conditions{{.key = bytes_of("lease")}};
    std::vector<RpcBatchWrite> writes{{.key = bytes_of("part"), .value = bytes_of("1")}};
    RpcBatch batch{.conditions = conditions, .writes = writes};
    const TransactionName name = client.begin();
    const Client::Held held = needed(client.change(batch, name, false));
    EXPECT_EQ(held.expires_wall_ns, expires_wall_ns);
    EXPECT_LT(held.looked_wall_ns, expires_wall_ns);
    clock.advance_ns(expires_wall_ns - kLease_ns + waited_ns - clock.wall_ns());
    std::vector<RpcBatchWrite> at_home{{.key = bytes_of("home"), .value = bytes_of("1")}};
    RpcBatch home{.conditions = {}, .writes = at_home};
    const Code wanted = waited_ns < kLease_ns ? Code::kOk : Code::kConflict;
    EXPECT_EQ(client.change(home, name, true, held.expires_wall_ns).code(), wanted);
    EXPECT_EQ(client.settle(name), wanted);
    EXPECT_EQ(client.outcome(name), wanted);
    EXPECT_EQ(get(client, "part"), wanted == Code::kOk ? "1" : "not_found");
    EXPECT_EQ(get(client, "home"), wanted == Code::kOk ? "1" : "not_found");
    EXPECT_EQ(served.transactions.counts().conflicts, wanted == Code::kOk ? 0U : 1U);
    EXPECT_TRUE(served.is_sound());
  }
}

TEST(TransactionService, bad_calls_are_refused_and_change_nothing) {
  Served served;
  Client client(served);
  EXPECT_EQ(client.call(TransactionMethod{0xff}, ""), Code::kUnsupported);
  for (int method = 0xc0; method <= 0xc6; ++method) {
    EXPECT_EQ(client.call(TransactionMethod{static_cast<uint16_t>(method)}, "short"), Code::kMalformed)
        << method;
  }
  EXPECT_EQ(
      client.call(TransactionMethod::kWords,
                  test::body_of(wire::WordsRequest{.words = 1, .is_far = 0, .brought_back = 2}, "12345678")),
      Code::kMalformed);
  const TransactionName name = client.begin();
  wire::PartRequest part{
      .place = name.place.bits, .number = name.number, .tried_ns = 0, .not_after_wall_ns = 0, .batch = {}};
  part.batch.identity.client = 5;
  EXPECT_EQ(client.call(TransactionMethod::kPrepare, test::body_of(part)), Code::kMalformed);
  part.batch = {};
  part.not_after_wall_ns = 1;
  EXPECT_EQ(client.call(TransactionMethod::kPrepare, test::body_of(part)), Code::kMalformed);
  part.not_after_wall_ns = 0;
  part.batch.staged_bytes = 10;
  EXPECT_EQ(client.call(TransactionMethod::kPrepare, test::body_of(part)), Code::kInvalidated);
  EXPECT_EQ(client.call(TransactionMethod::kAnswer,
                        test::body_of(wire::AnswerRequest{.view = 1, .offset = 0, .reserved = 0})),
            Code::kInvalidated);
  EXPECT_EQ(client.prepare({.place = {name.place.bits + 4}, .number = name.number}, "k", "1"),
            Code::kInvalidArgument);
  EXPECT_EQ(client.settle({.place = {77}, .number = 1}), Code::kNotFound);
  EXPECT_EQ(client.outcome({.place = {77}, .number = 1}), Code::kInvalidArgument);
  Client other(served);
  EXPECT_EQ(other.decide(name, "k", "1"), Code::kInvalidated);
  EXPECT_EQ(get(client, "k"), "not_found");
  EXPECT_TRUE(served.is_sound());
}

// Of another shard, in any place of a part, a decision or a batch: nothing is made of the rest, and nothing
// is decided.
TEST(TransactionService, keys_of_another_shard_are_refused_wherever_they_stand) {
  constexpr KeyRouting kRouting{.shards = 2};
  Served served({.shard_index = 0, .shard_count = 2});
  Client client(served);
  const auto key_of = [&](uint32_t shard) {
    for (int i = 0;; ++i) {
      const std::string key = "key " + std::to_string(i);
      if (kRouting.is_at(shard, bytes_of(key), served.space.table().hash(bytes_of(key)))) return key;
    }
  };
  const std::string own = key_of(0);
  const std::string foreign = key_of(1);
  for (const WriteKind kind : {WriteKind::kPut, WriteKind::kAdd, WriteKind::kErase}) {
    for (const bool is_condition : {false, true}) {
      std::vector<RpcCondition> conditions{{.key = bytes_of(own), .kind = ConditionKind::kAbsent}};
      std::vector<RpcBatchWrite> writes{{.key = bytes_of(own), .kind = kind, .addend = 1}};
      if (is_condition) {
        conditions.push_back({.key = bytes_of(foreign), .kind = ConditionKind::kAbsent});
      } else {
        writes.push_back({.key = bytes_of(foreign), .kind = kind, .addend = 1});
      }
      const TransactionName name = client.begin();
      for (const bool is_home : {false, true}) {
        RpcBatch batch{.conditions = conditions, .writes = writes};
        EXPECT_EQ(client.change(batch, name, is_home).code(), Code::kWrongShard);
        EXPECT_EQ(batch.failed, is_condition ? 1U : 2U);
      }
      RpcBatch batch{.conditions = conditions, .writes = writes};
      EXPECT_EQ(served.wait(client.rpc().change(batch, served.shard.now_ns() + kSecond_ns)).code(),
                Code::kWrongShard);
      EXPECT_EQ(batch.failed, is_condition ? 1U : 2U);
      EXPECT_EQ(served.parts.count(), 0U);
      EXPECT_EQ(get(client, own), "not_found");
      // It may still be decided, either way.
      EXPECT_EQ(client.decide(name, own, "1"), Code::kOk);
      ASSERT_TRUE(served.wait(client.rpc().erase(bytes_of(own))));
    }
  }
  EXPECT_EQ(served.space.table().stats().entries, 0U);
  EXPECT_TRUE(served.is_sound());
}

TEST(TransactionService, one_session_cannot_take_the_places_of_all) {
  Served served;
  Client client(served);
  const TransactionName name = client.begin();
  size_t prepared = 0;
  for (uint64_t i = 0; i < 2 * Table::Parts::kPartsOfSession; ++i) {
    const TransactionName next{.place = name.place, .number = name.number + i};
    const Code code = client.prepare(next, "key " + std::to_string(i), "1");
    if (code == Code::kOverloaded) break;
    ASSERT_EQ(code, Code::kOk);
    ++prepared;
  }
  EXPECT_EQ(prepared, Table::Parts::kPartsOfSession);
  Client other(served);
  EXPECT_EQ(other.prepare(other.begin(), "another", "1"), Code::kOk);
}

}  // namespace
}  // namespace refract::kv
