// SPDX-License-Identifier: Apache-2.0
// Several changes at one moment: docs/design/062-pending-entries.md, whose steps these are.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/functions/text.h"
#include "refract/kv/layout/same_bytes.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/table/table.h"
#include "refract/runtime/fault.h"

namespace refract::kv {
namespace {

// Making room for one write may take away what another adds to; then all is tried again.
constexpr int kTriesForRoom = 4;

constexpr size_t kSumBytesMax = functions::kIntegerTextBytesMax;

using functions::Effect;

int64_t sum_in(const functions::Plan& added) noexcept {
  int64_t sum = 0;
  std::memcpy(&sum, added.answer.data(), sizeof(sum));
  return sum;
}

// So many keys are compared with each other faster than they are sorted.
constexpr size_t kFewWrites = 16;

bool is_same(const TableKey& one, const TableKey& other) noexcept {
  return one.hash == other.hash && std::ranges::equal(one.bytes, other.bytes);
}

// The lowest place of a key that stands in two writes; none: writes.size().
size_t first_repeated(std::span<const BatchWrite> writes) {
  if (writes.size() <= kFewWrites) {
    for (size_t i = 1; i < writes.size(); ++i) {
      for (size_t before = 0; before < i; ++before) {
        if (is_same(writes[before].key, writes[i].key)) return i;
      }
    }
    return writes.size();
  }
  std::vector<uint32_t> order(writes.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto before = [&](uint32_t one, uint32_t other) {
    const TableKey& a = writes[one].key;
    const TableKey& b = writes[other].key;
    if (a.hash != b.hash) return a.hash < b.hash;
    return std::ranges::lexicographical_compare(a.bytes, b.bytes);
  };
  std::ranges::sort(order, before);
  size_t repeated = writes.size();
  for (size_t i = 1; i < order.size(); ++i) {
    if (before(order[i - 1], order[i])) continue;
    repeated = std::min<size_t>(repeated, std::max(order[i - 1], order[i]));
  }
  return repeated;
}

}  // namespace

class Table::BatchTurn {
 public:
  BatchTurn(Table& table, TableBatch& batch)
      : table_(table),
        batch_(batch),
        steps_(batch.writes.size(), &arena_),
        is_alone_(batch.part == nullptr && batch.writes.size() == 1) {}

  [[nodiscard]] Code run() {
    if (const Code code = refuse_at_once(); code != Code::kOk) return code;
    // A batch that is refused makes no room.
    if (const Code code = check_conditions(); code != Code::kOk) return code;
    for (int attempt = 0; attempt < kTriesForRoom; ++attempt) {
      Code code = draft_all();
      // What nothing was taken away from stands as it was looked at.
      const bool is_as_drafted =
          code == Code::kOk && (table_.stats_.removed() == looked_at_ || check_all(code));
      if (is_as_drafted) {
        if (steps_.empty() && batch_.part == nullptr) return Code::kOk;
        if (is_alone_) return change_one();
        // Again: what was evicted for it went into the log, too.
        if (const Code room = room_in_log(); room != Code::kOk) return give_up(fail_at(all(), room));
        if (!place_all()) return give_up(Code::kNoSpace);
        return batch_.part != nullptr && !batch_.part->is_home ? keep() : commit();
      }
      abandon_all();
      if (code != Code::kOk) return code;
    }
    batch_.failed = all();
    return Code::kOverloaded;
  }

 private:
  // Of one write.
  struct Step {
    Draft draft{};
    Offset found_at;  // Where the entry is that it replaces; nowhere: there is none.
    Offset slot_at;   // Where it is pending; nowhere: it is not.
    PendingEntry entry{};
    uint64_t stamp = 0;
    int64_t sum = 0;      // Of an add,
    uint64_t expiry = 0;  // and until when it stands; 0: for ever.
    bool has_draft = false;
  };

