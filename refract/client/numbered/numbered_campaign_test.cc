// SPDX-License-Identifier: Apache-2.0
// Random schedules of one client and a model of its owner: refusals, waiting, answers that are lost or come
// late, withdrawals, long values, broken connections that still run, killed servers, forgotten sessions. What
// must hold:
//
// - once, and in order: no operation is decided twice, or behind a younger one of its tag;
// - true: what a caller is told is what has become of it, for ever;
// - settles: when faults end, each caller is told, and no record is left.
//
// Each rule of the page is broken once, in what travels or at the owner, and the campaign finds it.
// REFRACT_SEEDS=N runs more seeds of the rules as they are.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/client/numbered/numbered_writes.h"
#include "refract/client/testing/broken_rules.h"
#include "refract/client/testing/model_owner.h"

namespace refract::client {
namespace {

using kv::wire::OperationKind;
using refract::test::BrokenClient;
using refract::test::BrokenOwner;
using refract::test::ModelOwner;

class Campaign;

// No message has room for it.
constexpr std::array<std::byte, 5'000> kLongValue{};

struct TestWrite final : NumberedWrite {
  TestWrite(Campaign& by, uint64_t id_, const NumberedOperation& what)
      : NumberedWrite(what), campaign(by), id(id_) {}
  void told(const NumberedOutcome& outcome) noexcept override;

  Campaign& campaign;
  uint64_t id;
  bool is_given_up = false;
};

class Campaign {
 public:
  Campaign(uint64_t seed, BrokenClient client, BrokenOwner owner)
      : prng_(seed), client_(client), owner_(prng_, owner) {
    chances_ = {.refuses = perhaps(0.2), .waits = perhaps(0.5), .fails = 0.1};
    tags_ = 1 + prng_.below(4);
    conditions_ = perhaps(0.15);
    longs_ = perhaps(0.3);
    gives_drafts_up_ = perhaps(0.01);
    kills_ = perhaps(0.01) + perhaps(0.01);
    forgets_ = perhaps(0.15);
  }
  ~Campaign() {
    for (auto& [id, write] : writes_) machine_.leave(*write);
  }

  // What was found; empty: all held.
  std::string run() {
    for (int step = 0; step < 600 && trouble().empty(); ++step) random_step();
    if (trouble().empty()) settle();
    return trouble();
  }

  void told(TestWrite& write, const NumberedOutcome& outcome) {
    end_draft(write);
    const auto decided = owner_.decided.find(write.id);
    const bool is_decided = decided != owner_.decided.end();
    const bool is_condition = write.operation.kind == OperationKind::kCondition;
    if (outcome.code == Code::kDeadlineExceeded) {
      if (!write.is_given_up) fail("told that its time is over, and it was not");
      not_executed_.push_back(write.id);
    } else if (outcome.code == Code::kUnavailable) {
      const bool is_lost = is_decided && decided->second.code == Code::kInvalidated;
      if (!is_lost || owner_.drafts.given_up == 0) fail("told that its draft was given up, and it was not");
    } else if (outcome.code == Code::kNoSpace) {
      not_executed_.push_back(write.id);
    } else if (outcome.code == Code::kIndeterminate) {
      if (owner_.sessions_forgotten == 0) fail("in doubt, and its session is known");
    } else if (!is_condition && (!is_decided || decided->second.code != outcome.code ||
                                 decided->second.answer.version != outcome.version)) {
      fail("told what has not become of it: " + std::to_string(write.id));
    }
    forget_later_.push_back(write.id);
  }

 private:
  struct Travelling {
    ModelOwner::Message message;
    // Where a broken rule has this call overtaken.
    bool is_late = false;
  };

  [[nodiscard]] double perhaps(double chance) { return prng_.below(2) == 0 ? 0.0 : chance; }
  void fail(const std::string& what) {
    if (trouble_.empty()) trouble_ = what;
  }
  [[nodiscard]] const std::string& trouble() const { return trouble_.empty() ? owner_.trouble : trouble_; }

  void random_step() {
    const uint64_t dice = prng_.below(100);
    if (!is_connected_) {
      if (dice < 20) connect();
      if (dice < 40 && prng_.chance(forgets_)) (void)owner_.forget_session();
    }
    if (dice < 25) add();
    if (dice >= 25 && dice < 30) give_up();
    if (dice >= 30 && dice < 32) leave();
    if (dice >= 32 && dice < 55) pump();
    if (dice >= 55 && dice < 78) arrive();
    if (dice >= 78 && dice < 95) answer();
    if (dice >= 95) (void)owner_.end_wait(prng_.chance(0.3));
    if (prng_.chance(kills_)) break_connection(prng_.below(2) == 0);
    if (prng_.chance(gives_drafts_up_)) owner_.drafts.give_up();
    if (prng_.below(3) == 0) end_drafting();
    forget_told();
  }

