// SPDX-License-Identifier: Apache-2.0
// What comes of what was sent: answers, and the ends of connections and sessions.
#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/client/numbered/numbered_writes.h"

namespace refract::client {

using kv::wire::kPlaceUnknown;
using kv::wire::TakenAnswer;

bool NumberedWrites::answered(uint32_t place, std::span<const TakenAnswer> answers) {
  Sent* const call = find(place);
  if (call == nullptr) return true;
  if (call->kind == Kind::kSession || answers.size() != call->count) return false;
  for (Entry* const entry : std::span(call->acknowledged).first(call->acknowledged_count)) release(*entry);
  bool is_any_refused = false;
  for (size_t i = 0; i < call->count; ++i) {
    const Member& member = call->members[i];
    // It had its outcome by another call.
    if (member.entry->number != member.number || !is_pending(*member.entry)) continue;
    if (call->kind == Kind::kAsking) {
      was_asked(*member.entry, answers[i]);
    } else if (answers[i].code == Code::kOverloaded) {
      is_any_refused = true;
      was_refused(*member.entry);
    } else {
      came(*member.entry, answers[i]);
    }
  }
  continue_bars_of(*call, !is_any_refused);
  const bool was_asking = call->kind == Kind::kAsking;
  release(*call);
  if (was_asking) end_what_cannot_be_sent();
  tell_all();
  return true;
}

void NumberedWrites::refused(uint32_t place, Code code) {
  Sent* const call = find(place);
  if (call == nullptr) return;
  if (call->kind == Kind::kSession) {
    state_ = session_.id != 0 ? Session::kKnown : Session::kNone;
    release(*call);
    if (code == Code::kOverloaded) return;
    const bool is_unknown = session_.id != 0 && code == Code::kInvalidated;
    forget_session();
    if (!is_unknown) end_list(unsent_, code);
    return tell_all();
  }
  put_acknowledged_back(*call);
  for (const Member& member : std::span(call->members).first(call->count)) {
    Entry& entry = *member.entry;
    if (entry.number != member.number || !is_pending(entry)) continue;
    if (code == Code::kOverloaded) {
      call->kind == Kind::kAsking ? want_asking(entry) : was_refused(entry);
    } else {
      end(entry, call->kind == Kind::kAsking ? Code::kIndeterminate : code);
    }
  }
  continue_bars_of(*call, false);
  const bool was_asking = call->kind == Kind::kAsking;
  release(*call);
  if (was_asking) end_what_cannot_be_sent();
  tell_all();
}

// With its outcome, also where that is told again. A draft has gone with it; or the owner had given it up, as
// it may after half a minute.
void NumberedWrites::came(Entry& entry, const TakenAnswer& answer) {
  if (entry.write != nullptr) entry.write->draft_ = 0;
  NumberedOutcome outcome = NumberedOutcome::of(answer);
  if (outcome.code == Code::kInvalidated) outcome.code = Code::kUnavailable;
  finish(entry, outcome, answer.answer.place);
}

void NumberedWrites::was_asked(Entry& entry, const TakenAnswer& answer) {
  if (entry.asking != Entry::Asking::kUnderWay) return;
  if (answer.code == Code::kOverloaded) return want_asking(entry);
  entry.asking = Entry::Asking::kNot;
  if ((answer.answer.flags & kv::wire::OperationAnswer::kNotExecuted) == 0) {
    came(entry, answer);
  } else if (entry.is_given_up || entry.write == nullptr) {
    end(entry, Code::kDeadlineExceeded);
  } else {
    unsent_.add_in_order(detach(entry));
  }
}

// It stays in the owner's bar until it has an outcome, or is withdrawn.
void NumberedWrites::was_refused(Entry& entry) {
  if (entry.what != Entry::What::kUnderWay) return;
  become(entry, Entry::What::kRefused);
  if (entry.is_given_up || entry.write == nullptr) {
    if (entry.tag == 0 || entry.is_condition) end(entry, Code::kDeadlineExceeded);
    return;
  }
  const uint64_t key = bar_of(entry.tag, entry.number);
  Bar& bar = bars_[key];
  bar.held.add_in_order(*entry.write);
  look_at_bar(key, bar);
}

void NumberedWrites::finish(Entry& entry, const NumberedOutcome& outcome, uint16_t place) {
  if (NumberedWrite* const write = std::exchange(entry.write, nullptr)) {
    write->entry_ = nullptr;
    if (write->list_ != nullptr) WriteList::remove(*write);
    tell(*write, outcome);
  }
  if (place == kPlaceUnknown || entry.is_condition) return release(entry);
  entry.place = place;
  entry.asking = Entry::Asking::kNot;
  become(entry, Entry::What::kToAcknowledge);
  to_acknowledge_.push_back(&entry);
}

// Without a record.
void NumberedWrites::end(Entry& entry, Code code) {
  finish(entry, NumberedOutcome::of(code), kPlaceUnknown);
}

// The write is nowhere at the owner.
NumberedWrite& NumberedWrites::detach(Entry& entry) noexcept {
  NumberedWrite& write = *entry.write;
  write.entry_ = nullptr;
  release(entry);
  return write;
}

void NumberedWrites::want_asking(Entry& entry) {
  entry.asking = Entry::Asking::kWanted;
  to_ask_.push_back({.entry = &entry, .number = entry.number});
}

void NumberedWrites::put_acknowledged_back(Sent& call) {
  for (Entry* const entry : std::span(call.acknowledged).first(call.acknowledged_count)) {
    become(*entry, Entry::What::kToAcknowledge);
    to_acknowledge_.push_back(entry);
  }
  call.acknowledged_count = 0;
}

void NumberedWrites::continue_bars_of(const Sent& call, bool is_passing) {
  if (call.bar != 0) continue_bar(call.bar, is_passing);
  for (const Member& member : std::span(call.members).first(call.count)) {
    if (member.bar != 0) continue_bar(member.bar, false);
  }
}

void NumberedWrites::continue_bar(uint64_t key, bool is_passing) {
  const auto found = bars_.find(key);
  if (found == bars_.end()) return;
  Bar& bar = found->second;
  bar.is_under_way = false;
  bar.is_passing = is_passing;
  look_at_bar(key, bar);
}

// Where nothing in it was refused any more, all of it is as what is new.
void NumberedWrites::look_at_bar(uint64_t key, Bar& bar) {
  if (bar.is_under_way) return;
  const NumberedWrite* const first = bar.held.first();
  if (first != nullptr && first->is_drafting_) {
    bar.is_due = false;
    return;
  }
  if (first == nullptr || first->entry_ == nullptr) return lift(key, bar);
  if (!std::exchange(bar.is_due, true)) (bar.is_passing ? due_to_follow_ : due_).push_back(key);
}

void NumberedWrites::lift(uint64_t key, Bar& bar) {
  unsent_.add_all_in_front(bar.held);
  bars_.erase(key);
}

void NumberedWrites::connected(const Limits& limits) {
  REFRACT_DCHECK(!is_connected_);
  is_connected_ = true;
  limits_ = limits;
  end_what_cannot_be_sent();
  tell_all();
}

// The server may be of another release than the one before, or its messages shorter. What is behind such a
// one in its tag does not go without it; so this is looked at when it is known what has been executed.
void NumberedWrites::end_what_cannot_be_sent() {
  if (in_doubt_ > 0) return;
  std::unordered_set<uint32_t> tags;
  for (NumberedWrite* write = unsent_.first(); write != nullptr;) {
    NumberedWrite& one = *write;
    write = WriteList::behind(one);
    const uint32_t tag = one.operation.tag;
    Code code = check(one.operation);
    if (code == Code::kOk && !tags.empty() && tags.contains(tag)) code = Code::kUnsupported;
    if (code == Code::kOk) continue;
    if (tag != 0) tags.insert(tag);
    WriteList::remove(one);
    tell(one, NumberedOutcome::of(code));
  }
}

void NumberedWrites::lost() {
  is_connected_ = false;
  state_ = session_.id != 0 ? Session::kKnown : Session::kNone;
  for (Sent& call : calls_) {
    if (call.kind == Kind::kFree) continue;
    put_acknowledged_back(call);
    release(call);
  }
  // Bars end with their connection, and what was refused and is not under way has no other place.
  std::vector<NumberedWrite*> unsent;
  const auto take_all = [&unsent](WriteList& list) {
    while (!list.is_empty()) {
      unsent.push_back(list.first());
      list.first()->draft_ = 0;
      list.first()->is_drafting_ = false;
      WriteList::remove(*list.first());
    }
  };
  take_all(unsent_);
  for (auto& [key, bar] : bars_) take_all(bar.held);
  bars_.clear();
  due_.clear();
  due_to_follow_.clear();
  to_draft_.clear();
  to_ask_.clear();
  for (NumberedWrite* const write : unsent) {
    if (write->entry_ != nullptr) (void)detach(*write->entry_);
  }
  for (Entry& entry : entries_) {
    if (!is_pending(entry)) continue;
    if (entry.write != nullptr) entry.write->draft_ = 0;
    if (entry.is_condition && entry.write != nullptr) {
      unsent.push_back(&detach(entry));
    } else {
      lose(entry);
    }
  }
  std::ranges::sort(unsent, {}, [](const NumberedWrite* write) { return write->number_; });
  for (NumberedWrite* const write : unsent) unsent_.add(*write);
  tell_all();
}

void NumberedWrites::lose(Entry& entry) {
  // The others that were refused are sent again; this one has been given up.
  if (entry.what == Entry::What::kRefused || entry.is_condition) return end(entry, Code::kDeadlineExceeded);
  become(entry, Entry::What::kInDoubt);
  want_asking(entry);
}

void NumberedWrites::end_unsent(Code code) {
  end_list(unsent_, code);
  tell_all();
}

void NumberedWrites::end_list(WriteList& list, Code code) {
  while (!list.is_empty()) {
    NumberedWrite& one = *list.first();
    WriteList::remove(one);
    tell(one, NumberedOutcome::of(code));
  }
}

void NumberedWrites::opened(uint32_t place, const kv::wire::SessionReply& reply) {
  Sent* const call = find(place);
  if (call == nullptr || call->kind != Kind::kSession) return;
  release(*call);
  session_ = {.id = reply.id, .secret = reply.secret};
  state_ = Session::kOpen;
  is_functions_known_ = true;
  are_functions_ours_ = reply.functions == functions_;
  end_what_cannot_be_sent();
  tell_all();
}

// The memory is another one, or has given the records up.
void NumberedWrites::forget_session() {
  session_ = {};
  state_ = Session::kNone;
  to_ask_.clear();
  to_acknowledge_.clear();
  for (Entry& entry : entries_) {
    if (is_pending(entry)) {
      end(entry, Code::kIndeterminate);
    } else if (entry.what != Entry::What::kFree) {
      release(entry);
    }
  }
}

void NumberedWrites::tell(NumberedWrite& write, const NumberedOutcome& outcome) noexcept {
  write.outcome_ = outcome;
  telling_.add(write);
}

// Each may end others that are about to be told.
void NumberedWrites::tell_all() noexcept {
  while (!telling_.is_empty()) {
    NumberedWrite& one = *telling_.first();
    WriteList::remove(one);
    forget(one);
    const NumberedOutcome outcome = one.outcome_;
    one.told(outcome);
  }
}

}  // namespace refract::client