  [[nodiscard]] size_t all() const noexcept { return batch_.conditions.size() + batch_.writes.size(); }
  [[nodiscard]] Code fail_at(size_t which, Code code) noexcept {
    batch_.failed = which;
    return code;
  }
  [[nodiscard]] Code fail_write(size_t i, Code code) noexcept {
    return fail_at(batch_.conditions.size() + i, code);
  }

  [[nodiscard]] Code refuse_at_once() {
    const size_t repeated = first_repeated(batch_.writes);
    if (repeated != batch_.writes.size()) return fail_write(repeated, Code::kInvalidArgument);
    if (table_.holding_ != nullptr && table_.holding_->is_held(batch_)) {
      return fail_at(all(), batch_.part != nullptr ? Code::kConflict : Code::kOverloaded);
    }
    return fail_at(all(), room_in_log());
  }
  // At a home whose own items were prepared as well it is the decision alone, which its log has to know.
  [[nodiscard]] bool writes_nothing() const noexcept {
    const bool is_decision_alone = batch_.part != nullptr && batch_.part->is_home && all() == 0;
    return batch_.writes.empty() && !is_decision_alone;
  }
  [[nodiscard]] Code room_in_log() const noexcept {
    if (table_.log_ == nullptr || (writes_nothing() && !is_far())) return Code::kOk;
    if (is_far()) return room_for_far();
    if (is_alone_) {
      const BatchWrite& write = batch_.writes.front();
      return table_.room_in_log(write.key.bytes.size(), write.value.size() + kSumBytesMax);
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < steps_.size(); ++i) bytes += batch_.writes[i].key.bytes.size() + logged_bytes(i);
    return table_.log_->room_for_group(batch_.writes.size(), bytes);
  }
  // Of a function not before its buffer is there.
  [[nodiscard]] size_t logged_bytes(size_t i) const noexcept {
    const Step& step = steps_[i];
    if (batch_.writes[i].kind != WriteKind::kFunction) {
      return std::max(batch_.writes[i].value.size(), kSumBytesMax);
    }
    return step.has_draft ? step.draft.lengths.value_bytes : 0;
  }

  // Keys that are read are told as well, and the home's memory.
  [[nodiscard]] Code room_for_far() const noexcept {
    uint64_t bytes = sizeof(uint64_t);
    for (const BatchCondition& each : batch_.conditions) bytes += each.key.bytes.size();
    for (size_t i = 0; i < steps_.size(); ++i) {
      bytes += 2 * batch_.writes[i].key.bytes.size() + logged_bytes(i);
    }
    return table_.log_->room_for_group(batch_.conditions.size() + 2 * batch_.writes.size() + 1, bytes);
  }

  // --- Room: may evict or sweep other entries, and nothing is visible.

  [[nodiscard]] Code draft_all() {
    copied_bytes_ = 0;
    is_request_given_ = false;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (const Code code = draft(i); code != Code::kOk) return fail_write(i, code);
    }
    return fail_at(all(), draft_record());
  }

  [[nodiscard]] bool is_far() const noexcept { return batch_.part != nullptr && batch_.part->is_far(); }
  [[nodiscard]] Code draft_record() {
    if (!is_far()) return Code::kOk;
    beside_.clear();
    for (const BatchCondition& one : batch_.conditions) beside_.push_back({.key = one.key.bytes});
    // An erasure that finds something is held twice, which does not matter.
    for (const BatchWrite& one : batch_.writes) {
      const Effect effect = one.effect();
      if (effect == Effect::kValue) continue;
      beside_.push_back({.key = one.key.bytes, .is_written = effect == Effect::kErase});
    }
    record_bytes_ = Parts::record_bytes(beside_);
    const TableKey& key = batch_.writes.empty() ? batch_.conditions.front().key : batch_.writes.front().key;
    std::optional<Offset> at = table_.heap_.allocate(record_bytes_);
    if (!at) {
      const Result<Offset> made = table_.make_room(record_bytes_, key, {});
      if (!made) return made.error().code;
      at = *made;
    }
    record_at_ = *at;
    return Code::kOk;
  }