  void settle() {
    chances_ = {};
    is_settling_ = true;
    int idle = 0;
    for (int round = 0; idle < 3 && round < 20'000 && trouble().empty(); ++round) {
      if (!is_connected_) connect();
      pump();
      const bool is_moving = arrive() || answer() || owner_.end_wait(false) || end_drafting();
      forget_told();
      idle = is_moving || machine_.has_work() ? 0 : idle + 1;
    }
    if (trouble().empty() && !writes_.empty()) fail("some were never told");
    // Acknowledgements travel with operations.
    for (int i = 0; i < 100 && trouble().empty(); ++i) {
      add_one(OperationKind::kPut, 0);
      pump();
      while (arrive() || answer()) pump();
      forget_told();
    }
    if (trouble().empty() && owner_.records() > 1) fail("records that nothing acknowledges");
    if (trouble().empty() && machine_.numbers() > 1) fail("numbers that stay in hand");
    if (trouble().empty() && owner_.drafts.count() > 0) fail("drafts that nothing gives back");
    for (const uint64_t id : not_executed_) {
      if (owner_.decided.contains(id))
        fail("told that it was not executed, and it was: " + std::to_string(id));
    }
  }

  // --- The caller ---

  void add() {
    const auto tag = static_cast<uint32_t>(prng_.below(tags_ + 1));
    add_one(prng_.chance(conditions_) ? OperationKind::kCondition : OperationKind::kPut, tag);
  }
  void add_one(OperationKind kind, uint32_t tag) {
    const uint64_t id = ++last_id_;
    const bool is_long = kind == OperationKind::kPut && prng_.chance(is_settling_ ? 0 : longs_);
    auto write = std::make_unique<TestWrite>(
        *this, id,
        NumberedOperation{.kind = kind,
                          .tag = tag,
                          .argument = id,
                          .key = {},
                          .value = std::span(kLongValue).first(is_long ? kLongValue.size() : 0)});
    if (is_long) long_.insert(id);
    if (machine_.add(*write) != Code::kOk) fail("not taken");
    writes_[id] = std::move(write);
  }
  [[nodiscard]] TestWrite* any() {
    if (writes_.empty()) return nullptr;
    auto at = writes_.begin();
    std::advance(at, static_cast<ptrdiff_t>(prng_.below(writes_.size())));
    return at->second.get();
  }
  void give_up() {
    TestWrite* const write = any();
    if (write == nullptr || write->is_given_up) return;
    write->is_given_up = true;
    given_up_.insert(write->id);
    const bool is_out = machine_.give_up(*write);
    if (is_out || client_ == BrokenClient::kTellsBeforeWithdrawn) {
      end_draft(*write);
      machine_.leave(*write);
      not_executed_.push_back(write->id);
      writes_.erase(write->id);
    }
  }
  void leave() {
    TestWrite* const write = any();
    if (write == nullptr) return;
    end_draft(*write);
    machine_.leave(*write);
    writes_.erase(write->id);
  }
  void forget_told() {
    for (const uint64_t id : forget_later_) writes_.erase(id);
    forget_later_.clear();
  }

  // --- Long values ---

  void begin_drafts() {
    while (NumberedWrite* const write = machine_.next_draft()) {
      drafting_.push_back(static_cast<TestWrite*>(write));
    }
  }
  // One comes, or does not. False: none is on its way.
  bool end_drafting() {
    begin_drafts();
    if (drafting_.empty() || !is_connected_) return false;
    const auto at = drafting_.begin() + static_cast<ptrdiff_t>(prng_.below(drafting_.size()));
    TestWrite& write = **at;
    drafting_.erase(at);
    const uint64_t dice = is_settling_ ? 9 : prng_.below(10);
    if (dice == 0) {
      machine_.not_drafted_now(write);
    } else if (dice == 1) {
      machine_.not_drafted(write, Code::kNoSpace);
    } else {
      machine_.drafted(write, owner_.drafts.begin(connection_));
    }
    return true;
  }
  void end_draft(const TestWrite& write) {
    std::erase(drafting_, &write);
    if (client_ != BrokenClient::kKeepsDrafts) owner_.drafts.end(write.draft());
  }

  // --- What travels ---

  void connect() {
    is_connected_ = true;
    ++connection_;
    is_first_call_ = true;
    machine_.connected(
        {.body_bytes_max = 4'096, .answer_bytes_max = 1'024, .messages_are_stores = prng_.below(2) == 0});
  }
  void break_connection(bool is_kill) {
    if (!is_connected_) return;
    is_connected_ = false;
    if (is_kill) {
      channel_.clear();
      owner_.be_killed();
    } else if (prng_.below(2) == 0) {
      channel_.clear();
      owner_.see_end(connection_);
    }  // Else it is half dead, and what it has under way comes later.
    owner_.replies.clear();
    drafting_.clear();
    machine_.lost();
  }

