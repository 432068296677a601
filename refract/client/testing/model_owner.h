// SPDX-License-Identifier: Apache-2.0
// A small owner of numbered writes, by which a campaign judges their client's end: the rules of
// tests/models/numbered_writes_model.py in C++, of one shard and one session. It refuses, lets wait, dies and
// forgets when it is told to, and notes what it has executed. Operations are known by their argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/result.h"
#include "refract/client/numbered/numbered_call.h"
#include "refract/client/testing/broken_rules.h"
#include "refract/client/testing/model_drafts.h"
#include "refract/client/testing/travelling_call.h"
#include "refract/kv/layout/numbered_wire.h"

namespace refract::test {

class ModelOwner {
 public:
  using Item = TravellingItem;
  using Message = TravellingCall;
  using Reply = TravellingReply;
  using Chances = OwnerChances;
  // More than it may have are refused for now.
  static constexpr size_t kRecordsMax = 40;
  static constexpr uint32_t kFunctions = 7;

  ModelOwner(Prng& prng, BrokenOwner broken) : prng_(prng), broken_(broken) { make_places(); }

  // Executes a call, or begins to have it wait. Replies are at the end of `replies`.
  void execute(const Message& message, const Chances& chances) {
    if (message.what != client::NumberedCall::What::kOperations) return answer_session(message);
    // The old connection runs nothing.
    if (message.connection != connection_) return;
    for (const auto& one : message.acknowledged) acknowledge(one);
    check_form(message);
    Reply reply{.connection = message.connection, .place = message.place};
    for (const Item& item : message.items) {
      auto answer = item.id == 0 ? withdraw(item) : look(item, message.may_wait, chances);
      if (!answer) {
        waiting_.push_back({.number = item.number, .tag = item.tag, .message = message});
        return;
      }
      reply.answers.push_back(*answer);
    }
    replies.push_back(std::move(reply));
  }
  // One of those that wait has waited. False: there is none.
  bool end_wait(bool is_refused) {
    if (waiting_.empty()) return false;
    const auto at = waiting_.begin() + static_cast<ptrdiff_t>(prng_.below(waiting_.size()));
    const Waiting one = *at;
    waiting_.erase(at);
    const Item& item = one.message.items[0];
    replies.push_back({.connection = one.message.connection, .place = one.message.place});
    replies.back().answers.push_back(is_refused ? refuse(item) : decide(item, Code::kOk));
    return true;
  }
  // Its process ends.
  void be_killed() {
    end_connection();
    waiting_.clear();
  }
  // A minute passes, or all processes die. False: the session's connection is there.
  bool forget_session() {
    if (connection_ != 0) return false;
    is_known_ = false;
    records_.clear();
    make_places();
    ++sessions_forgotten;
    return true;
  }
  void see_end(int connection) {
    if (connection == connection_) end_connection();
  }

  std::map<uint64_t, kv::wire::TakenAnswer> decided;  // By id; not of conditions.
  std::vector<Reply> replies;
  ModelDrafts drafts;
  std::string trouble;  // The first thing that may not be.
  int sessions_forgotten = 0;
  [[nodiscard]] size_t records() const { return records_.size(); }

 private:
  struct Record {
    uint16_t place = 0;
    kv::wire::TakenAnswer answer{};
  };
  struct Waiting {
    uint64_t number = 0;
    uint32_t tag = 0;
    Message message;
  };

  void refuse_it(const std::string& what) {
    if (trouble.empty()) trouble = what;
  }
  void make_places() {
    free_places_.clear();
    for (size_t i = 0; i < kRecordsMax; ++i) free_places_.push_back(static_cast<uint16_t>(i));
  }
  void end_connection() {
    if (broken_ != BrokenOwner::kDraftsOutliveConnection) drafts.end_of(connection_);
    connection_ = 0;
    bars_.clear();
    if (broken_ != BrokenOwner::kWaitingOutlivesConnection) waiting_.clear();
    if (broken_ == BrokenOwner::kRecordsEndWithConnection) records_.clear();
  }

  void answer_session(const Message& message) {
    Reply reply{.connection = message.connection, .place = message.place};
    const bool is_resumed = message.what == client::NumberedCall::What::kResume;
    if (is_resumed && (!is_known_ || message.session.id != id_)) {
      reply.code = Code::kInvalidated;
    } else {
      if (!is_resumed) {
        is_known_ = true;
        records_.clear();
        make_places();
        ++id_;
      }
      end_connection();
      connection_ = message.connection;
      reply.session = {.id = id_, .secret = {}, .functions = kFunctions, .reserved = 0};
    }
    replies.push_back(std::move(reply));
  }