  [[nodiscard]] Code draft(size_t i) {
    const BatchWrite& write = batch_.writes[i];
    Step& step = steps_[i];
    step = {};
    if (write.row != nullptr) {
      if (const Code code = plan_row(write); code != Code::kOk) return code;
    }
    const Effect effect = write.effect();
    if (effect == Effect::kNone || (effect == Effect::kErase && is_alone_)) return Code::kOk;
    const uint16_t flags = is_alone_ ? 0 : Lengths::kPending | Lengths::kBatch;
    if (effect == Effect::kErase) return draft_value(i, {}, 0, flags | Lengths::kTombstone);
    if (write.kind == WriteKind::kAdd) return draft_sum(i, flags);
    if (write.row != nullptr) return draft_row(i, flags);
    return draft_value(i, write.value, write.expires_wall_ns, flags);
  }
  [[nodiscard]] Code draft_sum(size_t i, uint16_t flags) {
    const functions::Plan added = plan_add(batch_.writes[i]);
    if (added.code != Code::kOk) return added.code;
    steps_[i].sum = sum_in(added);
    steps_[i].expiry = added.expires_wall_ns;
    const std::span<const std::byte> text(added.made.data(), added.value_bytes);
    return draft_value(i, text, added.expires_wall_ns, flags);
  }
  [[nodiscard]] Code draft_value(size_t i, std::span<const std::byte> value, uint64_t expires_wall_ns,
                                 uint16_t flags) {
    Step& step = steps_[i];
    const PutOptions options{.expires_wall_ns = expires_wall_ns, .request = request_of(i)};
    const Result<Draft> made = table_.draft(batch_.writes[i].key, value.size(), options, flags);
    if (!made) return made.error().code;
    step.draft = *made;
    step.has_draft = true;
    table_.fill(step.draft, 0, value);
    return Code::kOk;
  }

  [[nodiscard]] RequestId request_of(size_t i) noexcept {
    if (batch_.writes[i].effect() == Effect::kErase || std::exchange(is_request_given_, true)) return {};
    return batch_.request;
  }

  // --- Rows: what they do depends on what is there.

  // kTooLarge, and what makes no sense: the batch is refused. Other errors are the row's own.
  [[nodiscard]] Code plan_row(const BatchWrite& write) noexcept {
    BatchRow& row = *write.row;
    row.met = table_.locate(write.key).slot;
    row.plan = plan_on(write, row.met);
    const functions::Plan& plan = row.plan;
    if (plan.code == Code::kTooLarge) return Code::kTooLarge;
    if (plan.code == Code::kInvalidArgument && plan.answer_bytes == 0) return Code::kInvalidArgument;
    if (write.kind != WriteKind::kFunction) return Code::kOk;
    copied_bytes_ += plan.value_bytes;
    return plan.value_bytes > kRowBytesMax || copied_bytes_ > kRowsBytesMax ? Code::kTooLarge : Code::kOk;
  }
  [[nodiscard]] functions::Plan plan_on(const BatchWrite& write, Slot slot) const noexcept {
    const BatchRow& row = *write.row;
    const functions::Before before = before_in(slot);
    if (write.kind == WriteKind::kFunction) {
      return functions::plan(row.function, write.value, before, now_wall_ns_);
    }
    if (row.if_absent && before.is_there) return {.code = Code::kExists};
    if (row.if_present && !before.is_there) return {.code = Code::kNotFound};
    return {.effect = Effect::kValue,
            .value_bytes = write.value.size(),
            .expires_wall_ns = row.keeps_expiry ? before.expires_wall_ns : write.expires_wall_ns};
  }
  // It was planned on is there still, and by now's time it makes the same of it.
  [[nodiscard]] bool is_as_planned(const BatchWrite& write) const noexcept {
    const BatchRow& row = *write.row;
    const Slot slot = table_.locate(write.key).slot;
    if (slot.bits != row.met.bits) return false;
    const functions::Plan now = plan_on(write, slot);
    return now.code == row.plan.code && now.effect == row.plan.effect &&
           now.value_bytes == row.plan.value_bytes && now.expires_wall_ns == row.plan.expires_wall_ns &&
           now.answer_bytes == row.plan.answer_bytes && now.answer == row.plan.answer &&
           now.made == row.plan.made;
  }
  // Made in front of the buffer, which may take away what it is made of; then all begins again.
  [[nodiscard]] Code draft_row(size_t i, uint16_t flags) {
    const BatchWrite& write = batch_.writes[i];
    const functions::Plan& plan = write.row->plan;
    if (write.kind == WriteKind::kPut) return draft_value(i, write.value, plan.expires_wall_ns, flags);
    made_.resize(plan.value_bytes);
    functions::fill(write.row->function, plan, write.value, before_in(write.row->met), made_);
    return draft_value(i, made_, plan.expires_wall_ns, flags);
  }