  bool pump() {
    bool has_sent = false;
    while (const NumberedCall* const call = machine_.next()) {
      if (!is_settling_ && prng_.below(20) == 0) {
        machine_.not_sent(call->place);
        break;
      }
      send(*call);
      has_sent = true;
    }
    return has_sent;
  }

  void send(const NumberedCall& call) {
    ModelOwner::Message message = ModelOwner::Message::of(call, connection_);
    if (call.what == NumberedCall::What::kResume) message.session = machine_.session();
    for (const auto& item : message.items) {
      if (item.id != 0) id_of_number_[item.number] = item.id;
    }
    Travelling travelling{.message = message};
    break_rules(travelling);
    channel_.push_back(std::move(travelling));
  }

  void break_rules(Travelling& travelling) {
    ModelOwner::Message& call = travelling.message;
    if (call.what != NumberedCall::What::kOperations) return;
    const bool is_asking = call.items.front().id == 0;
    if (client_ == BrokenClient::kNewOnesInAnyOrder && call.items.size() > 1) {
      std::swap(call.items.front(), call.items.back());
      swapped_.insert(call.place);
    }
    if (client_ == BrokenClient::kAcknowledgesOnce || client_ == BrokenClient::kForgetsLateAnswers) {
      std::erase_if(call.acknowledged, [this](const kv::wire::Acknowledged& one) {
        const bool is_first = acknowledged_.insert(one.number()).second;
        const bool is_late = given_up_.contains(id_of_number_[one.number()]);
        return client_ == BrokenClient::kAcknowledgesOnce ? !is_first : is_late;
      });
    }
    if (client_ == BrokenClient::kSendsNewOnesInFront && !is_asking && is_first_call_) {
      travelling.is_late = true;
      is_first_call_ = false;
    }
    if (client_ == BrokenClient::kSendsBehindConditions && !is_asking && call.items.back().is_condition) {
      travelling.is_late = true;
    }
    for (ModelOwner::Item& item : call.items) {
      if (item.draft == 0) continue;
      if (client_ == BrokenClient::kSendsBehindDrafts) travelling.is_late = true;
      const uint64_t first = first_draft_.try_emplace(item.id, item.draft).first->second;
      if (client_ == BrokenClient::kCommitsOldDrafts) item.draft = first;
    }
  }

  // What a broken client takes an answer for without its owner.
  [[nodiscard]] bool is_answered_here(const ModelOwner::Message& message) {
    const ModelOwner::Message& call = message;
    if (call.what == NumberedCall::What::kResume && client_ == BrokenClient::kTakesUnknownForNo) {
      ModelOwner::Message begin = message;
      owner_.execute(begin, chances_);
      if (owner_.replies.back().code == Code::kOk) return true;
      owner_.replies.pop_back();
      begin.what = NumberedCall::What::kBegin;
      owner_.execute(begin, chances_);
      return true;
    }
    if (call.what != NumberedCall::What::kOperations || call.items.front().id != 0) return false;
    const uint64_t id = id_of_number_[call.items.front().number];
    const bool is_given_up = given_up_.contains(id);
    const bool asks_none = client_ == BrokenClient::kAsksNothing ||
                           (client_ == BrokenClient::kCommitsWithoutAsking && long_.contains(id));
    if (asks_none ? is_given_up : client_ != BrokenClient::kGivesUpSilently) return false;
    ModelOwner::Reply reply{.connection = message.connection, .place = call.place};
    for (size_t i = 0; i < call.items.size(); ++i) {
      kv::wire::TakenAnswer answer = ModelOwner::Reply::plain(Code::kOk);
      answer.answer.flags = kv::wire::OperationAnswer::kNotExecuted;
      reply.answers.push_back(answer);
    }
    owner_.replies.push_back(std::move(reply));
    return true;
  }

  bool arrive() {
    if (channel_.empty()) return false;
    auto at = channel_.begin();
    if (at->is_late && at->message.connection == connection_ && channel_.size() > 1) ++at;
    const ModelOwner::Message message = at->message;
    channel_.erase(at);
    if (!is_answered_here(message)) owner_.execute(message, chances_);
    return true;
  }

