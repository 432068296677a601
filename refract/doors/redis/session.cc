// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/session.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/doors/exec/multi.h"
#include "refract/doors/messages/handlers.h"
#include "refract/doors/redis/words.h"
#include "refract/doors/writes/key_write.h"

namespace refract::doors::redis {
namespace {

// What a connection keeps while it has nothing to say.
constexpr size_t kKeptBytes = size_t{16} * 1024;
// Commands that are over, whose memory is used again.
constexpr size_t kSpareMax = 1024;

// What a browser sends to any port that a page names: nothing of it is to run.
bool is_of_browser(std::string_view name) noexcept {
  return is(name, "post") || is(name, "host:");
}

// Its reply stands there from that place on, or there is none.
void count_end(CommandTallies& tallies, Replies& replies, size_t begin, uint64_t took_ns) {
  tallies.calls.fetch_add(1);
  if (took_ns != 0) tallies.ns.fetch_add(took_ns);
  const std::string& text = replies.text();
  if (begin < text.size() && text[begin] == '-') tallies.failed.fetch_add(1);
}

// What is behind it in its key waits for its end.
bool holds_key(const Pending& command) noexcept {
  return command.is_by_itself || command.row->write->may_come_back;
}

}  // namespace

Session::Session(Store& store, Listener& listener, std::string peer, std::string local)
    : store_(store),
      listener_(listener),
      has_proven_(store.facts.password.empty()),
      is_stranger_(!has_proven_),
      begun_ns_(store.shard.now_ns()),
      last_heard_ns_(begun_ns_),
      id_(store.common.next_id.fetch_add(1, std::memory_order_relaxed)),
      peer_(std::move(peer)),
      local_(std::move(local)) {
  parser_.set_proven(has_proven_);
}

Session::~Session() {
  store_.common.board.leave_all(store_.place, *this);
  REFRACT_CHECK(begun_ == 0);
}

void Session::prove() noexcept {
  has_proven_ = true;
  is_stranger_ = false;
  parser_.set_proven(true);
}

Multi& Session::make_multi() {
  if (multi_ == nullptr) multi_ = std::make_unique<Multi>();
  return *multi_;
}

void Session::forget_proof() noexcept {
  has_proven_ = false;
  parser_.set_proven(false);
}

void Session::take(std::string_view came) {
  last_heard_ns_ = store_.shard.now_ns();
  if (!kept_.empty()) {
    kept_ += came;
    return take_kept();
  }
  kept_ = came.substr(take_requests(came));
  if (has_open_word_) fill_long_word();
}

void Session::take_kept() {
  if (kept_.empty() || has_open_word_) return;
  kept_.erase(0, take_requests(kept_));
  if (has_open_word_) return fill_long_word();
  if (kept_.capacity() > 4 * kept_.size() + kKeptBytes) kept_.shrink_to_fit();
}

// What stands at a long word's place is the word's; what is behind it stands behind what is before it then.
void Session::fill_long_word() {
  const std::span<char> room = long_words_.back().room();
  const std::string_view of_word = std::string_view(kept_).substr(parser_.taken(), room.size());
  const size_t bytes = of_word.size();
  std::ranges::copy(of_word, room.begin());
  kept_.erase(parser_.taken(), bytes);
  long_room_filled(bytes);
}

std::span<char> Session::long_room() const noexcept {
  return has_open_word_ ? long_words_.back().room() : std::span<char>();
}

void Session::long_room_filled(size_t bytes) {
  LongWord& word = long_words_.back();
  word.filled(bytes);
  if (!word.room().empty()) return;
  has_open_word_ = false;
  parser_.put_long(word.text());
  take_kept();
}

// The value of a SET goes into the store from where it is received. What a client announces and never sends
// may not fill the machine, or hold up others while its memory is made: of larger and of many ones the memory
// comes with the bytes. Each is counted as much, since it has a descriptor, too.
void Session::begin_long_word(std::string_view request) {
  constexpr size_t kReservedMin = size_t{64} * 1024;
  constexpr size_t kReservedMax = size_t{4} << 20;
  constexpr size_t kReservedCost = size_t{1} << 20;
  constexpr size_t kReservedMaxOfAll = size_t{256} << 20;
  const size_t bytes = parser_.long_bytes();
  has_open_word_ = true;
  const bool is_value = parser_.long_place() == 2 && is(parser_.first_word(request), "set");
  const size_t cost = std::max(bytes, kReservedCost);
  if (is_value && store_.client != nullptr && bytes >= kReservedMin && bytes <= kReservedMax &&
      store_.reserved_bytes + cost <= kReservedMaxOfAll) {
    Result<Reservation> reservation = store_.client->reserve(bytes);
    if (reservation) {
      long_words_.emplace_back(std::move(*reservation), store_.reserved_bytes, cost);
      return;
    }
  }
  long_words_.emplace_back(bytes);
}

// Returns how many bytes those that are whole had. Stops where a long word begins, too.
size_t Session::take_requests(std::string_view bytes) {
  size_t taken = 0;
  uint64_t count = 0;
  store_.times_all = store_.common.slow_log.wants_short_ones();
  while (takes_requests() && !is_full()) {
    const RequestParser::Step step = parser_.parse(bytes.substr(taken));
    if (step == RequestParser::Step::kMore) break;
    if (step == RequestParser::Step::kLong) {
      begin_long_word(bytes.substr(taken));
      break;
    }
    if (step == RequestParser::Step::kBroken) {
      refuse("ERR " + parser_.error());
      end();
      break;
    }
    if (!parser_.words().empty()) take_request(parser_.words());
    ++count;
    long_words_.clear();
    taken += parser_.taken();
  }
  if (count > 0) store_.counts.commands.fetch_add(count);
  has_stopped_ = is_full();
  return taken;
}

void Session::take_request(const std::vector<std::string_view>& words) {
  if (has_no_reply_) {
    skips_ = std::exchange(skips_next_, false);
    has_no_reply_ = is_off_ || skips_;
  }
  // Mostly it is the same as the last one.
  if (store_.last_row == nullptr || words.front() != store_.last_name) {
    store_.last_row = row_of(words.front());
    store_.last_name = store_.last_row == nullptr ? std::string_view() : words.front();
    store_.last_tallies = store_.last_row == nullptr ? nullptr : &tallies_of(*store_.last_row);
  }
  const Row* row = store_.last_row;
  CommandTallies* tallies = store_.last_tallies;
  if (row == nullptr && is_of_browser(words.front())) return end();
  if (row == nullptr) return refuse(refused(*this, row, unknown_command(words)));
  if (row->subcommands != nullptr && words.size() > 1) {
    const Row* const of_word = subrow_of(*row, words[1]);
    if (of_word == nullptr) return refuse(refused(*this, row, unknown_subcommand(*row, words[1])));
    row = of_word;
    tallies = &tallies_of(*row);
  }
  last_row_ = row;
  const auto reject = [&](std::string_view why) {
    tallies->rejected.fetch_add(1);
    refuse(why);
  };
  if (!has_arity(*row, words.size())) return reject(refused(*this, row, wrong_arity(row->name)));
  if (!has_proven_ && !row->is_open) return reject("NOAUTH Authentication required.");
  if (is_subscribed() && protocol_ == Protocol::kResp2 && !runs_while_subscribed(*row)) {
    return reject(not_while_subscribed(*row));
  }
  if (store_.client == nullptr && !runs_while_loading(*row) && store_.loading.is_so()) {
    return reject(refused(*this, row, "LOADING Redis is loading the dataset in memory"));
  }
  const Row* const called = row_to_run(*this, *row);
  // What is queued counts when it runs.
  if (called != row) tallies = nullptr;
  row = called;
  const bool is_held = store_.common.pause.holds(*row, now_ns());
  if (!is_held && pending_.empty() && row->at_once != nullptr && !has_no_reply_ && has_node_for(*row)) {
    const size_t begin = output_.text().size();
    Call call{.store = store_, .session = *this, .words = words, .reply = {output_, protocol_}};
    const bool is_done = is_timed(words) ? run_at_once(*row, call) : row->at_once(call);
    if (is_done && tallies != nullptr) count_end(*tallies, output_, begin, 0);
    if (is_done) return;
  }
  line_up(*row, words, {.tallies = tallies, .is_held = is_held});
}

bool Session::run_at_once(const Row& row, Call& call) {
  if (!is_timed(call.words)) return row.at_once(call);
  const uint64_t begun_ns = store_.shard.refresh_now();
  if (!row.at_once(call)) return false;
  store_.shard.refresh_now();
  note_time(row, call.words, begun_ns);
  return true;
}

// What those have in their words that are open to strangers is not written down: passwords.
void Session::note_time(const Row& row, Words words, uint64_t begun_ns) {
  SlowLog& log = store_.common.slow_log;
  const uint64_t now_ns = store_.shard.now_ns();
  const uint64_t took_ns = now_ns - std::min(begun_ns, now_ns);
  if (!log.is_slow(took_ns) || row.is_open) return;
  log.add(words, {.at_s = store_.shard.clock().wall_ns() / kSecond_ns,
                  .took_us = took_ns / kMicrosecond_ns,
                  .words = {},
                  .client = peer_,
                  .client_name = name_});
}

void Session::note_end(Pending& command) {
  const bool is_timed = command.begun_ns != 0;
  if (is_timed) note_time(*command.row, command.words, command.begun_ns);
  const uint64_t took_ns = is_timed ? now_ns() - std::min(command.begun_ns, now_ns()) : 0;
  if (command.tallies != nullptr) count_end(*command.tallies, command.answer, 0, took_ns);
}

void Session::set_replying(Replying wanted) noexcept {
  if (wanted == Replying::kNotNext) {
    skips_next_ = !is_off_;
  } else {
    is_off_ = wanted == Replying::kOff;
    skips_ = skips_next_ = false;
  }
  has_no_reply_ = is_off_ || skips_ || skips_next_;
}

// In its place among the others.
void Session::refuse(std::string_view why) {
  if (pending_.empty() && !has_no_reply_) return Reply(output_, protocol_).error(why);
  Pending& command = add_pending();
  command.has_begun = command.is_over = true;
  command.reply().error(why);
  pending_bytes_ += command.answer.bytes();
  go_on();
}

// One that is held by a pause waits as all others do, and nothing behind it is taken.
void Session::line_up(const Row& row, const std::vector<std::string_view>& words, const LinedUp& how) {
  Pending& last = add_pending();
  last.row = &row;
  last.tallies = how.tallies;
  last.take(words, std::move(long_words_));
  last.kind = row.kind_of == nullptr ? row.kind : row.kind_of(last.words);
  take_along(*this, last);
  last.is_by_itself = last.kind == Kind::kWrite && goes_by_itself(last);
  pending_bytes_ += last.words_bytes;
  is_held_back_ = holds_others_back(row);
  is_held_up_ = is_held_up_ || how.is_held;
  // What concerns the connection alone counts for all that follows.
  if (row.kind == Kind::kLocal && !how.is_held) {
    Call call{.store = store_, .session = *this, .words = last.words, .reply = last.reply()};
    last.has_begun = run_at_once(row, call);
    // It may have been what the client asked for.
    last.is_mute = has_no_reply_;
    is_over(last);
  }
  go_on();
}

Pending& Session::add_pending() {
  if (store_.spare.empty()) store_.spare.push_back(OwnPending(new Pending));
  pending_.push_back(std::move(store_.spare.back()));
  store_.spare.pop_back();
  Pending& last = *pending_.back();
  last.session = this;
  last.protocol = protocol_;
  last.is_mute = has_no_reply_;
  return last;
}

// What needs the node waits until there is one.
bool Session::has_node_for(const Row& row) const noexcept {
  if (store_.client != nullptr || row.kind == Kind::kLocal) return true;
  return runs_while_loading(row) && (store_.loading.is_so() || !waits_for_node(row));
}

// In their order: none begins before those in front of it.
bool Session::may_begin(const Pending& command) const {
  if (alls_ > 0 || reads_ > 0 || !has_node_for(*command.row)) return false;
  if (store_.common.pause.holds(*command.row, now_ns())) return false;
  const bool has_writes = operations_ > 0 || !held_keys_.empty();
  // What replies may be long waits for room.
  if (command.kind != Kind::kWrite) return !has_writes && output_.bytes() < kUnsentMax && !is_stalled_;
  if (!held_keys_.empty() && held_keys_.contains(command.words[1])) return false;
  return !command.is_by_itself || (operations_ == 0 && lone_writes_ < kLoneWritesMax);
}

// What ends at once comes here again: then the loop that runs already sees it.
void Session::go_on() {
  if (std::exchange(is_going_on_, true)) return;
  for (;;) {
    give_replies();
    if (!pending_.empty() && pending_.front()->came_back) begin_again(*pending_.front());
    if (first_waiting_ == pending_.size() || has_left_) break;
    Pending& command = *pending_[first_waiting_];
    if (!command.has_begun) {
      if (!may_begin(command)) break;
      if (!begin(command)) continue;
    }
    ++first_waiting_;
  }
  is_going_on_ = false;
  give_replies();
}

bool Session::begin(Pending& command) {
  if (command.row->at_once != nullptr) {
    command.has_begun = true;
    Call call{.store = store_, .session = *this, .words = command.words, .reply = command.reply()};
    const bool holds_back = is_held_back_ && &command == pending_.back().get();
    const bool is_done = run_at_once(*command.row, call);
    // What confirms subscriptions is a message, and no reply.
    if (holds_back) command.is_mute = has_no_reply_ && !changes_subscriptions(*command.row);
    is_held_back_ = is_held_back_ && !holds_back;
    if (is_done) {
      is_over(command);
      return true;
    }
  }
  command.begun_ns = store_.shard.now_ns();
  if (command.kind == Kind::kWrite && !command.is_by_itself) return begin_operation(command);
  command.has_begun = true;
  ++begun_;
  hold(command);
  store_.shard.spawn(run(*this, command));
  return true;
}

bool Session::begin_operation(Pending& command) {
  if (!command.row->write->plan(store_, command)) {
    command.has_begun = true;
    is_over(command);
    return true;
  }
  command.operation.tag = tag();
  // Why it is not taken is found again, or there is another way.
  command.is_by_itself = command.call.begin(store_, command) != Code::kOk;
  if (command.is_by_itself) return false;
  command.has_begun = true;
  ++begun_;
  hold(command);
  return true;
}

// All before it are over, and those behind it wait.
void Session::begin_again(Pending& command) {
  command.came_back = false;
  store_.shard.spawn(run(*this, command));
}

void Session::hold(const Pending& command) {
  reads_ += command.kind == Kind::kRead ? 1 : 0;
  alls_ += command.kind == Kind::kAll ? 1 : 0;
  if (command.kind != Kind::kWrite) return;
  lone_writes_ += command.is_by_itself ? 1 : 0;
  if (holds_key(command)) {
    held_keys_.insert(command.words[1]);
  } else {
    ++operations_;
  }
}

void Session::release(const Pending& command) {
  reads_ -= command.kind == Kind::kRead ? 1 : 0;
  alls_ -= command.kind == Kind::kAll ? 1 : 0;
  if (command.kind != Kind::kWrite) return;
  lone_writes_ -= command.is_by_itself ? 1 : 0;
  if (holds_key(command)) {
    held_keys_.erase(command.words[1]);
  } else {
    --operations_;
  }
}

// Of one that was under way.
void Session::end(Pending& command) {
  --begun_;
  release(command);
  is_over(command);
}

// Of one that has begun. Its words are not needed any more.
void Session::is_over(Pending& command) {
  command.is_over = true;
  note_end(command);
  pending_bytes_ += command.answer.bytes();
  pending_bytes_ -= command.words_bytes;
  command.drop_words();
}

runtime::Task<> Session::run(Session& session, Pending& command) {
  co_await command.row->as_task(session.store_, command);
  session.store_.shard.refresh_now();
  session.end(command);
  session.go_on();
  session.tell();
}

// Many are told in a turn: replies are given when it is over.
void Session::was_told(Pending& command, const Operated& outcome) noexcept {
  if (store_.told.empty()) store_.shard.refresh_now();
  if (!std::exchange(is_told_, true)) store_.told.push_back(this);
  const bool is_left = outcome.code == Code::kUnsupported || outcome.code == Code::kTooLarge;
  if (!is_left || has_left_) {
    command.row->write->answer(store_, command, outcome.code, outcome.answer());
    return end(command);
  }
  release(command);
  command.kind = Kind::kAll;
  command.came_back = true;
  hold(command);
}

void Session::resume() {
  is_held_up_ = false;
  go_on();
  if (!has_left_) listener_.has_replies();
}

void Session::look_at_told(Store& store) {
  for (size_t i = 0; i < store.told.size(); ++i) {
    Session& session = *store.told[i];
    session.is_told_ = false;
    session.go_on();
    session.tell();
  }
  store.told.clear();
}

void Session::tell() noexcept {
  // Requests that wait for room continue also where no reply is wanted.
  const bool may_continue = has_stopped_ && !is_full();
  if (may_continue) has_stopped_ = false;
  if (has_left_ || !output_.is_empty() || is_ending_ || may_continue) listener_.has_replies();
}

void Session::give_replies() {
  while (!pending_.empty() && pending_.front()->is_over) {
    // No reply may stand where another one is missing.
    if (pending_.front()->breaks) return leave();
    // What is given leaves nothing in it.
    Replies& answer = pending_.front()->answer;
    pending_bytes_ -= answer.bytes();
    if (has_left_ || pending_.front()->is_mute) answer = Replies();
    output_.append(answer);
    if (store_.spare.size() < kSpareMax) {
      pending_.front()->reset();
      store_.spare.push_back(std::move(pending_.front()));
    }
    pending_.pop_front();
    first_waiting_ -= first_waiting_ > 0 ? 1 : 0;
  }
}

void Session::end_behind(const Pending& command) {
  is_ending_ = true;
  REFRACT_CHECK(pending_.front().get() == &command);
  pending_.erase(pending_.begin() + 1, pending_.end());
  first_waiting_ = 1;
  pending_bytes_ = command.words_bytes;
}

void Session::copy_pinned() {
  if (output_.pinned() == 0) return;
  output_.copy_pinned();
  is_stalled_ = true;
}

size_t Session::held_bytes() const noexcept {
  size_t bytes = kept_.capacity() + pending_bytes_ + output_.own_bytes() + parser_.held_bytes();
  // What has left is given back within the next turns.
  if (!has_left_) bytes += subscription_bytes();
  for (const LongWord& word : long_words_) bytes += word.held_bytes();
  if (multi_ != nullptr) bytes += multi_->held_bytes();
  return bytes;
}

// What its owner has refused for now does not wait for a client that has gone; what was executed is told.
void Session::leave() noexcept {
  has_left_ = true;
  is_ending_ = true;
  for (const OwnPending& one : pending_) {
    const bool is_out = one->came_back || (one->call.is_under_way() && one->call.give_up());
    if (is_out) end(*one);
  }
  std::erase_if(pending_, [](const auto& one) { return !one->has_begun || one->is_over; });
  first_waiting_ = pending_.size();
}

void Session::forget() noexcept {
  leave();
  (void)store_.common.board.leave_some(store_.place, *this);
  kept_ = {};
  long_words_.clear();
  has_open_word_ = false;
  if (multi_ != nullptr) multi_->drop();
  output_ = {};
  pending_bytes_ = 0;
  for (const OwnPending& one : pending_) pending_bytes_ += one->words_bytes;
}

}  // namespace refract::doors::redis