  [[nodiscard]] functions::Before before_in(Slot slot) const noexcept {
    if (!is_present(slot)) return {};
    return {.is_there = true, .value = value_of(slot), .expires_wall_ns = table_.expiry_of(slot)};
  }
  [[nodiscard]] functions::Plan plan_add(const BatchWrite& write) const noexcept {
    const functions::Before before = before_in(table_.locate(write.key).slot);
    const auto addend = std::as_bytes(std::span(&write.addend, 1));
    return functions::plan(functions::Function::kAdd, addend, before, now_wall_ns_);
  }
  [[nodiscard]] std::span<const std::byte> value_of(Slot slot) const noexcept {
    const Lengths lengths = table_.lengths_of(slot);
    return {table_.writer_.at(slot.buffer().plus(lengths.value_at())), lengths.value_bytes};
  }

  void abandon_all() {
    if (record_at_) table_.heap_.release(std::exchange(record_at_, {}), record_bytes_);
    for (Step& step : steps_) {
      if (step.has_draft) table_.abandon(step.draft);
      step.has_draft = false;
    }
  }

  // --- Conditions: behind the room, which may have taken away what they are about.

  // False: all holds, but what is added to, or what a row met, is another by now; or `code` says what does
  // not hold.
  [[nodiscard]] bool check_all(Code& code) {
    code = check_conditions();
    if (code != Code::kOk) return false;
    return std::ranges::all_of(batch_.writes, [this](const BatchWrite& write) {
      if (write.row != nullptr) return is_as_planned(write);
      if (write.kind != WriteKind::kAdd) return true;
      const Step& step = steps_[static_cast<size_t>(&write - batch_.writes.data())];
      const functions::Plan now = plan_add(write);
      return now.code == Code::kOk && sum_in(now) == step.sum && now.expires_wall_ns == step.expiry;
    });
  }

  [[nodiscard]] Code check_conditions() {
    looked_at_ = table_.stats_.removed();
    now_wall_ns_ = batch_.looked_wall_ns = table_.clock_.wall_ns();
    batch_.expires_wall_ns = 0;
    if (batch_.part != nullptr && batch_.part->is_restored) return Code::kOk;
    for (size_t i = 0; i < batch_.conditions.size(); ++i) {
      if (const Code code = check(batch_.conditions[i]); code != Code::kOk) return fail_at(i, code);
    }
    return Code::kOk;
  }

