// SPDX-License-Identifier: Apache-2.0
// The stream of a member to a directory in Redis: hello, pages of changes, and what ends a report.
#include <fmt/format.h>

#include <algorithm>

#include "refract/object/redis/redis_home.h"

namespace refract::object {

using runtime::Task;
using wire::ChangeKind;
using wire::DirectoryMethod;
using wire::NewsKind;

namespace {

// Each of these that is lost was won by another member.
constexpr int kPageTriesMax = 64;

}  // namespace

Task<Code> RedisHome::hello() {
  const uint64_t run_number = ++run_number_;
  stream_ = 0;
  has_reported_ = false;
  conflicts_.clear();
  for (int tries = 0; tries < kPageTriesMax && !run_.empty(); ++tries) {
    RedisReply reply;
    std::vector<std::string> arguments = words("HMGET", kKey, wire::kStateField, wire::kLingeringField);
    const Outcome asked = co_await say(std::move(arguments), reply);
    if (asked != Outcome::kDone || run_number != run_number_ || !reply.is_list_of(2)) break;
    Step step;
    const std::string& state = reply.items[0].text;
    // Of another run of Redis, and of an earlier list, nothing is believed.
    const bool is_sound = !must_begin_ && step.rows.take_state(state, number_in(reply.items[1].text)) &&
                          step.rows.era().run == run_;
    if (is_sound && is_of_another_list(step.rows)) co_return Code::kVersionMismatch;
    const bool begins = !is_sound || step.rows.era() != era() || step.rows.members() != speaker_.members;
    if (begins) step.rows.begin(speaker_.members, era(), prng_.next());
    step.stamp = state.substr(0, wire::kStateStampBytes);
    step.rows.open_stream(speaker_.self, speaker_.identity);
    step.changes_state = true;
    const Outcome outcome = co_await write(step, true, begins);
    if (outcome == Outcome::kOver || run_number != run_number_) break;
    if (outcome == Outcome::kAgain) continue;
    stream_ = step.rows.stream_of(speaker_.self);
    must_begin_ = false;
    keeping_ = keep_alive(run_number);
    keeping_.start();
    co_return Code::kOk;
  }
  co_return Code::kUnavailable;
}

// A later one, or one that another operator has made.
bool RedisHome::is_of_another_list(const HomeRows& rows) {
  const HomeRows::Era there = rows.era();
  const bool is_another =
      there.list_version == speaker_.list_version && there.list_digest != speaker_.list_digest;
  if (!is_another && there.list_version <= speaker_.list_version) return false;
  std::string what =
      is_another
          ? fmt::format("the directory in {} has another list of version {}", name(), there.list_version)
          : fmt::format("the directory in {} has a list of version {}, and this node has version {}", name(),
                        there.list_version, speaker_.list_version);
  complain(
      {Code::kVersionMismatch, std::move(what),
       "give all nodes the same list; another cluster needs another database: redis://HOST:PORT/NUMBER"});
  return true;
}

Task<Code> RedisHome::changes(Page page, std::vector<Code>& codes) {
  const uint64_t run_number = run_number_;
  if (stream_ == 0) co_return Code::kVersionMismatch;
  std::vector<Order> own;
  Code code = Code::kOk;
  if (!page.changes.empty()) code = co_await say_page(page, codes, own);
  if (code == Code::kOk && page.is_last) code = co_await end_report(own);
  if (code != Code::kOk || !is_live(run_number)) co_return code == Code::kOk ? Code::kUnavailable : code;
  // Not inside of what the caller is in the middle of.
  if (!own.empty()) co_await parts_.shard.sleep_for(0);
  for (const Order& order : own) {
    if (!is_live(run_number)) co_return Code::kUnavailable;
    watcher_->home_ordered(order.method, order.id, order.birth);
  }
  co_return Code::kOk;
}

Task<Code> RedisHome::say_page(Page page, std::vector<Code>& codes, std::vector<Order>& own) {
  std::vector<std::string> ids;
  ids.reserve(page.changes.size());
  for (const Change& change : page.changes) ids.push_back(change.id);
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  for (int tries = 0; tries < kPageTriesMax; ++tries) {
    Step step;
    if (co_await read(step, ids) != Outcome::kDone) co_return Code::kUnavailable;
    codes.clear();
    for (const Change& change : page.changes) codes.push_back(apply(step, change, page.is_report));
    const Outcome outcome = co_await write(step);
    if (outcome == Outcome::kOver) co_return Code::kUnavailable;
    if (outcome == Outcome::kAgain) continue;
    own = std::move(step.own);
    co_return Code::kOk;
  }
  co_return Code::kOverloaded;
}

// As a home that is a member does.
Code RedisHome::apply(Step& step, const Change& change, bool is_report) const {
  HomeTable& table = step.rows.table;
  const std::string& id = change.id;
  const MemberIndex self = speaker_.self;
  const bool is_buried = table.is_buried(id, change.birth);
  switch (change.kind) {
    case ChangeKind::kHolds: {
      const Code code = table.holds(self, id, change.birth, change.parts, change.copies);
      if (code == Code::kOk) {
        step.published.emplace_back(
            id, news_of({.birth = change.birth, .kind = NewsKind::kAppeared, .member = self}, id));
      }
      if (code != Code::kExists) return code;
      ++step.conflicts;
      bury_in(step, id, change.birth);
      return Code::kOk;
    }
    case ChangeKind::kGone:
      table.gone(self, id, change.birth);
      return Code::kOk;
    case ChangeKind::kClaims: {
      const Code code = table.claims(self, id, change.birth, is_report);
      // A report's: it was granted in a directory before this one.
      if (is_report && code == Code::kExists) {
        ++step.conflicts;
        bury_in(step, id, change.birth);
      }
      return code;
    }
    case ChangeKind::kUnclaims:
      table.unclaims(self, id, change.birth);
      return Code::kOk;
    case ChangeKind::kTombstone:
      // Behind the report that named it: all have acknowledged, and the word to forget it was lost.
      if (!is_report && !is_buried) {
        step.own.push_back({.method = DirectoryMethod::kForget, .id = id, .birth = change.birth});
        return Code::kOk;
      }
      if (!is_buried) bury_in(step, id, change.birth);
      if (change.parts.body_bytes == 0) acknowledge(step, id, change.birth, 0);
      return Code::kOk;
    case ChangeKind::kComing:
      table.comes(self, id, change.birth, change.parts);
      return Code::kOk;
    case ChangeKind::kDropped:
      // All had acknowledged, and it was told twice.
      if (!is_buried) {
        step.own.push_back({.method = DirectoryMethod::kForget, .id = id, .birth = change.birth});
        return Code::kOk;
      }
      acknowledge(step, id, change.birth, change.parts.body_bytes);
      return Code::kOk;
    case ChangeKind::kReleases:
      return table.release(self, id, change.birth);
  }
  return Code::kUnsupported;
}

void RedisHome::acknowledge(Step& step, const std::string& id, uint64_t birth, uint64_t holders) const {
  const MemberIndex self = speaker_.self;
  const bool is_last = step.rows.table.acknowledge(self, id, birth);
  step.news.push_back(
      news_of({.birth = birth, .holders = holders, .kind = NewsKind::kDropped, .member = self}, id));
  if (is_last) {
    step.news.push_back(news_of({.birth = birth, .kind = NewsKind::kForget, .member = self}, id));
  }
}

// --- The end of a report ---

Task<Code> RedisHome::end_report(std::vector<Order>& own) {
  const uint64_t run_number = run_number_;
  std::set<HomeTable::Named> drops;
  const Code code = co_await walk(drops);
  for (int tries = 0; code == Code::kOk && tries < kPageTriesMax; ++tries) {
    if (!is_live(run_number)) co_return Code::kUnavailable;
    Step step;
    const std::vector<std::string> none;
    if (co_await read(step, none) != Outcome::kDone) co_return Code::kUnavailable;
    step.rows.table.end_report(speaker_.self);
    step.changes_state = true;
    const Outcome outcome = co_await write(step);
    if (outcome == Outcome::kOver) co_return Code::kUnavailable;
    if (outcome == Outcome::kAgain) continue;
    has_reported_ = true;
    told_.clear();
    for (const auto& [id, birth] : drops) {
      own.push_back({.method = DirectoryMethod::kDrop, .id = id, .birth = birth});
    }
    if (counts_.is_complete) co_await settle_conflicts();
    co_return Code::kOk;
  }
  co_return code == Code::kOk ? Code::kOverloaded : code;
}

// Over all rows: what this member has not repeated it has no more.
Task<Code> RedisHome::walk(std::set<HomeTable::Named>& drops) {
  std::string cursor = "0";
  do {
    RedisReply reply;
    std::vector<std::string> arguments =
        words("HSCAN", kKey, cursor, "MATCH", std::string(1, wire::kRowPrefix) + "*", "COUNT",
              std::to_string(kWalkedAtOnce));
    const Outcome outcome = co_await say(std::move(arguments), reply);
    if (outcome != Outcome::kDone) co_return Code::kUnavailable;
    if (!reply.is_list_of(2) || reply.items[1].items.size() % 2 != 0) co_return Code::kMalformed;
    cursor = std::move(reply.items[0].text);
    std::set<std::string> ids;
    for (size_t i = 0; i < reply.items[1].items.size(); i += 2) {
      const std::string& field = reply.items[1].items[i].text;
      if (field.size() > 1) ids.insert(field.substr(1));
      if (ids.size() < kWalkedAtOnce && i + 2 < reply.items[1].items.size()) continue;
      std::vector<std::string> some(ids.begin(), ids.end());
      const Code code = co_await walk_over(std::move(some), drops);
      if (code != Code::kOk) co_return code;
      ids.clear();
    }
  } while (cursor != "0");
  co_return Code::kOk;
}

Task<Code> RedisHome::walk_over(std::vector<std::string> ids, std::set<HomeTable::Named>& drops) {
  if (ids.empty()) co_return Code::kOk;
  for (int tries = 0; tries < kPageTriesMax; ++tries) {
    Step step;
    if (co_await read(step, ids) != Outcome::kDone) co_return Code::kUnavailable;
    // Of these rows; the state is written at the end of all.
    step.rows.table.end_report(speaker_.self);
    const Outcome outcome = co_await write(step);
    if (outcome == Outcome::kOver) co_return Code::kUnavailable;
    if (outcome == Outcome::kAgain) continue;
    for (HomeTable::Named& named : step.rows.table.unacknowledged(speaker_.self))
      drops.insert(std::move(named));
    for (std::string& id : step.rows.conflicts()) conflicts_.insert(std::move(id));
    co_return Code::kOk;
  }
  co_return Code::kOverloaded;
}

// Of each id one birth stays. REQUIRES: the directory is complete.
Task<> RedisHome::settle_conflicts() {
  const uint64_t run_number = run_number_;
  while (!conflicts_.empty() && is_live(run_number)) {
    const std::string id = *conflicts_.begin();
    const std::vector<std::string> one(1, id);
    Step step;
    if (co_await read(step, one) != Outcome::kDone) co_return;
    for (const auto& [named, birth] : step.rows.table.losers()) {
      ++step.conflicts;
      bury_in(step, named, birth);
    }
    const Outcome outcome = co_await write(step);
    if (outcome == Outcome::kOver) co_return;
    if (outcome == Outcome::kDone) conflicts_.erase(id);
  }
}

}  // namespace refract::object
