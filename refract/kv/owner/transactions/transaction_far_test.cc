// SPDX-License-Identifier: Apache-2.0
// One of several nodes, as clients and the other nodes use it: by calls, good ones and others.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/kv/owner/service/waiting_reads.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_one_of_nodes.h"

namespace refract::kv::over_nodes {
namespace {

std::string said(std::initializer_list<Fate> fates) {
  std::string text;
  for (const Fate fate : fates) text += static_cast<char>(fate);
  return text;
}

TEST(TransactionFar, names_that_a_client_has_made_up_are_never_and_touch_nothing) {
  Node node;
  Client client(node);
  const TransactionName open = client.begin(true);
  const auto before = node.words();
  const DecisionPlace place = open.place;
  const auto far = [&](uint64_t bits) { return DecisionPlace{bits}.seen_from_afar(kSelf); };
  const std::vector<TransactionName> names{
      {.place = far(place.bits + 4), .number = open.number},              // Between two words,
      {.place = far(DecisionPlace::of(0, Offset{8}).bits), .number = 1},  // none at all,
      {.place = far(DecisionPlace::of(60'000, place.at()).bits), .number = open.number},
      {.place = place.seen_from_afar(kHome), .number = open.number},  // and another node's.
      {.place = place.seen_from_afar(200), .number = open.number},
  };
  for (const bool is_demanded : {false, true}) {
    EXPECT_EQ(needed(client.fates(names, is_demanded)),
              said({Fate::kNever, Fate::kNever, Fate::kNever, Fate::kNever, Fate::kNever}));
    const TransactionName its_own{.place = far(place.bits), .number = open.number};
    EXPECT_EQ(needed(client.fates({{its_own}}, is_demanded, kGeneration + 1)), said({Fate::kNever}))
        << "of another memory";
    EXPECT_EQ(client.fates({{its_own}}, is_demanded, kGeneration, 77).code(), Code::kInvalidated)
        << "another node is meant";
    EXPECT_EQ(client.fates({{open}}, is_demanded).code(), Code::kMalformed) << "a near name";
    EXPECT_EQ(client.fates({}, is_demanded).code(), Code::kMalformed);
  }
  EXPECT_EQ(node.words(), before);
  EXPECT_TRUE(node.served.is_sound());
}

TEST(TransactionFar, a_look_leaves_open_what_a_demand_decides) {
  Node node;
  Client client(node);
  const TransactionName one = client.begin(true);
  const TransactionName other = client.begin(true);
  const std::vector<TransactionName> names{
      {.place = one.place.seen_from_afar(kSelf), .number = one.number},
      {.place = other.place.seen_from_afar(kSelf), .number = other.number}};
  const auto before = node.words();
  EXPECT_EQ(needed(client.fates(names, false)), said({Fate::kOpen, Fate::kOpen}));
  EXPECT_EQ(node.words(), before);
  const wire::FarPlace part{.member = kHome, .shard = 0};
  node.nodes.set(kHome, Fate::kOpen);
  EXPECT_EQ(client.decide(one, {{part}}, kGeneration + 1), Code::kInvalidated) << "of another memory";
  ASSERT_EQ(client.decide(one, {{part}}), Code::kOk);
  EXPECT_EQ(needed(client.fates(names, true)), said({Fate::kHappened, Fate::kNever}));
  EXPECT_EQ(client.decide(other, {{part}}), Code::kConflict);
  const TransactionName near = client.begin(false);
  EXPECT_EQ(client.decide(near, {{part}}), Code::kInvalidArgument) << "a word that is for one node";
}

TEST(TransactionFar, only_the_session_that_has_prepared_a_part_is_believed) {
  for (const Fate lie : {Fate::kHappened, Fate::kNever}) {
    Node node;
    Client client(node);
    Client other(node);
    const Fate truth = lie == Fate::kHappened ? Fate::kNever : Fate::kHappened;
    node.nodes.set(kHome, Fate::kOpen);
    const TransactionName name = far_name(kHome, 7);
    ASSERT_EQ(client.prepare(name, "part", "1"), Code::kOk);
    EXPECT_EQ(node.nodes.asked(), 0);
    EXPECT_EQ(other.settle(name, lie), Code::kOverloaded);
    EXPECT_EQ(node.served.parts.count(), 1U);
    EXPECT_GT(node.nodes.asked(), 0) << "the home is asked";
    node.nodes.set(kHome, truth);
    node.pass(kSecond_ns);
    EXPECT_EQ(node.served.parts.count(), 0U);
    EXPECT_EQ(client.get("part"), truth == Fate::kHappened ? "1" : "not_found");
    // Its own is, and the home is not asked.
    const int asked = node.nodes.asked();
    const TransactionName next = far_name(kHome, 8);
    ASSERT_EQ(client.prepare(next, "next", "1"), Code::kOk);
    EXPECT_EQ(client.settle(next, lie), lie == Fate::kHappened ? Code::kOk : Code::kConflict);
    EXPECT_EQ(client.get("next"), lie == Fate::kHappened ? "1" : "not_found");
    EXPECT_EQ(node.nodes.asked(), asked);
    EXPECT_EQ(client.settle(next, lie), Code::kNotFound);
  }
}

// What parts tell a log, beside what the table does.
class TellsOfParts final : public PartLog {
 public:
  using Changes = std::span<const ChangeLog::Change>;
  explicit TellsOfParts(test::ManualLog& log) : log_(log) {}
  void append_prepared(const TransactionName&, uint64_t, Changes) noexcept override { add(); }
  void append_decided(const TransactionName&, uint64_t, Changes) noexcept override { add(); }
  void append_settled(const TransactionName&, uint64_t, bool) noexcept override { add(); }

 private:
  void add() noexcept {
    ++log_.position;
    if (!log_.waits) log_.confirm_all();
  }
  test::ManualLog& log_;
};

// Its home would give the word again, and say "never" of what may come back from the disk.
TEST(TransactionFar, a_part_is_not_gone_before_the_log_has_its_end_and_what_an_earlier_server_has_told_it) {
  Node node(/*is_recovered=*/false);
  test::ManualLog log;
  TellsOfParts tells(log);
  node.served.space.table().log_to(&log);
  node.served.parts.log_to(&tells);
  // The server that was killed has ended a part, and its memory has nothing of it: only the ring does.
  log.waits = true;
  log.position = 1;
  node.served.parts.take_up(std::nullopt);
  Client client(node);
  const TransactionName before = far_name(kHome, 1);
  EXPECT_EQ(client.gone({{before}}).code(), Code::kOverloaded);
  log.confirm_all();
  (void)node.served.transactions.on_log_progress();
  EXPECT_EQ(needed(client.gone({{before}})), std::string(1, 1));

  // And one that this server has ended.
  node.nodes.set(kHome, Fate::kOpen);
  const TransactionName name = far_name(kHome, 2);
  log.waits = false;
  ASSERT_EQ(client.prepare(name, "part", "1"), Code::kOk);
  EXPECT_EQ(needed(client.gone({{name}})), std::string(1, 0)) << "it is there";
  log.waits = true;
  ASSERT_EQ(client.settle(name, Fate::kHappened), Code::kOk);
  EXPECT_EQ(needed(client.gone({{name, before}})), (std::string{0, 1}));
  log.confirm_all();
  (void)node.served.transactions.on_log_progress();
  EXPECT_EQ(needed(client.gone({{name, before}})), (std::string{1, 1}));
  node.served.parts.log_to(nullptr);
  node.served.space.table().log_to(nullptr);
}

TEST(TransactionFar, parts_of_no_other_node_are_refused) {
  Node node;
  Client client(node);
  EXPECT_EQ(client.prepare(far_name(kSelf, 1), "k", "1"), Code::kInvalidArgument);
  EXPECT_EQ(client.prepare(far_name(3, 1), "k", "1"), Code::kInvalidArgument);
  EXPECT_EQ(client.prepare(far_name(200, 1), "k", "1"), Code::kInvalidArgument);
  EXPECT_EQ(client.put("k"), Code::kOk) << "it is held by none";
  const wire::NameRequest name{.place = far_name(kHome, 1).place.bits, .number = 1};
  EXPECT_EQ(client.call(TransactionMethod::kSettle, test::body_of(name)), Code::kMalformed);
  EXPECT_EQ(client.call(TransactionMethod::kOutcome, test::body_of(name)), Code::kInvalidArgument);
  EXPECT_TRUE(node.words().empty());
}

// Its home is away: what waits for the key waits for a second, and what comes then not at all.
TEST(TransactionFar, a_home_that_is_away_makes_nothing_wait_for_long) {
  Node node;
  Client client(node);
  Client other(node);
  ASSERT_EQ(other.put("part"), Code::kOk);
  {
    Client gone(node);
    ASSERT_EQ(gone.prepare(far_name(kHome, 1), "part", "1"), Code::kOk);
  }
  const auto taken_ns = [&](const auto& what) {
    const uint64_t began_ns = node.served.shard.refresh_now();
    what();
    return node.served.shard.refresh_now() - began_ns;
  };
  const uint64_t first_ns = taken_ns([&] { EXPECT_EQ(other.put_once("part"), Code::kOverloaded); });
  EXPECT_GE(first_ns, kSecond_ns);
  EXPECT_LT(first_ns, kSecond_ns + 200 * kMillisecond_ns);
  EXPECT_LT(taken_ns([&] { EXPECT_EQ(other.put_once("part"), Code::kOverloaded); }), kMillisecond_ns);
  EXPECT_EQ(client.prepare(far_name(kHome, 2), "another", "1"), Code::kUnavailable);
  EXPECT_EQ(client.prepare(far_name(kOtherHome, 2), "another", "1"), Code::kOk);
  EXPECT_EQ(client.settle(far_name(kOtherHome, 2), Fate::kNever), Code::kConflict);
  EXPECT_EQ(other.put("free"), Code::kOk);
  EXPECT_EQ(other.get("free"), "plain");
  EXPECT_LT(taken_ns([&] { EXPECT_EQ(other.get_once("part"), Code::kOverloaded); }), 2 * kSecond_ns);
  node.nodes.set(kHome, Fate::kHappened);
  node.pass(2 * kSecond_ns);
  EXPECT_EQ(node.served.parts.count(), 0U);
  EXPECT_EQ(other.get("part"), "1");
  EXPECT_EQ(other.put("part"), Code::kOk);
  EXPECT_EQ(client.prepare(far_name(kHome, 3), "part", "3"), Code::kOk);
}

// A person says what became of it: not before its home has been away for long.
TEST(TransactionFar, parts_of_a_home_that_is_gone_for_good_end_as_a_person_says) {
  for (const Fate fate : {Fate::kNever, Fate::kHappened}) {
    Node node;
    Client client(node);
    ASSERT_EQ(client.prepare(far_name(kHome, 1), "part", "1"), Code::kOk);
    ASSERT_EQ(client.prepare(far_name(kOtherHome, 1), "other", "1"), Code::kOk);
    EXPECT_EQ(client.give_up(kHome, fate), Code::kConflict) << "it was not asked";
    node.nodes.set(kOtherHome, Fate::kOpen);
    node.pass(5 * kSecond_ns);
    const std::vector<wire::OpenFarPart> open = client.open_far();
    ASSERT_EQ(open.size(), 2U);
    EXPECT_EQ(open[0].keys, 1U);
    EXPECT_GT(open[0].silent_ns, 3 * kSecond_ns);
    EXPECT_EQ(open[1].silent_ns, 0U);
    EXPECT_EQ(client.give_up(kHome, fate), Code::kConflict) << "it may come back";
    node.pass(10 * kSecond_ns);
    EXPECT_EQ(client.give_up(kOtherHome, fate), Code::kConflict) << "it answers";
    EXPECT_EQ(client.give_up(kSelf, fate), Code::kInvalidArgument);
    EXPECT_EQ(client.give_up(3, fate), Code::kInvalidArgument);
    EXPECT_EQ(client.give_up(kHome, Fate::kOpen), Code::kMalformed);
    EXPECT_EQ(client.give_up(kHome, Fate::kUnconfirmed), Code::kMalformed);
    EXPECT_EQ(node.served.parts.count(), 2U);
    EXPECT_EQ(client.give_up(kHome, fate), Code::kOk);
    EXPECT_EQ(client.get("part"), fate == Fate::kHappened ? "1" : "not_found");
    EXPECT_EQ(node.served.parts.count(), 1U);
    EXPECT_EQ(client.give_up(kHome, fate), Code::kOk) << "what others decide does not matter";
    EXPECT_EQ(client.put("part"), Code::kOk);
    node.nodes.set(kHome, Fate::kOpen);
    node.pass(kSecond_ns);
    EXPECT_EQ(client.give_up(kHome, fate), Code::kOk) << "it has none here";
  }
}

// A read that meets an open part is answered by what its home says behind it.
TEST(TransactionFar, reads_wait_for_a_look) {
  Node node;
  Client client(node);
  Client other(node);
  ASSERT_EQ(other.put("part"), Code::kOk);
  ASSERT_EQ(client.prepare(far_name(kHome, 1), "part", "new"), Code::kOk);
  node.nodes.set(kHome, Fate::kOpen);
  EXPECT_EQ(other.get("part"), "plain");
  EXPECT_EQ(node.nodes.asked(), 1);
  EXPECT_EQ(other.get("part"), "plain");
  EXPECT_EQ(node.nodes.asked(), 2) << "each for itself";
  node.nodes.set(kHome, Fate::kUnconfirmed);
  EXPECT_EQ(other.get("part"), "new");
  EXPECT_EQ(node.served.parts.count(), 1U) << "its log may still lose it";
  node.nodes.set(kHome, Fate::kHappened);
  EXPECT_EQ(needed(node.served.wait(other.rpc().scan(0, 10))).keys.size(), 1U);
  EXPECT_EQ(node.served.parts.count(), 0U);
  EXPECT_EQ(node.served.service.far_reads().count(), 4U);
}

rpc::IncomingCall read_of(uint64_t session, std::span<const std::byte> payload) {
  return {.from = {.session = {session}, .id = 1, .method = 1}, .header = {}, .payload = payload};
}

TEST(WaitingReads, one_session_takes_a_share_and_all_take_what_there_is) {
  WaitingReads reads;
  const std::vector<std::byte> payload(8);
  for (size_t i = 0; i < WaitingReads::kMax; ++i) {
    ASSERT_TRUE(reads.add(read_of(i / WaitingReads::kPerSession, payload), std::nullopt, i, 0)) << i;
    const bool is_full = (i + 1) % WaitingReads::kPerSession == 0;
    if (is_full) {
      EXPECT_FALSE(reads.add(read_of(i / WaitingReads::kPerSession, payload), std::nullopt, i, 0)) << i;
    }
  }
  EXPECT_FALSE(reads.add(read_of(77, payload), std::nullopt, 0, 0));
  reads.drop({0});
  EXPECT_EQ(reads.count(), WaitingReads::kMax - WaitingReads::kPerSession);
  EXPECT_TRUE(reads.add(read_of(77, payload), std::nullopt, 0, 5));
  const std::deque<WaitingReads::Read> all = reads.take();
  EXPECT_TRUE(reads.empty());
  EXPECT_EQ(all.back().give_up_ns, 5 + WaitingReads::kLongest_ns);
}

TEST(WaitingReads, their_bytes_are_bounded_and_come_back) {
  WaitingReads reads;
  const std::vector<std::byte> payload(WaitingReads::kBytesMax / 2);
  ASSERT_TRUE(reads.add(read_of(1, payload), std::nullopt, 0, 0));
  ASSERT_TRUE(reads.add(read_of(2, payload), std::nullopt, 0, 0));
  EXPECT_FALSE(reads.add(read_of(3, std::span(payload).first(1)), std::nullopt, 0, 0));
  reads.drop({1});
  EXPECT_TRUE(reads.add(read_of(3, payload), std::nullopt, 0, 0));
  for (WaitingReads::Read& read : reads.take()) reads.put_back(std::move(read));
  EXPECT_FALSE(reads.add(read_of(4, std::span(payload).first(1)), std::nullopt, 0, 0));
  (void)reads.take();
  EXPECT_TRUE(reads.add(read_of(4, payload), std::nullopt, 0, 0));
}

}  // namespace
}  // namespace refract::kv::over_nodes
