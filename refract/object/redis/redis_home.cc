// SPDX-License-Identifier: Apache-2.0
#include "refract/object/redis/redis_home.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "refract/base/log.h"
#include "refract/object/redis/redis_script.h"

namespace refract::object {

using runtime::Task;
using wire::DirectoryMethod;
using wire::NewsKind;

namespace {

// So many words of a member that it is there within the time for which it may be silent.
constexpr uint64_t kWordsWithin = 5;
constexpr uint64_t kReopenPause_ns = 100 * kMillisecond_ns;
// Each of these that is lost was won by another member.
constexpr int kTriesMax = 64;
// As a home that is a member does.
constexpr uint64_t kTellsAgainFor_ns = 10 * kSecond_ns;

// Of the script: "ok", the state, the number of births without a word, that of fields.
constexpr size_t kAnswerParts = 4;

std::string field_of(std::string_view id) {
  return std::string(1, wire::kRowPrefix).append(id);
}

std::optional<DirectoryMethod> order_of(NewsKind kind) noexcept {
  switch (kind) {
    case NewsKind::kDrop:
      return DirectoryMethod::kDrop;
    case NewsKind::kForget:
      return DirectoryMethod::kForget;
    case NewsKind::kAppeared:
      return DirectoryMethod::kAppeared;
    case NewsKind::kDropped:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string news_of(wire::News news, std::string_view id) {
  std::string bytes(reinterpret_cast<const char*>(&news), sizeof(news));
  return bytes.append(id);
}

uint64_t number_in(std::string_view text) noexcept {
  uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? number : 0;
}

RedisHome::RedisHome(const Parts& parts)
    : parts_(parts), prng_(parts.seed), trouble_{Code::kUnavailable, "Redis was not reached yet", ""} {}

RedisHome::~RedisHome() {
  watcher_ = nullptr;
}

void RedisHome::reach(const Speaker& speaker, OutsideHome::Watcher& watcher) {
  speaker_ = speaker;
  watcher_ = &watcher;
  stream_ = 0;
  ++run_number_;
  has_reported_ = must_begin_ = false;
  run_.clear();
  counts_.is_complete = false;
  counts_.unknown.reset();
  // A channel is one for all databases: it has the name of the list.
  channel_ = fmt::format("{}:{}:{:016x}", kKey, speaker.list_version, speaker.list_digest);
  parts_.line.open(channel_, *this);
}

size_t RedisHome::page_bytes_max() const noexcept {
  return 64 * kKiB;
}

void RedisHome::complain(Report why) {
  // However a server words it.
  std::ranges::replace_if(why.what, [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  trouble_ = std::move(why);
  if (std::exchange(told_, trouble_.what) != trouble_.what) log_warn("{}", trouble_.to_line());
}

HomeRows::Era RedisHome::era() const {
  return {.run = run_, .list_version = speaker_.list_version, .list_digest = speaker_.list_digest};
}

// Two words of this member may be under way, each of which may come when the one before it is about to be too
// old; then Redis must hear nothing for as long again. As much again for a clock that is set.
uint64_t RedisHome::unseen_ns() const noexcept {
  return 6 * parts_.silent_after_ns;
}

Report RedisHome::trouble() const {
  if (run_.empty()) return parts_.line.trouble();
  return stream_ != 0 && has_reported_ ? Report{Code::kOk, "", ""} : trouble_;
}

// --- The line ---

void RedisHome::line_opened(const std::string& run) noexcept {
  run_ = run;
  sha_.clear();
  if (run.empty() || run.size() > wire::kRunBytes) {
    parts_.line.drop({Code::kMalformed, name() + " names no run of its own", "is it a Redis?"});
    return;
  }
  watcher_->home_opened();
}

void RedisHome::line_closed() noexcept {
  run_.clear();
  end_stream(false);
}

// The stream's members must hear it from now on: those that have none read it in their walk.
void RedisHome::line_news(std::string_view message) noexcept {
  wire::News news;
  if (message.size() <= sizeof(news) || message.size() > sizeof(news) + kIdBytesMax) return;
  std::memcpy(&news, message.data(), sizeof(news));
  if (stream_ == 0 || news.birth == 0 || news.member >= speaker_.members) return;
  const std::string id(message.substr(sizeof(news)));
  if (news.kind == NewsKind::kDropped) return watcher_->home_heard(news.member, id, news.birth, news.holders);
  if (const auto order = order_of(news.kind)) watcher_->home_ordered(*order, id, news.birth);
}

void RedisHome::end_stream(bool reopens) {
  if (stream_ != 0) ++counts_.streams_ended;
  stream_ = 0;
  ++run_number_;
  has_reported_ = false;
  counts_.is_complete = false;
  watcher_->home_closed();
  std::erase_if(tasks_, [](const Task<>& task) { return task.done(); });
  if (!reopens || run_.empty()) return;
  tasks_.push_back(reopen_later(run_number_));
  tasks_.back().start();
}

Task<> RedisHome::reopen_later(uint64_t run_number) {
  co_await parts_.shard.sleep_for(kReopenPause_ns);
  if (run_number == run_number_ && !run_.empty()) watcher_->home_opened();
}

Task<RedisHome::Outcome> RedisHome::say(std::vector<std::string> arguments, RedisReply& reply) {
  const uint64_t run_number = run_number_;
  reply = co_await parts_.line.call(std::move(arguments));
  if (run_number != run_number_ || reply.kind == RedisReply::Kind::kNone) co_return Outcome::kOver;
  if (reply.kind == RedisReply::Kind::kError && !reply.text.starts_with("NOSCRIPT")) {
    complain(
        {Code::kUnavailable, fmt::format("the directory in {} refuses: {:.160}", name(), reply.text), ""});
  }
  co_return Outcome::kDone;
}

// --- Reading and writing ---

Task<RedisHome::Outcome> RedisHome::read(Step& step, const std::vector<std::string>& ids) {
  const uint64_t run_number = run_number_;
  std::vector<std::string> arguments = words("HMGET", kKey, wire::kStateField, wire::kLingeringField);
  for (const std::string& id : ids) arguments.push_back(field_of(id));
  RedisReply reply;
  if (co_await say(std::move(arguments), reply) != Outcome::kDone) co_return Outcome::kOver;
  if (!reply.is_list_of(ids.size() + 2) || run_number != run_number_) {
    if (run_number == run_number_) end_stream(true);
    co_return Outcome::kOver;
  }
  step.stamp = reply.items[0].text.substr(0, wire::kStateStampBytes);
  const bool is_ours = step.rows.take_state(reply.items[0].text, number_in(reply.items[1].text)) &&
                       step.rows.era() == era() && step.rows.members() == speaker_.members &&
                       step.rows.stream_of(speaker_.self) == stream_ &&
                       (!has_reported_ || step.rows.is_current(speaker_.self));
  bool is_sound = true;
  for (size_t i = 0; i < ids.size() && is_ours && is_sound; ++i) {
    step.was.emplace_back(ids[i], std::move(reply.items[i + 2].text));
    is_sound = step.rows.take_row(ids[i], step.was.back().second);
  }
  if (is_ours && is_sound) co_return Outcome::kDone;
  if (!is_sound) {
    must_begin_ = true;
    complain({Code::kMalformed, fmt::format("a row of {} in {} is none", kKey, name()),
              "something else writes there; the directory is begun again"});
  }
  end_stream(true);
  co_return Outcome::kOver;
}

std::vector<std::string> RedisHome::arguments_of(const Step& step, bool is_hello, bool begins) const {
  std::string others = is_hello ? "hello" : "";
  const HomeTable::MemberSet current = step.rows.current();
  for (size_t i = 0; i < step.rows.members() && !is_hello; ++i) {
    if (current[i] && i != speaker_.self) others += std::to_string(i) + ",";
  }
  std::vector<std::string> arguments{std::string(kKey),
                                     channel_,
                                     now(),
                                     std::to_string(parts_.silent_after_ns / kMillisecond_ns),
                                     std::to_string(speaker_.self),
                                     std::to_string(step.rows.stream_of(speaker_.self)),
                                     step.stamp,
                                     step.changes_state ? step.rows.next_state() : std::string(),
                                     begins ? "1" : "0",
                                     others,
                                     std::to_string(step.rows.lingering_delta())};
  size_t changed = 0;
  std::vector<std::string> rows;
  for (const auto& [id, was] : step.was) {
    std::string is = step.rows.row(id);
    if (is == was) continue;
    ++changed;
    rows.insert(rows.end(), {field_of(id), was, std::move(is)});
  }
  arguments.push_back(std::to_string(changed));
  arguments.insert(arguments.end(), rows.begin(), rows.end());
  arguments.push_back(std::to_string(step.news.size()));
  arguments.insert(arguments.end(), step.news.begin(), step.news.end());
  arguments.push_back(std::to_string(step.published.size()));
  for (const auto& [id, message] : step.published) arguments.insert(arguments.end(), {id, message});
  return arguments;
}

std::string RedisHome::now() const {
  return parts_.by_shard_clock ? std::to_string(parts_.shard.now_ns() / kMillisecond_ns) : std::string();
}

// Nothing that is written, and nothing that it follows from, was changed since it was read.
Task<RedisHome::Outcome> RedisHome::write(Step& step, bool is_hello, bool begins) {
  std::vector<std::string> arguments = arguments_of(step, is_hello, begins);
  const uint64_t run_number = run_number_;
  RedisReply reply;
  if (co_await run_script(std::move(arguments), reply) != Outcome::kDone) co_return Outcome::kOver;
  const std::string word = reply.items.empty() ? std::string() : reply.items[0].text;
  if (word == "ok" && reply.is_list_of(kAnswerParts)) {
    note_answer(reply);
    counts_.conflicts += step.conflicts;
    co_return Outcome::kDone;
  }
  if (word == "again") {
    ++counts_.repeated;
    co_return Outcome::kAgain;
  }
  if (word == "silent" && reply.is_list_of(2)) {
    co_await note_silent(number_in(reply.items[1].text));
    co_return run_number == run_number_ ? Outcome::kAgain : Outcome::kOver;
  }
  if (!is_hello) end_stream(true);
  co_return Outcome::kOver;
}

Task<RedisHome::Outcome> RedisHome::run_script(std::vector<std::string> arguments, RedisReply& reply) {
  const uint64_t run_number = run_number_;
  if (sha_.empty()) {
    std::vector<std::string> load = words("SCRIPT", "LOAD", kWriteScript);
    if (co_await say(std::move(load), reply) != Outcome::kDone) co_return Outcome::kOver;
    if (reply.kind == RedisReply::Kind::kText) sha_ = reply.text;
  }
  const std::vector<std::string> head = words("EVALSHA", sha_, "2");
  arguments.insert(arguments.begin(), head.begin(), head.end());
  if (co_await say(arguments, reply) != Outcome::kDone) co_return Outcome::kOver;
  if (reply.kind == RedisReply::Kind::kError && reply.text.starts_with("NOSCRIPT")) {
    // It was forgotten; this has it remembered.
    arguments[0] = "EVAL";
    arguments[1] = kWriteScript;
    if (co_await say(std::move(arguments), reply) != Outcome::kDone) co_return Outcome::kOver;
  }
  co_return run_number == run_number_ ? Outcome::kDone : Outcome::kOver;
}

// A member of which Redis has heard nothing: its stream has ended.
Task<> RedisHome::note_silent(uint64_t member) {
  Step step;
  const std::vector<std::string> none;
  if (co_await read(step, none) != Outcome::kDone) co_return;
  if (member >= step.rows.members() || !step.rows.is_current(static_cast<MemberIndex>(member))) co_return;
  step.rows.table.close_stream(static_cast<MemberIndex>(member));
  step.changes_state = true;
  (void)co_await write(step);
}

void RedisHome::note_answer(const RedisReply& reply) {
  HomeRows rows;
  if (!rows.take_state(reply.items[1].text, 0) || rows.members() != speaker_.members) return;
  counts_.is_complete = rows.table.is_complete();
  counts_.unknown = rows.table.unknown();
  counts_.streams_begun = 0;
  for (size_t i = 0; i < rows.members(); ++i) {
    counts_.streams_begun += rows.stream_of(static_cast<MemberIndex>(i));
  }
  counts_.home.lingering = counts_.unknown.none() ? 0 : number_in(reply.items[2].text);
  // Beside rows it has the state, the number of births without a word, and a word of each member.
  const auto fields = static_cast<uint64_t>(std::max<int64_t>(reply.items[3].number, 0));
  counts_.home.ids = fields - std::min<uint64_t>(fields, 2 + rows.members());
}

// --- Look-ups and deletes ---

Task<std::optional<HomeTable::Found>> RedisHome::look_up(std::string id, LookUp how) {
  const uint64_t run_number = run_number_;
  const std::vector<std::string> one(1, id);
  if (how.tells_later && stream_ != 0) {
    RedisReply reply;
    // Before the row is read, so that what is published in between is told.
    std::vector<std::string> asked = words("SET", fmt::format("{}:w:{}", kKey, id), "1", "PX",
                                           std::to_string(kTellsAgainFor_ns / kMillisecond_ns));
    const Outcome outcome = co_await say(std::move(asked), reply);
    if (outcome != Outcome::kDone) co_return std::nullopt;
  }
  for (int tries = 0; tries < kTriesMax && is_live(run_number); ++tries) {
    Step step;
    if (co_await read(step, one) != Outcome::kDone) co_return std::nullopt;
    HomeTable::Found found = step.rows.table.look_up(id);
    if (!how.pulls || (found.birth == 0 && found.doubtful.none())) co_return found;
    step.rows.table.comes(speaker_.self, id, found.birth, found.parts);
    const Outcome outcome = co_await write(step);
    if (outcome == Outcome::kDone) co_return found;
    if (outcome == Outcome::kOver) break;
  }
  co_return std::nullopt;
}

Task<OutsideHome::Buried> RedisHome::bury(std::string id, uint64_t birth) {
  const uint64_t run_number = run_number_;
  const std::vector<std::string> one(1, id);
  for (int tries = 0; tries < kTriesMax && is_live(run_number); ++tries) {
    Step step;
    if (co_await read(step, one) != Outcome::kDone) break;
    bury_in(step, id, birth);
    Buried buried{.code = Code::kOk,
                  .missing = step.rows.table.missing(id, birth),
                  .unknown = step.rows.table.unknown()};
    const Outcome outcome = co_await write(step);
    if (outcome == Outcome::kDone) co_return buried;
    // It may have been written, and the answer was lost.
    if (outcome == Outcome::kOver)
      co_return Buried{.code = Code::kIndeterminate, .missing = {}, .unknown = {}};
  }
  co_return Buried{};
}

Task<OutsideHome::Copies> RedisHome::copies(std::string id, uint64_t birth, uint8_t wanted) {
  const uint64_t run_number = run_number_;
  const std::vector<std::string> one(1, id);
  for (int tries = 0; tries < kTriesMax && is_live(run_number); ++tries) {
    Step step;
    if (co_await read(step, one) != Outcome::kDone) break;
    HomeTable& table = step.rows.table;
    const HomeTable::Found found = table.look_up(id);
    Copies copies{.code = Code::kOk, .birth = found.birth, .bound = {}, .current = step.rows.current()};
    if (found.birth == 0) {
      copies.code = found.doubtful.none() ? Code::kNotFound : Code::kUnavailable;
      co_return copies;
    }
    if (birth != 0 && birth != found.birth) {
      copies.code = Code::kVersionMismatch;
      co_return copies;
    }
    const bool is_changed = wanted != wire::CopiesRequest::kAsItIs && table.wish(id, found.birth, wanted);
    copies.bound = table.bound(id, found.birth);
    // Also where nothing is changed: who is silent does not count.
    const Outcome outcome = co_await write(step);
    if (outcome == Outcome::kDone) co_return copies;
    if (outcome == Outcome::kAgain) continue;
    // It may have been written, and the answer was lost.
    copies.code = is_changed ? Code::kIndeterminate : Code::kUnavailable;
    co_return copies;
  }
  co_return Copies{};
}

void RedisHome::bury_in(Step& step, const std::string& id, uint64_t birth) const {
  step.rows.table.bury(id, birth);
  step.news.push_back(news_of({.birth = birth, .kind = NewsKind::kDrop, .member = speaker_.self}, id));
}

// --- Being there ---

Task<> RedisHome::keep_alive(uint64_t run_number) {
  while (is_live(run_number)) {
    co_await parts_.shard.sleep_for(parts_.silent_after_ns / kWordsWithin);
    if (!is_live(run_number)) co_return;
    RedisReply reply;
    // Of no row and no state.
    std::vector<std::string> arguments =
        words(kKey, channel_, now(), std::to_string(parts_.silent_after_ns / kMillisecond_ns),
              std::to_string(speaker_.self), std::to_string(stream_), "*", "", "0", "", "0", "0", "0", "0");
    const Outcome outcome = co_await run_script(std::move(arguments), reply);
    if (outcome != Outcome::kDone || !is_live(run_number)) co_return;
    const bool is_ok = reply.is_list_of(kAnswerParts) && reply.items[0].text == "ok";
    HomeRows rows;
    // Another member has found it silent, if only for a moment.
    if (!is_ok || !rows.take_state(reply.items[1].text, 0) || rows.members() != speaker_.members ||
        (has_reported_ && !rows.is_current(speaker_.self))) {
      end_stream(true);
      co_return;
    }
    note_answer(reply);
    if (counts_.is_complete && !conflicts_.empty()) co_await settle_conflicts();
  }
}

}  // namespace refract::object
