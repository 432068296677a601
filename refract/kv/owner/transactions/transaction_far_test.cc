// SPDX-License-Identifier: Apache-2.0
// One of several nodes, as clients and the other nodes use it: by calls, good ones and others. What the other
// nodes say is made up here.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/owner/service/waiting_reads.h"
#include "refract/kv/owner/transactions/other_nodes.h"
#include "refract/kv/testing/test_service.h"

// A namespace of its own: other tests of this program have clients and nodes as well.
namespace refract::kv::over_nodes {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::Served;
using test::ServedOptions;
using wire::Fate;
using wire::TransactionMethod;

constexpr uint64_t kGeneration = 5;  // Of the node that is tested,
constexpr uint64_t kOfHome = 9;      // and of its neighbours.
constexpr uint32_t kSelf = 1;
constexpr uint32_t kHome = 2;
constexpr uint32_t kOtherHome = 0;

class MadeUpNodes final : public OtherNodes {
 public:
  // Before it is asked.
  void wait_with(runtime::Shard& shard) noexcept { shard_ = &shard; }
  void set(uint32_t member, Fate fate) { fates_[member] = fate; }
  // It does not answer.
  void send_away(uint32_t member) { fates_.erase(member); }
  [[nodiscard]] int asked() const noexcept { return asked_; }

  [[nodiscard]] uint32_t self() const noexcept override { return kSelf; }
  [[nodiscard]] uint32_t members() const noexcept override { return 3; }
  [[nodiscard]] uint64_t placement_of(uint32_t member) const noexcept override { return 100 + member; }
  [[nodiscard]] runtime::Task<Result<std::vector<std::byte>>> ask(wire::FarPlace place,
                                                                  TransactionMethod /*method*/,
                                                                  std::span<const std::byte> body,
                                                                  uint64_t deadline_ns) override {
    ++asked_;
    const auto fate = fates_.find(place.member);
    if (fate == fates_.end()) {
      co_await shard_->sleep_until(deadline_ns);
      co_return fail(Code::kUnavailable);
    }
    const auto head = *wire::take<wire::FatesRequest>(body);
    co_return std::vector<std::byte>(head.names, static_cast<std::byte>(fate->second));
  }
  [[nodiscard]] runtime::Task<std::optional<uint32_t>> shards_of(uint32_t /*member*/,
                                                                 uint64_t /*deadline_ns*/) override {
    co_return 1;
  }

 private:
  runtime::Shard* shard_ = nullptr;
  std::map<uint32_t, Fate> fates_;
  int asked_ = 0;
};

struct Node {
  MadeUpNodes nodes;
  Served served{{.nodes = &nodes, .generation = kGeneration}};
  Node() {
    nodes.wait_with(served.shard);
    pass(kMillisecond_ns);  // Time 0 is none.
  }

  void pass(uint64_t ns) {
    (void)served.shard.run_until([] { return false; }, served.shard.refresh_now() + ns);
  }
  // Words that some transaction has changed, and to what.
  [[nodiscard]] std::vector<std::pair<size_t, uint64_t>> words() {
    std::vector<std::pair<size_t, uint64_t>> words;
    for (size_t i = 0; i < kDecisionWords; ++i) {
      const uint64_t bits = served.decisions.look(served.decisions.place_of(0, i)).bits;
      if (bits != 0) words.emplace_back(i, bits);
    }
    return words;
  }
};

class Client {
 public:
  explicit Client(Node& node)
      : node_(node), peer_(node.served.connect()), calls_(*peer_.session, node.served.shard) {}