  // By one time for all, or two of them could hold at different moments.
  [[nodiscard]] bool is_present(Slot slot) const noexcept {
    if (!slot) return false;
    return !slot.expires() || now_wall_ns_ < table_.expiry_of(slot);
  }
  // What is absent stays so while its key is held, what is there only until it expires.
  void stand_on(Slot slot) noexcept {
    batch_.expires_wall_ns = first_expiry(batch_.expires_wall_ns, table_.expiry_of(slot));
  }
  [[nodiscard]] Code check(const BatchCondition& condition) noexcept {
    if (condition.kind == ConditionKind::kAny) return Code::kOk;
    const TablePlace place = table_.locate(condition.key);
    const bool is_present = this->is_present(place.slot);
    if (condition.kind == ConditionKind::kAbsent) return is_present ? Code::kExists : Code::kOk;
    if (!is_present) return Code::kNotFound;
    stand_on(place.slot);
    if (condition.kind == ConditionKind::kExists) return Code::kOk;
    if (condition.kind == ConditionKind::kVersion) {
      return table_.writer_.load(place.slot.buffer()) == condition.version ? Code::kOk
                                                                           : Code::kVersionMismatch;
    }
    return std::ranges::equal(value_of(place.slot), condition.value) ? Code::kOk : Code::kVersionMismatch;
  }

  // --- One write: its slot's store is the moment.

  [[nodiscard]] Code change_one() {
    BatchWrite& write = batch_.writes.front();
    const Step& step = steps_.front();
    Result<uint64_t> version = 0;
    write.version = 0;
    if (write.effect() == Effect::kNone) return Code::kOk;
    // Again: what was evicted for it went into the log, too.
    const Code room = table_.room_in_log(write.key.bytes.size(), step.draft.lengths.value_bytes);
    if (room != Code::kOk) {
      abandon_all();
      return fail_at(all(), room);
    }
    if (write.effect() == Effect::kErase) {
      version = table_.erase(write.key, 0);
      if (version.code() == Code::kNotFound) version = 0;
    } else {
      version = table_.publish(step.draft, table_.locate(write.key));
      if (!version) abandon_all();
      tell_sum(0);
    }
    if (!version) return fail_write(0, version.error().code);
    write.version = *version;
    return Code::kOk;
  }
  void tell_sum(size_t i) noexcept {
    BatchWrite& write = batch_.writes[i];
    if (write.kind == WriteKind::kAdd) write.sum = steps_[i].sum;
  }

  // --- Pending: those first that can still fail, the new ones.

  // What a killed owner must have again of a part whose home lives on. Its marks have stamps of their own,
  // behind the others.
  void link_record() {
    const uint64_t first_stamp = table_.heap_.next_stamp();
    for (size_t i = 0; i < beside_.size(); ++i) static_cast<void>(table_.heap_.next_stamp());
    table_.parts_->link_record(record_at_, *batch_.part, beside_, first_stamp);
    is_record_linked_ = true;
  }