  void acknowledge(const kv::wire::Acknowledged& one) {
    const auto found =
        broken_ == BrokenOwner::kAcknowledgesByPlaceAlone
            ? std::ranges::find_if(records_, [&](const auto& row) { return row.second.place == one.place(); })
            : records_.find(one.number());
    if (found == records_.end() || found->second.place != one.place()) return;
    free_places_.push_back(one.place());
    records_.erase(found);
  }

  void check_form(const Message& call) {
    size_t barred = 0;
    for (const auto& [tag, bar] : bars_) barred += bar.size();
    if (barred > 1'024) refuse_it("more numbers in bars than a connection may have");
    if (const std::string wrong = call.trouble(); !wrong.empty()) refuse_it(wrong);
  }

  // What cannot be executed now.
  [[nodiscard]] kv::wire::TakenAnswer refuse(const Item& item) {
    if (item.tag != 0 && item.number != 0) {
      std::set<uint64_t>& bar = bars_[item.tag];
      if (broken_ != BrokenOwner::kBarOfOne || bar.empty()) bar.insert(item.number);
    }
    return Reply::plain(Code::kOverloaded);
  }
  void lift(uint32_t tag, uint64_t number) {
    const auto bar = bars_.find(tag);
    if (bar == bars_.end()) return;
    bar->second.erase(number);
    if (bar->second.empty()) bars_.erase(bar);
  }

  // Nothing: it waits.
  [[nodiscard]] std::optional<kv::wire::TakenAnswer> look(const Item& item, bool may_wait,
                                                          const Chances& chances) {
    const auto bar = bars_.find(item.tag);
    const bool is_behind =
        item.tag != 0 && bar != bars_.end() && (item.number == 0 || *bar->second.begin() != item.number);
    if (is_behind && broken_ != BrokenOwner::kNoBar) return refuse(item);
    if (may_wait && prng_.chance(chances.waits)) {
      if (item.tag != 0 && item.number != 0) bars_[item.tag].insert(item.number);
      return std::nullopt;
    }
    const bool is_full = item.number != 0 && free_places_.empty();
    if (is_full || prng_.chance(chances.refuses)) return refuse(item);
    return decide(item, prng_.chance(chances.fails) ? Code::kInvalidArgument : Code::kOk);
  }

  // An outcome, with its record; a condition has none.
  [[nodiscard]] kv::wire::TakenAnswer decide(const Item& item, Code code) {
    if (item.draft != 0 && !drafts.has(item.draft, connection_)) code = Code::kInvalidated;
    const uint64_t id = item.id;
    keep_order(item);
    lift(item.tag, item.number);
    kv::wire::TakenAnswer answer = Reply::plain(code);
    answer.answer.version = id;
    if (item.number == 0) return answer;
    if (free_places_.empty()) return refuse(item);
    if (decided.contains(id)) refuse_it("decided twice: " + std::to_string(id));
    const bool has_record = code == Code::kOk || broken_ != BrokenOwner::kErrorsLeaveNoRecord;
    if (has_record) {
      answer.answer.place = free_places_.back();
      free_places_.pop_back();
      records_[item.number] = {.place = answer.answer.place, .answer = answer};
    }
    drafts.end(item.draft);
    return decided[id] = answer;
  }
  void keep_order(const Item& item) {
    if (item.tag == 0) return;
    const uint64_t id = item.id;
    uint64_t& last = last_of_tag_[item.tag];
    if (id < last) refuse_it("decided behind a younger one: " + std::to_string(id));
    last = std::max(last, id);
  }

  [[nodiscard]] kv::wire::TakenAnswer withdraw(const Item& item) {
    const auto record = records_.find(item.number);
    if (record != records_.end()) {
      auto told = record->second.answer;
      told.answer.flags = kv::wire::OperationAnswer::kToldAgain;
      return told;
    }
    if (broken_ != BrokenOwner::kAskingTakesNothingOut) {
      lift(item.tag, item.number);
      const auto waits = std::ranges::find(waiting_, item.number, &Waiting::number);
      if (waits != waiting_.end()) {
        replies.push_back({.connection = waits->message.connection, .place = waits->message.place});
        replies.back().answers.push_back(Reply::plain(Code::kOverloaded));
        waiting_.erase(waits);
      }
    }
    auto answer = Reply::plain(Code::kOk);
    answer.answer.flags = kv::wire::OperationAnswer::kNotExecuted;
    return answer;
  }

  Prng& prng_;
  const BrokenOwner broken_;
  bool is_known_ = false;
  uint64_t id_ = 0;
  int connection_ = 0;  // 0: none has the session.
  std::map<uint64_t, Record> records_;
  std::vector<uint16_t> free_places_;
  std::map<uint32_t, std::set<uint64_t>> bars_;
  std::vector<Waiting> waiting_;
  std::map<uint32_t, uint64_t> last_of_tag_;  // Ids.
};

}  // namespace refract::test