  [[nodiscard]] Code prepare(const TransactionName& name, std::string_view key, std::string_view value) {
    std::vector<RpcBatchWrite> writes{
        {.key = bytes_of(key), .kind = WriteKind::kPut, .value = bytes_of(value)}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    return node_.served.wait(calls_.prepare(batch, terms(name))).code();
  }
  [[nodiscard]] Code decide(const TransactionName& name, std::span<const wire::FarPlace> places,
                            uint64_t generation = kGeneration) {
    std::vector<RpcBatchWrite> writes{{.key = bytes_of("home"), .value = bytes_of("1")}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    TransactionCalls::Terms terms = this->terms(name);
    terms.far_places = places;
    terms.generation = generation;
    return node_.served.wait(calls_.decide(batch, terms)).code();
  }
  [[nodiscard]] TransactionName begin(bool is_far) {
    return needed(node_.served.wait(calls_.begin(deadline(), is_far)));
  }
  [[nodiscard]] Code settle(const TransactionName& name, Fate fate) {
    return call(
        TransactionMethod::kSettleFar,
        test::body_of(wire::FarSettleRequest{.name = request_of(name), .fate = static_cast<uint64_t>(fate)}));
  }
  // A fate for each; or why not.
  [[nodiscard]] Result<std::string> fates(std::span<const TransactionName> names, bool is_demanded,
                                          uint64_t generation = kGeneration,
                                          uint64_t placement = 100 + kSelf) {
    std::string behind;
    for (const TransactionName& name : names) behind += test::body_of(request_of(name));
    const wire::FatesRequest head{.placement = placement,
                                  .generation = generation,
                                  .names = static_cast<uint32_t>(names.size()),
                                  .is_demanded = is_demanded ? 1U : 0U};
    std::string reply;
    const Code code = call(TransactionMethod::kFates, test::body_of(head, behind), &reply);
    if (code != Code::kOk) return fail(code);
    return reply;
  }
  [[nodiscard]] Code call(TransactionMethod method, std::string_view body, std::string* reply = nullptr) {
    const runtime::OpResult result = peer_.session->call_and_wait(
        {.method = static_cast<uint16_t>(method), .head = bytes_of(body), .tail = {}}, deadline());
    if (reply != nullptr) *reply = test::text_of(result.bytes);
    return result.code;
  }
  [[nodiscard]] Code give_up(uint32_t member, Fate fate) {
    return node_.served.wait(calls_.give_up(member, fate, deadline())).code();
  }
  [[nodiscard]] std::vector<wire::OpenFarPart> open_far() {
    return needed(node_.served.wait(calls_.open_far(deadline())));
  }
  [[nodiscard]] Code put(std::string_view key) {
    return rpc().put_and_wait(bytes_of(key), bytes_of("plain")).code();
  }
  // These two are not sent again where they are refused.
  [[nodiscard]] Code put_once(std::string_view key) {
    return call(TransactionMethod{static_cast<uint16_t>(wire::Method::kPut)},
                test::body_of(test::put_request(key.size(), 1), std::string(key) + "v"));
  }
  [[nodiscard]] Code get_once(std::string_view key) {
    return call(TransactionMethod{static_cast<uint16_t>(wire::Method::kGet)},
                test::body_of(test::key_ref(key.size()), key));
  }
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    StringSink sink(value);
    const Result<Got> got = rpc().get_and_wait(bytes_of(key), sink);
    return got ? value : std::string(text(got.code()));
  }
  [[nodiscard]] RpcClient& rpc() { return *peer_.client; }

 private:
  [[nodiscard]] static wire::NameRequest request_of(const TransactionName& name) noexcept {
    return {.place = name.place.bits, .number = name.number};
  }
  [[nodiscard]] uint64_t deadline() const { return node_.served.shard.now_ns() + 10 * kSecond_ns; }
  [[nodiscard]] TransactionCalls::Terms terms(const TransactionName& name) const {
    return {.name = name,
            .begun_ns = node_.served.shard.now_ns(),
            .deadline_ns = deadline(),
            .not_after_wall_ns = 0,
            .generation = kOfHome,
            .far_places = {}};
  }

  Node& node_;
  Served::Peer peer_;
  TransactionCalls calls_;
};

TransactionName far_name(uint32_t member, uint64_t number) {
  return {.place = DecisionPlace::of(3, Offset{0x8000}).seen_from_afar(member), .number = number};
}

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