  // Calls are mostly answered in their order; where one waits for the log, the next may overtake it.
  bool answer() {
    auto& replies = owner_.replies;
    if (replies.empty()) return false;
    const size_t which = prng_.below(4) == 0 ? prng_.below(std::min<size_t>(replies.size(), 3)) : 0;
    ModelOwner::Reply reply = replies[which];
    replies.erase(replies.begin() + static_cast<ptrdiff_t>(which));
    if (!is_connected_ || reply.connection != connection_) return true;
    if (reply.session) {
      machine_.opened(reply.place, *reply.session);
    } else if (reply.code != Code::kOk) {
      machine_.refused(reply.place, reply.code);
    } else {
      if (swapped_.erase(reply.place) > 0) std::swap(reply.answers.front(), reply.answers.back());
      if (!machine_.answered(reply.place, reply.answers)) fail("an answer that makes no sense");
    }
    return true;
  }

  Prng prng_;
  const BrokenClient client_;
  ModelOwner owner_;
  ModelOwner::Chances chances_;
  uint64_t tags_ = 1;
  double conditions_ = 0;
  double longs_ = 0;
  double gives_drafts_up_ = 0;
  double kills_ = 0;
  double forgets_ = 0;

  NumberedWrites machine_{ModelOwner::kFunctions};
  std::map<uint64_t, std::unique_ptr<TestWrite>> writes_;
  uint64_t last_id_ = 0;
  std::vector<uint64_t> not_executed_;
  std::vector<uint64_t> forget_later_;
  bool is_connected_ = false;
  int connection_ = 0;
  std::deque<Travelling> channel_;
  std::map<uint64_t, uint64_t> id_of_number_;
  std::set<uint64_t> given_up_;
  std::set<uint64_t> acknowledged_;
  std::set<uint32_t> swapped_;
  std::vector<TestWrite*> drafting_;  // Long values on their way.
  std::set<uint64_t> long_;
  std::map<uint64_t, uint64_t> first_draft_;  // Of ids.
  bool is_first_call_ = false;
  bool is_settling_ = false;
  std::string trouble_;
};

void TestWrite::told(const NumberedOutcome& outcome) noexcept {
  campaign.told(*this, outcome);
}

std::string run(uint64_t seed, BrokenClient client = BrokenClient::kNone,
                BrokenOwner owner = BrokenOwner::kNone) {
  return Campaign(seed, client, owner).run();
}

TEST(NumberedCampaign, what_callers_are_told_is_what_has_become_of_it_in_every_schedule) {
  const char* const wanted = std::getenv("REFRACT_SEEDS");
  const uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1'000;
  for (uint64_t seed = 1; seed <= seeds; ++seed) ASSERT_EQ(run(seed), "") << "seed " << seed;
}

constexpr uint64_t kSeedsOfBroken = 3'000;

class BrokenClients : public testing::TestWithParam<BrokenClient> {};
TEST_P(BrokenClients, a_broken_rule_of_the_client_is_found) {
  uint64_t seed = 1;
  while (seed <= kSeedsOfBroken && run(seed, GetParam()).empty()) ++seed;
  EXPECT_LE(seed, kSeedsOfBroken);
}
INSTANTIATE_TEST_SUITE_P(Each, BrokenClients,
                         testing::Values(BrokenClient::kGivesUpSilently, BrokenClient::kTellsBeforeWithdrawn,
                                         BrokenClient::kNewOnesInAnyOrder, BrokenClient::kAsksNothing,
                                         BrokenClient::kTakesUnknownForNo, BrokenClient::kAcknowledgesOnce,
                                         BrokenClient::kForgetsLateAnswers,
                                         BrokenClient::kSendsNewOnesInFront,
                                         BrokenClient::kSendsBehindConditions,
                                         BrokenClient::kSendsBehindDrafts,
                                         BrokenClient::kCommitsWithoutAsking, BrokenClient::kCommitsOldDrafts,
                                         BrokenClient::kKeepsDrafts));

class BrokenOwners : public testing::TestWithParam<BrokenOwner> {};
TEST_P(BrokenOwners, a_broken_rule_of_the_owner_is_found) {
  uint64_t seed = 1;
  while (seed <= kSeedsOfBroken && run(seed, BrokenClient::kNone, GetParam()).empty()) ++seed;
  EXPECT_LE(seed, kSeedsOfBroken);
}
INSTANTIATE_TEST_SUITE_P(
    Each, BrokenOwners,
    testing::Values(BrokenOwner::kNoBar, BrokenOwner::kBarOfOne, BrokenOwner::kWaitingOutlivesConnection,
                    BrokenOwner::kAcknowledgesByPlaceAlone, BrokenOwner::kRecordsEndWithConnection,
                    BrokenOwner::kErrorsLeaveNoRecord, BrokenOwner::kAskingTakesNothingOut,
                    BrokenOwner::kDraftsOutliveConnection));

}  // namespace
}  // namespace refract::client
