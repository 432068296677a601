// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/doors/redis/words.h"

namespace refract::doors::redis {
namespace {

// What a browser sends to any port that a page names: nothing of it is to run.
bool is_of_browser(std::string_view name) noexcept {
  return is(name, "post") || is(name, "host:");
}

// A plain SET of a short value.
bool is_to_gather(const Pending& command) noexcept {
  constexpr size_t kValueBytesMax = 2048;
  return command.words.size() == 3 && command.row->is_gathered && command.words[2].size() <= kValueBytesMax;
}

}  // namespace

Session::Session(Store& store, Listener& listener, std::string peer, std::string local)
    : store_(store),
      listener_(listener),
      has_proven_(store.facts.password.empty()),
      id_(store.counts.next_id.fetch_add(1, std::memory_order_relaxed)),
      peer_(std::move(peer)),
      local_(std::move(local)) {
  parser_.set_proven(has_proven_);
}

Session::~Session() {
  REFRACT_CHECK(begun_ == 0);
}

void Session::prove() noexcept {
  has_proven_ = true;
  parser_.set_proven(true);
}

size_t Session::take(std::string_view bytes) {
  size_t taken = 0;
  while (takes_requests() && !is_full()) {
    const RequestParser::Step step = parser_.parse(bytes.substr(taken));
    if (step == RequestParser::Step::kMore) break;
    if (step == RequestParser::Step::kBroken) {
      refuse("ERR " + parser_.error());
      end();
      break;
    }
    if (!parser_.words().empty()) take_request(parser_.words());
    taken += parser_.taken();
  }
  return taken;
}

void Session::take_request(const std::vector<std::string_view>& words) {
  store_.counts.commands.fetch_add(1, std::memory_order_relaxed);
  const Row* const row = row_of(words.front());
  if (row == nullptr && is_of_browser(words.front())) return end();
  if (row == nullptr) return refuse(unknown_command(words));
  if (!has_arity(*row, words.size())) return refuse(wrong_arity(row->name));
  if (!has_proven_ && !row->is_open) return refuse("NOAUTH Authentication required.");
  if (pending_.empty() && row->at_once != nullptr) {
    Call call{.store = store_, .session = *this, .words = words, .reply = {output_, protocol_}};
    if (row->at_once(call)) return;
  }
  line_up(*row, words);
}

// In its place among the others.
void Session::refuse(std::string_view why) {
  if (pending_.empty()) return Reply(output_, protocol_).error(why);
  pending_.push_back(std::make_unique<Pending>());
  Pending& command = *pending_.back();
  command.protocol = protocol_;
  command.has_begun = command.is_over = true;
  command.reply().error(why);
  pending_bytes_ += command.answer.size();
  go_on();
}

void Session::line_up(const Row& row, const std::vector<std::string_view>& words) {
  auto command = std::make_unique<Pending>();
  command->row = &row;
  command->session = this;
  command->protocol = protocol_;
  size_t bytes = 0;
  for (const std::string_view word : words) bytes += word.size();
  command->bytes.reserve(bytes);
  command->words.reserve(words.size());
  for (const std::string_view word : words) {
    const size_t begin = command->bytes.size();
    command->bytes += word;
    command->words.emplace_back(command->bytes.data() + begin, word.size());
  }
  command->kind = row.kind_of == nullptr ? row.kind : row.kind_of(command->words);
  pending_bytes_ += bytes;
  Pending& last = *command;
  pending_.push_back(std::move(command));
  // What concerns the connection alone counts for all that follows.
  if (row.kind == Kind::kLocal) {
    Call call{.store = store_, .session = *this, .words = last.words, .reply = last.reply()};
    last.has_begun = row.at_once(call);
    is_over(last);
  }
  go_on();
}

// In their order: none begins before those in front of it.
bool Session::may_begin(const Pending& command) const {
  if (alls_ > 0 || reads_ > 0) return false;
  const bool has_writes = gathered_ > 0 || !lone_keys_.empty();
  if (command.kind == Kind::kAll) return !has_writes;
  if (command.kind == Kind::kRead) return !has_writes && output_.size() < kUnsentMax;
  // Of one key the later one may not overtake the earlier, whichever way they take.
  if (lone_keys_.contains(command.words[1])) return false;
  return is_to_gather(command) || (gathered_ == 0 && lone_keys_.size() < kLoneWritesMax);
}

// A task that ends at once comes here again: then the loop that runs already sees it.
void Session::go_on() {
  if (std::exchange(is_going_on_, true)) return;
  while (first_waiting_ < pending_.size() && !has_left_) {
    Pending& command = *pending_[first_waiting_];
    if (!command.has_begun) {
      if (!may_begin(command)) break;
      begin(command);
    }
    ++first_waiting_;
    give_replies();
  }
  is_going_on_ = false;
  give_replies();
}

void Session::begin(Pending& command) {
  command.has_begun = true;
  if (command.row->at_once != nullptr) {
    Call call{.store = store_, .session = *this, .words = command.words, .reply = command.reply()};
    if (command.row->at_once(call)) return is_over(command);
  }
  ++begun_;
  reads_ += command.kind == Kind::kRead ? 1 : 0;
  alls_ += command.kind == Kind::kAll ? 1 : 0;
  if (is_to_gather(command)) {
    ++gathered_;
    store_.gathered.push_back(&command);
    return;
  }
  if (command.kind == Kind::kWrite) lone_keys_.insert(command.words[1]);
  store_.shard.spawn(run(*this, command));
}

// Of one that has begun. Its words are not needed any more.
void Session::is_over(Pending& command) {
  command.is_over = true;
  pending_bytes_ += command.answer.size();
  pending_bytes_ -= command.bytes.size();
  command.words = {};
  command.bytes = {};
}

runtime::Task<> Session::run(Session& session, Pending& command) {
  co_await command.row->as_task(session.store_, command);
  --session.begun_;
  session.reads_ -= command.kind == Kind::kRead ? 1 : 0;
  session.alls_ -= command.kind == Kind::kAll ? 1 : 0;
  if (command.kind == Kind::kWrite) session.lone_keys_.erase(command.words[1]);
  session.is_over(command);
  session.go_on();
  session.tell();
}

void Session::tell() noexcept {
  if (has_left_ || !output_.empty() || is_ending_) listener_.has_replies();
}

void Session::end_gathered(std::span<Pending* const> commands) {
  std::vector<Session*> sessions;
  sessions.reserve(commands.size());
  for (Pending* const command : commands) {
    Session& session = *command->session;
    --session.begun_;
    --session.gathered_;
    session.gathered_under_way_ = 0;
    session.is_over(*command);
    sessions.push_back(command->session);
  }
  // Each once, and no command is looked at any more: they go with their replies.
  std::ranges::sort(sessions);
  const auto [rest, end] = std::ranges::unique(sessions);
  sessions.erase(rest, end);
  for (Session* const session : sessions) {
    session->go_on();
    session->tell();
  }
}

void Session::give_replies() {
  while (!pending_.empty() && pending_.front()->is_over) {
    // No reply may stand where another one is missing.
    if (pending_.front()->breaks) return leave();
    const std::string& answer = pending_.front()->answer;
    if (!has_left_) output_ += answer;
    pending_bytes_ -= answer.size();
    pending_.pop_front();
    first_waiting_ -= first_waiting_ > 0 ? 1 : 0;
  }
}

void Session::leave() noexcept {
  has_left_ = true;
  is_ending_ = true;
  std::erase_if(pending_, [](const auto& one) { return !one->has_begun || one->is_over; });
  first_waiting_ = pending_.size();
}

}  // namespace refract::doors::redis