  [[nodiscard]] bool place_all() {
    group_stamp_ = table_.heap_.next_stamp();
    number_ = batch_.part != nullptr ? batch_.part->name.number : group_stamp_;
    // In a row, so that the number tells them all.
    for (size_t i = 0; i < steps_.size(); ++i) {
      const uint64_t restored = batch_.writes[i].restored_stamp;
      steps_[i].stamp = restored != 0 ? restored : table_.heap_.next_stamp();
    }
    if (is_far()) link_record();
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (find_or_place(i)) continue;
      batch_.failed = batch_.conditions.size() + i;
      return false;
    }
    // New ones have taken free slots, and moved none of these.
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].found_at) place_over(i);
    }
    return true;
  }

  // Where an entry is to be replaced, or a new one. False: there is no line for it.
  [[nodiscard]] bool find_or_place(size_t i) {
    const BatchWrite& write = batch_.writes[i];
    Step& step = steps_[i];
    TablePlace place = table_.locate(write.key);
    // Whatever it makes of it, an error, too.
    if (write.row != nullptr && is_present(place.slot)) stand_on(place.slot);
    if (write.effect() == Effect::kNone) return true;
    step.entry.replaced = place.slot;
    if (place.slot) {
      step.found_at = place.slot_at;
      return true;
    }
    if (write.effect() == Effect::kErase) return true;
    if (!place.slot_at && !table_.link_line(place, write.key.hash)) return false;
    make_pending(i, place.slot_at);
    if (table_.crowds_ != nullptr) [[unlikely]]
      table_.note_stored(write.key);
    return true;
  }
  void place_over(size_t i) {
    const Step& step = steps_[i];
    REFRACT_DCHECK(table_.slot_at(step.found_at).bits == step.entry.replaced.bits);
    if (batch_.writes[i].kind != WriteKind::kPut && is_present(step.entry.replaced)) {
      stand_on(step.entry.replaced);
    }
    // Of several shards only what has happened departs.
    if (batch_.part == nullptr) table_.depart(step.entry.replaced);
    make_pending(i, step.found_at);
  }
  void make_pending(size_t i, Offset slot_at) {
    finish_buffer(i);
    REFRACT_FAULT("kv.batch.before_pending");
    steps_[i].slot_at = slot_at;
    table_.writer_.publish(slot_at, steps_[i].entry.slot.bits);
  }

  void finish_buffer(size_t i) {
    Step& step = steps_[i];
    Writer& writer = table_.writer_;
    const Offset trailer = step.draft.buffer.plus(step.draft.lengths.trailer_at());
    writer.publish(trailer.plus(offsetof(Trailer, number)), number_);
    writer.publish(trailer.plus(offsetof(Trailer, generation)),
                   batch_.part != nullptr ? batch_.part->generation : 0);
    const uint64_t place = batch_.part != nullptr ? batch_.part->name.place.bits : kDecisionAt.value;
    writer.publish(trailer.plus(offsetof(Trailer, decision_at)), place);
    writer.publish(trailer.plus(offsetof(Trailer, replaced)), step.entry.replaced.bits);
    writer.publish(step.draft.buffer, step.stamp);
    batch_.writes[i].version = step.stamp;
    step.entry.hash = step.draft.hash;
    step.entry.is_erasure = batch_.writes[i].effect() == Effect::kErase;
    step.entry.slot = Slot::of({.hash = step.draft.hash,
                                .stamp = step.stamp,
                                .bytes = step.draft.lengths.total_bytes(),
                                .expires = (step.draft.lengths.flags & Lengths::kExpires) != 0,
                                .buffer = step.draft.buffer});
  }

  // What was pending may be held by readers.
  [[nodiscard]] Code give_up(Code code) {
    for (Step& step : steps_) {
      if (!step.slot_at) continue;
      Settling(table_).undo(step.slot_at, step.entry);
      step.has_draft = false;
    }
    for (const Step& step : steps_) {
      if (step.slot_at) Settling(table_).tidy(step.entry.hash, !step.entry.replaced, /*is_new=*/false);
    }
    if (std::exchange(is_record_linked_, false)) {
      table_.parts_->drop_record(std::exchange(record_at_, {}));
    }
    abandon_all();
    return code;
  }

  // --- Decision, and what follows from it.

  // With what the log is told in front of it. False: this number has been decided against.
  [[nodiscard]] bool decide() {
    if (batch_.part != nullptr) {
      if (is_too_late()) return false;
      // What writes nothing leaves nothing that a log would have to know.
      if (writes_nothing()) return table_.parts_->commit_unlogged(batch_.part->name);
      return table_.parts_->commit(batch_.part->name, batch_.part->member, group_stamp_, pending_changes());
    }
    const std::vector<ChangeLog::Change> changes = pending_changes();
    if (!changes.empty()) table_.log_->append_group(number_, changes);
    REFRACT_FAULT("kv.batch.before_decision");
    table_.writer_.publish(kDecisionAt, Decision::committed(number_).bits);
    return true;
  }

  // What it stands on has expired since, here or where another part has looked: nothing is decided on the
  // grounds of what plain readers take for absent.
  [[nodiscard]] bool is_too_late() const noexcept {
    const uint64_t expires_wall_ns = first_expiry(batch_.expires_wall_ns, batch_.part->not_after_wall_ns);
    return expires_wall_ns != 0 && table_.clock_.wall_ns() >= expires_wall_ns;
  }

  [[nodiscard]] Code commit() {
    if (!decide()) {
      batch_.failed = all();
      return give_up(Code::kConflict);
    }
    REFRACT_FAULT("kv.batch.after_decision");
    Settling settling(table_);
    for (const Step& step : steps_) {
      if (!step.slot_at) continue;
      if (step.entry.replaced && batch_.part != nullptr) table_.depart(step.entry.replaced);
      settling.apply(step.slot_at, step.entry);
    }
    // Only now: what a flag says to look for must still be there.
    for (size_t i = 0; i < steps_.size(); ++i) {
      tell(i);
      if (steps_[i].slot_at) settling.account(steps_[i].slot_at, steps_[i].entry);
    }
    for (const Step& step : steps_) {
      const PendingEntry& entry = step.entry;
      if (step.slot_at) settling.tidy(entry.hash, entry.is_erasure, !entry.replaced);
    }
    return Code::kOk;
  }

  // All that is pending, for one group of the log: where that outlives the memory, this is the moment.
  [[nodiscard]] std::vector<ChangeLog::Change> pending_changes() {
    std::vector<ChangeLog::Change> changes;
    if (table_.log_ == nullptr) return changes;
    changes.reserve(steps_.size());
    table_.logged_stamp_ = group_stamp_;
    for (const Step& step : steps_) {
      if (!step.slot_at) continue;
      changes.push_back(table_.change_in(step.draft.buffer, step.stamp));
      table_.logged_stamp_ = step.stamp;
    }
    return changes;
  }

  // What the caller learns, while what was replaced is still there. There is nothing to keep of an erasure of
  // nothing.
  void tell(size_t i) {
    const Step& step = steps_[i];
    BatchWrite& write = batch_.writes[i];
    const Effect effect = write.effect();
    if (effect == Effect::kErase) {
      const Slot old = step.entry.replaced;
      write.version = is_present(old) ? table_.writer_.load(old.buffer()) : 0;
    }
    if (effect == Effect::kNone) write.version = 0;
    tell_sum(i);
    if (!step.slot_at && step.has_draft) table_.abandon(step.draft);
  }

  // The decision comes from elsewhere.
  [[nodiscard]] Code keep() {
    std::vector<PendingEntry> entries;
    entries.reserve(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      tell(i);
      if (steps_[i].slot_at) entries.push_back(steps_[i].entry);
    }
    std::vector<ChangeLog::Change> changes = pending_changes();
    table_.parts_->keep(batch_, std::move(entries), record_at_);
    table_.parts_->tell_prepared(std::move(changes), group_stamp_);
    return Code::kOk;
  }

  Table& table_;
  TableBatch& batch_;
  // What a few writes need, so that short batches take no memory.
  alignas(std::max_align_t) std::array<std::byte, 1024> room_;
  std::pmr::monotonic_buffer_resource arena_{room_.data(), room_.size()};
  std::pmr::vector<Step> steps_;
  const bool is_alone_;
  uint64_t looked_at_ = 0;  // How many entries had been taken away when the conditions were looked at.
  uint64_t now_wall_ns_ = 0;
  uint64_t number_ = 0;
  uint64_t group_stamp_ = 0;  // Of all in the log, below those of the entries.
  Offset record_at_{};        // FarPart's buffer; nowhere: it has none.
  uint64_t record_bytes_ = 0;
  std::vector<Parts::Beside> beside_;
  bool is_record_linked_ = false;
  bool is_request_given_ = false;  // An entry before has it.
  uint64_t copied_bytes_ = 0;      // By functions.
  std::vector<std::byte> made_;    // What a function has made, until it is in its buffer.
};

Result<> Table::change_at_once(TableBatch& batch) {
  const Code code = BatchTurn(*this, batch).run();
  return code == Code::kOk ? Result<>() : fail(code);
}

}  // namespace refract::kv
