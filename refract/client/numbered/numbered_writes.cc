// SPDX-License-Identifier: Apache-2.0
// What is to be sent; numbered_outcomes.cc has what comes of it.
#include "refract/client/numbered/numbered_writes.h"

#include <algorithm>

#include "refract/base/check.h"

namespace refract::client {

using kv::wire::Acknowledged;
using kv::wire::kAcknowledgedPerCall;
using kv::wire::kOperationsPerCall;
using kv::wire::OperationKind;

namespace {

constexpr unsigned kIndexBits = 8;

size_t bytes_of(const NumberedOperation& operation) noexcept {
  return sizeof(kv::wire::Operation) + operation.key.size() + operation.value.size();
}

size_t answer_bytes_of(OperationKind kind) noexcept {
  return sizeof(kv::wire::OperationAnswer) + kv::wire::answer_bytes_max(kind);
}

// A draft that is begun with room for an expiry, and only that one, is told it.
size_t commit_bytes(const NumberedOperation& operation) noexcept {
  return sizeof(kv::wire::Operation) + (operation.argument != 0 ? sizeof(operation.argument) : 0);
}

// As many acknowledgements find room in a call beside any operation that add() takes.
size_t acknowledged_max(size_t body_bytes_max) noexcept {
  return std::min(kAcknowledgedPerCall, body_bytes_max / 4 / sizeof(Acknowledged));
}

}  // namespace

NumberedWrites::~NumberedWrites() {
  REFRACT_CHECK(writes_ == 0);
}

uint64_t NumberedWrites::bar_of(uint32_t tag, uint64_t number) noexcept {
  return tag != 0 ? tag : number << 32;
}

bool NumberedWrites::is_pending(const Entry& entry) noexcept {
  using What = Entry::What;
  return entry.what == What::kUnderWay || entry.what == What::kRefused || entry.what == What::kInDoubt;
}

size_t NumberedWrites::calls() const noexcept {
  size_t sum = 0;
  for (const size_t count : calls_under_way_) sum += count;
  return sum;
}

size_t NumberedWrites::operation_bytes_max() const noexcept {
  const size_t front =
      sizeof(kv::wire::OperationsRequest) + acknowledged_max(limits_.body_bytes_max) * sizeof(Acknowledged);
  return limits_.body_bytes_max - std::min(front, limits_.body_bytes_max);
}

bool NumberedWrites::is_long(const NumberedOperation& operation) const noexcept {
  return limits_.body_bytes_max != 0 && client::bytes_of(operation) > operation_bytes_max();
}

// A draft's room for an expiry is fixed when it begins, so that none keeps what is there.
bool NumberedWrites::needs_draft(const NumberedWrite& write) const noexcept {
  return write.draft_ == 0 && is_long(write.operation);
}

size_t NumberedWrites::bytes_of(const NumberedWrite& write) const noexcept {
  return write.draft_ != 0 ? commit_bytes(write.operation) : client::bytes_of(write.operation);
}

// Before it was ever connected everything is taken, and looked at then.
Code NumberedWrites::check(const NumberedOperation& operation) const noexcept {
  const bool is_function = operation.kind == OperationKind::kFunction;
  if (is_function && is_functions_known_ && !are_functions_ours_) return Code::kUnsupported;
  const bool may_be_drafted =
      operation.kind == OperationKind::kPut && (operation.flags & kv::wire::Operation::kKeepsExpiry) == 0;
  return is_long(operation) && !may_be_drafted ? Code::kTooLarge : Code::kOk;
}

Code NumberedWrites::add(NumberedWrite& write) {
  REFRACT_DCHECK(write.number_ == 0 && write.operation.kind != OperationKind::kWithdraw);
  if (const Code code = check(write.operation); code != Code::kOk) return code;
  // At a million a second they last for nine years.
  if (last_number_ == kv::wire::kNumberMax) return Code::kOverloaded;
  write.number_ = ++last_number_;
  write.draft_ = 0;
  ++writes_;
  unsent_.add(write);
  return Code::kOk;
}

void NumberedWrites::forget(NumberedWrite& write) noexcept {
  write.number_ = 0;
  write.entry_ = nullptr;
  --writes_;
}

bool NumberedWrites::give_up(NumberedWrite& write) {
  REFRACT_DCHECK(write.number_ != 0);
  if (write.list_ == &telling_) return false;
  const uint64_t bar = bar_of(write.operation.tag, write.number_);
  Entry* const entry = write.entry_;
  (void)end_drafting(write);
  if (write.list_ != nullptr) {
    WriteList::remove(write);
    if (const auto found = bars_.find(bar); found != bars_.end()) look_at_bar(bar, found->second);
  }
  const bool is_at_owner = entry != nullptr && !entry->is_condition &&
                           (write.operation.tag != 0 || entry->what != Entry::What::kRefused);
  if (!is_at_owner) {
    forget(write);
    if (entry == nullptr) return true;
    entry->write = nullptr;
    if (entry->what == Entry::What::kRefused) release(*entry);
    return true;
  }
  if (!entry->is_given_up && entry->what != Entry::What::kInDoubt) want_asking(*entry);
  entry->is_given_up = true;
  return false;
}

void NumberedWrites::leave(NumberedWrite& write) {
  if (write.number_ == 0) return;
  if (write.list_ == &telling_) {
    WriteList::remove(write);
  } else if (give_up(write)) {
    return;
  } else {
    write.entry_->write = nullptr;
  }
  forget(write);
}

const NumberedCall* NumberedWrites::next() {
  if (!is_connected_ || !has_work()) return nullptr;
  if (state_ != Session::kOpen) return next_of_session();
  if (const NumberedCall* const call = next_asking()) return call;
  // What was not executed goes before all that is new, and how it was is not known yet.
  if (in_doubt_ > 0) return nullptr;
  if (const NumberedCall* const call = next_of_bars()) return call;
  return next_new();
}

const NumberedCall* NumberedWrites::next_of_session() {
  if (state_ == Session::kOpening) return nullptr;
  (void)begin_call(Kind::kSession);
  call_.what = session_.id != 0 ? NumberedCall::What::kResume : NumberedCall::What::kBegin;
  state_ = Session::kOpening;
  return &call_;
}

const NumberedCall* NumberedWrites::next_asking() {
  if (count_of(Kind::kAsking) == kAskingCallsMax) return nullptr;
  const auto is_over = [](const Member& one) {
    return one.entry->number != one.number || one.entry->asking != Entry::Asking::kWanted;
  };
  while (!to_ask_.empty() && is_over(to_ask_.back())) to_ask_.pop_back();
  if (to_ask_.empty()) return nullptr;
  Sent& sent = begin_call(Kind::kAsking);
  const size_t each = answer_bytes_of(OperationKind::kWithdraw);
  while (!to_ask_.empty() && sent.count < kOperationsPerCall && room_.answer_bytes >= each &&
         room_.bytes >= sizeof(kv::wire::Operation)) {
    const Member one = to_ask_.back();
    to_ask_.pop_back();
    if (is_over(one)) continue;
    one.entry->asking = Entry::Asking::kUnderWay;
    call_.room[sent.count] = {.number = one.number, .tag = one.entry->tag, .operation = nullptr};
    sent.members[sent.count++] = one;
    room_.answer_bytes -= each;
    room_.bytes -= sizeof(kv::wire::Operation);
  }
  return finish_call();
}

const NumberedCall* NumberedWrites::next_of_bars() {
  if (count_of(Kind::kNew) < kCallsMax) {
    if (const NumberedCall* const call = next_of_bar(due_to_follow_)) return call;
  }
  return count_of(Kind::kFirst) < kWaitingCallsMax ? next_of_bar(due_) : nullptr;
}

// The first of a bar that was refused, alone; or some behind it, when it has an outcome.
const NumberedCall* NumberedWrites::next_of_bar(std::deque<uint64_t>& due) {
  while (!due.empty()) {
    const uint64_t key = due.front();
    due.pop_front();
    const auto found = bars_.find(key);
    if (found == bars_.end() || !found->second.is_due) continue;
    Bar& bar = found->second;
    bar.is_due = false;
    bar.is_under_way = true;
    begin_call(bar.is_passing ? Kind::kNew : Kind::kFirst).bar = key;
    call_.may_wait = !bar.is_passing;
    follow(bar, bar.is_passing ? kOperationsPerCall : 1);
    return finish_call();
  }
  return nullptr;
}

void NumberedWrites::follow(Bar& bar, size_t width) {
  while (!bar.held.is_empty() && sent_->count < width && has_room_for(*bar.held.first())) {
    NumberedWrite& first = *bar.held.first();
    if (needs_draft(first)) return;
    put_into_call(first);
    if (first.operation.kind == OperationKind::kCondition) return;
  }
}

const NumberedCall* NumberedWrites::next_new() {
  if (unsent_.is_empty() || count_of(Kind::kNew) == kCallsMax) return nullptr;
  const size_t most = width();
  const Sent& sent = begin_call(Kind::kNew);
  for (NumberedWrite* write = unsent_.first(); write != nullptr && sent.count < most;) {
    NumberedWrite& one = *write;
    write = WriteList::behind(one);
    const uint32_t tag = one.operation.tag;
    const auto bar = bars_.empty() || tag == 0 ? bars_.end() : bars_.find(tag);
    if (bar != bars_.end()) {
      WriteList::remove(one);
      bar->second.held.add(one);
      continue;
    }
    if (needs_draft(one)) {
      hold_for_draft(one);
      continue;
    }
    if (!has_room_for(one)) break;
    put_into_call(one);
    if (tag == 0 || one.operation.kind != OperationKind::kCondition) continue;
    bars_[tag].is_under_way = true;
    sent_->members[sent_->count - 1].bar = tag;
  }
  return finish_call();
}

// Where a message costs little, half of what there is, so that owner and client work at the same time
// (docs/design/037).
size_t NumberedWrites::width() const noexcept {
  if (!limits_.messages_are_stores) return kOperationsPerCall;
  return std::clamp<size_t>((unsent_.size() + under_way_ + 1) / 2, 1, kOperationsPerCall);
}

NumberedWrites::Sent& NumberedWrites::begin_call(Kind kind) {
  auto free = std::ranges::find(calls_, Kind::kFree, &Sent::kind);
  if (free == calls_.end()) {
    calls_.emplace_back();
    free = calls_.end() - 1;
  }
  sent_ = &*free;
  sent_->kind = kind;
  sent_->bar = 0;
  sent_->count = sent_->acknowledged_count = 0;
  ++calls_under_way_[static_cast<size_t>(kind)];
  call_.what = NumberedCall::What::kOperations;
  call_.may_wait = false;
  call_.count = call_.acknowledged_count = 0;
  call_.place = sent_->generation << kIndexBits | static_cast<uint32_t>(free - calls_.begin());
  if (kind == Kind::kSession) return *sent_;
  const size_t acknowledged = std::min(to_acknowledge_.size(), acknowledged_max(limits_.body_bytes_max));
  for (size_t i = 0; i < acknowledged; ++i) {
    Entry& entry = *to_acknowledge_.back();
    to_acknowledge_.pop_back();
    become(entry, Entry::What::kAcknowledging);
    sent_->acknowledged[i] = &entry;
    call_.acknowledged_room[i] = Acknowledged::of(entry.number, entry.place);
  }
  sent_->acknowledged_count = call_.acknowledged_count = acknowledged;
  // What is acknowledged by this call has no record any more when its operations are looked at.
  const size_t front = sizeof(kv::wire::OperationsRequest) + acknowledged * sizeof(Acknowledged);
  room_ = {.bytes = limits_.body_bytes_max - front,
           .answer_bytes = limits_.answer_bytes_max,
           .numbers = kInHandMax - std::min(kInHandMax, in_hand())};
  return *sent_;
}

bool NumberedWrites::has_room_for(const NumberedWrite& write) const noexcept {
  return bytes_of(write) <= room_.bytes && answer_bytes_of(write.operation.kind) <= room_.answer_bytes &&
         (write.entry_ != nullptr || room_.numbers > 0);
}

void NumberedWrites::put_into_call(NumberedWrite& write) {
  WriteList::remove(write);
  if (write.entry_ == nullptr) {
    write.entry_ = &new_entry(write);
    --room_.numbers;
  }
  Entry& entry = *write.entry_;
  become(entry, Entry::What::kUnderWay);
  room_.bytes -= bytes_of(write);
  room_.answer_bytes -= answer_bytes_of(write.operation.kind);
  call_.room[sent_->count] = {.number = entry.is_condition ? 0 : entry.number,
                              .tag = entry.tag,
                              .operation = &write.operation,
                              .draft = write.draft_};
  sent_->members[sent_->count++] = {.entry = &entry, .number = entry.number};
}

const NumberedCall* NumberedWrites::finish_call() {
  call_.count = sent_->count;
  if (call_.count > 0) return &call_;
  put_acknowledged_back(*sent_);
  release(*sent_);
  return nullptr;
}

NumberedWrites::Sent* NumberedWrites::find(uint32_t place) noexcept {
  const size_t index = place & ((1U << kIndexBits) - 1);
  if (index >= calls_.size()) return nullptr;
  Sent& call = calls_[index];
  return call.kind != Kind::kFree && call.generation == place >> kIndexBits ? &call : nullptr;
}

void NumberedWrites::release(Sent& call) noexcept {
  --calls_under_way_[static_cast<size_t>(call.kind)];
  call.kind = Kind::kFree;
  call.generation = (call.generation + 1) & (UINT32_MAX >> kIndexBits);
}

NumberedWrites::Entry& NumberedWrites::new_entry(NumberedWrite& write) {
  if (free_.empty()) {
    entries_.emplace_back();
    free_.reserve(entries_.size());
    free_.push_back(&entries_.back());
  }
  Entry& entry = *free_.back();
  free_.pop_back();
  entry.number = write.number_;
  entry.write = &write;
  entry.tag = write.operation.tag;
  entry.is_condition = write.operation.kind == OperationKind::kCondition;
  return entry;
}

void NumberedWrites::release(Entry& entry) noexcept {
  become(entry, Entry::What::kFree);
  entry = {};
  free_.push_back(&entry);
}

void NumberedWrites::become(Entry& entry, Entry::What what) noexcept {
  using What = Entry::What;
  pending_ -= is_pending(entry) ? 1 : 0;
  in_doubt_ -= entry.what == What::kInDoubt ? 1 : 0;
  under_way_ -= entry.what == What::kUnderWay ? 1 : 0;
  to_acknowledge_count_ -= entry.what == What::kToAcknowledge ? 1 : 0;
  entry.what = what;
  pending_ += is_pending(entry) ? 1 : 0;
  in_doubt_ += what == What::kInDoubt ? 1 : 0;
  under_way_ += what == What::kUnderWay ? 1 : 0;
  to_acknowledge_count_ += what == What::kToAcknowledge ? 1 : 0;
}

void NumberedWrites::not_sent(uint32_t place) {
  Sent* const call = find(place);
  REFRACT_DCHECK(call != nullptr);
  put_acknowledged_back(*call);
  // From the end, so that they stand in their order again.
  for (size_t i = call->count; i-- > 0;) {
    Entry& entry = *call->members[i].entry;
    if (call->kind == Kind::kAsking) {
      want_asking(entry);
    } else if (call->bar != 0) {
      // One that was not refused is known to be nowhere, too; that it is kept as one costs a place.
      become(entry, Entry::What::kRefused);
      bars_[call->bar].held.add_in_front(*entry.write);
    } else {
      // What this call's making has held behind it: a condition is among it, or a long value.
      if (const auto held = bars_.find(entry.tag); entry.tag != 0 && held != bars_.end()) {
        lift(entry.tag, held->second);
      }
      unsent_.add_in_front(detach(entry));
    }
  }
  if (call->kind == Kind::kSession) state_ = session_.id != 0 ? Session::kKnown : Session::kNone;
  if (call->bar != 0) {
    Bar& bar = bars_[call->bar];
    bar.is_under_way = false;
    look_at_bar(call->bar, bar);
  }
  release(*call);
}

}  // namespace refract::client
