// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/parts/parts.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/layout/far_part.h"

namespace refract::kv {

Table::Parts::Parts(Table& table, Decisions& decisions)
    : table_(table),
      decisions_(decisions),
      shard_(decisions.shard_at(table.writer_.base())),
      holds_(0, Mixed{.secret = secure_random_u64()}) {
  table_.parts_ = this;
}

Code Table::Parts::refuse_at_once(const TableBatch& batch, const PartOf& from) const noexcept {
  if (!from.is_far() && !decisions_.is_sound(from.name.place)) return Code::kInvalidArgument;
  if (find(from.name) != nullptr) return Code::kInvalidated;
  const auto its_own =
      std::ranges::count_if(parts_, [&](const auto& part) { return part->from.session == from.session; });
  const size_t keys = batch.conditions.size() + batch.writes.size();
  if (from.is_far()) {
    const auto of_home = std::ranges::count_if(parts_, [&](const auto& part) {
      const DecisionPlace place = part->from.name.place;
      return place.is_far() && place.member() == from.name.place.member();
    });
    if (static_cast<size_t>(of_home) >= kPartsOfHome) return Code::kOverloaded;
  }
  const bool is_full = static_cast<size_t>(its_own) >= kPartsOfSession || parts_.size() == kPartsMax ||
                       holds_.size() + keys > kKeysMax;
  return is_full ? Code::kOverloaded : Code::kOk;
}

// Whether the transaction may still be decided for.
Code Table::Parts::look(const TransactionName& name) const noexcept {
  const Decision now = decisions_.look(name.place);
  if (now.number() >> kNumbersShift != name.number >> kNumbersShift) return Code::kInvalidated;
  const bool is_open = now.number() < name.number && !now.is_committed() && !now.is_claimed();
  return is_open ? Code::kOk : Code::kConflict;
}

Result<> Table::Parts::prepare(TableBatch& batch, const PartOf& from) {
  batch.failed = batch.conditions.size() + batch.writes.size();
  if (const Code code = refuse_at_once(batch, from); code != Code::kOk) return fail(code);
  if (from.is_far()) {
    batch.part = &from;
    const Result<> prepared = table_.change_at_once(batch);
    batch.part = nullptr;
    return prepared;
  }
  decisions_.begin_part(from.name.place);
  Code code = look(from.name);
  if (code == Code::kOk) {
    batch.part = &from;
    code = table_.change_at_once(batch).code();
    batch.part = nullptr;
  }
  if (code != Code::kOk) {
    decisions_.end_part(from.name.place);
    return fail(code);
  }
  // All that was prepared before stood in this turn, or the word would say so: a transaction that writes
  // nothing has no other proof of that.
  code = look(from.name);
  if (code == Code::kOk) return {};
  // Where it cannot be told to the log now, it stays until it can.
  (void)end(*parts_.back(), false);
  return fail(code);
}

Result<> Table::Parts::decide(TableBatch& batch, const TransactionName& name, uint64_t not_after_wall_ns,
                              std::optional<uint32_t> member) {
  batch.failed = batch.conditions.size() + batch.writes.size();
  if (!decisions_.is_sound(name.place)) return fail(Code::kInvalidArgument);
  const PartOf home{.name = name,
                    .session = 0,
                    .now_ns = 0,
                    .is_home = true,
                    .not_after_wall_ns = not_after_wall_ns,
                    .member = member};
  batch.part = &home;
  const Result<> decided = table_.change_at_once(batch);
  batch.part = nullptr;
  if (!decided) (void)decisions_.decide(name.place, Decision::aborted(name.number));
  return decided;
}

bool Table::Parts::is_held(const TableBatch& batch) {
  const auto is_read_held = [this](const BatchCondition& one) { return blocks(one.key.hash, false); };
  const auto is_write_held = [this](const BatchWrite& one) { return blocks(one.key.hash, true); };
  return std::ranges::any_of(batch.conditions, is_read_held) ||
         std::ranges::any_of(batch.writes, is_write_held);
}

bool Table::Parts::blocks(uint64_t hash, bool also_marks) {
  return is_held_by(hash, also_marks, [](const Part&) { return true; });
}

// By one of those that the caller asks for; what has been decided is settled on the way.
template <typename IsMeant>
bool Table::Parts::is_held_by(uint64_t hash, bool also_marks, IsMeant is_meant) {
  for (;;) {
    const auto [begin, end] = holds_.equal_range(hash);
    auto held = begin;
    for (; held != end; ++held) {
      if ((also_marks || held->second.is_write) && is_meant(*held->second.part)) break;
    }
    if (held == end) return false;
    if (settle_if_decided(*held->second.part)) continue;
    held->second.part->is_wanted = true;
    return true;
  }
}

bool Table::Parts::may_wait(const TableBatch& batch, uint64_t begun_ns) {
  const auto began_before = [begun_ns](const Part& part) { return part.from.begun_ns <= begun_ns; };
  const auto is_read_in_use = [&](const BatchCondition& one) {
    return is_held_by(one.key.hash, false, began_before);
  };
  const auto is_write_in_use = [&](const BatchWrite& one) {
    return is_held_by(one.key.hash, true, began_before);
  };
  return std::ranges::none_of(batch.conditions, is_read_in_use) &&
         std::ranges::none_of(batch.writes, is_write_in_use) && is_held(batch);
}

void Table::Parts::keep(const TableBatch& batch, std::vector<PendingEntry> writes, Offset record_at) {
  auto part = std::make_unique<Part>();
  part->from = *batch.part;
  part->record_at = record_at;
  if (part->from.is_far()) {
    part->born = far_tick();
    ++far_;
  }
  part->writes = std::move(writes);
  std::vector<std::pair<uint64_t, bool>> keys;
  keys.reserve(batch.conditions.size() + batch.writes.size());
  for (const BatchCondition& one : batch.conditions) keys.emplace_back(one.key.hash, false);
  // A row that changes nothing has read.
  for (const BatchWrite& one : batch.writes) {
    keys.emplace_back(one.key.hash, one.effect() != functions::Effect::kNone);
  }
  parts_.push_back(std::move(part));
  hold(*parts_.back(), std::move(keys));
}

// With each whether it is written.
void Table::Parts::hold(Part& part, std::vector<std::pair<uint64_t, bool>> keys) {
  // Each once; a key that is written as one that is.
  std::ranges::sort(keys, std::greater());
  const auto is_same = [](const auto& one, const auto& other) { return one.first == other.first; };
  keys.erase(std::unique(keys.begin(), keys.end(), is_same), keys.end());
  part.keys.reserve(keys.size());
  for (const auto& [hash, is_write] : keys) {
    holds_.emplace(hash, Hold{.part = &part, .is_write = is_write});
    part.keys.push_back(hash);
  }
  table_.holding_ = this;
}

Table::Parts::Part* Table::Parts::find(const TransactionName& name) const noexcept {
  const auto found = std::ranges::find_if(parts_, [&](const auto& part) { return part->from.name == name; });
  return found == parts_.end() ? nullptr : found->get();
}

Code Table::Parts::settle(const TransactionName& name) {
  Part* const part = find(name);
  if (part == nullptr) return Code::kNotFound;
  if (part->from.is_far()) {
    part->is_demanded = true;
    return end_as(*part, part->fate);
  }
  return end_as(*part, fate_of(*part, decisions_.decide(name.place, Decision::aborted(name.number))));
}

Code Table::Parts::end_as(Part& part, Fate fate) {
  if (fate == Fate::kOpen || !end(part, fate == Fate::kHappened)) return Code::kOverloaded;
  return fate == Fate::kHappened ? Code::kOk : Code::kConflict;
}

// What another shard's transaction changes here is not built upon before its home's log has confirmed it:
// what follows could come to the disk first.
Table::Parts::Fate Table::Parts::fate_of(const Part& part, Decision decision) const noexcept {
  const TransactionName& name = part.from.name;
  if (decision.commits(name.number)) {
    const bool waits = decision.is_unconfirmed() && name.place.shard() != shard_ && part.is_logged;
    return waits ? Fate::kOpen : Fate::kHappened;
  }
  if (decision.is_claimed()) return decision.number() <= name.number ? Fate::kOpen : Fate::kNever;
  // Of a range one number commits at most.
  const bool is_of_range = decision.number() >> kNumbersShift == name.number >> kNumbersShift;
  if (decision.is_committed() && is_of_range) return Fate::kNever;
  return decision.number() < name.number ? Fate::kOpen : Fate::kNever;
}

size_t Table::Parts::settle_of(uint64_t session) {
  std::vector<TransactionName> names;
  for (const auto& part : parts_) {
    if (part->from.session == session) names.push_back(part->from.name);
  }
  for (const TransactionName& name : names) (void)settle(name);
  return names.size();
}

size_t Table::Parts::settle_overdue(const Overdue& overdue) {
  std::vector<TransactionName> names;
  for (const auto& part : parts_) {
    // Its client decides when the log has confirmed it.
    if (part->position != 0 && has_confirmed(part->position)) {
      part->position = 0;
      part->slack_ns = 2 * (overdue.now_ns - std::min(overdue.now_ns, part->from.now_ns));
      part->from.now_ns = overdue.now_ns;
    }
    if (part->position != 0) continue;
    const uint64_t before_ns = part->is_wanted ? overdue.wanted_before_ns : overdue.all_before_ns;
    if (part->from.now_ns + part->slack_ns < before_ns) names.push_back(part->from.name);
  }
  for (const TransactionName& name : names) (void)settle(name);
  return names.size();
}

bool Table::Parts::settle_if_decided(Part& part) {
  const Fate fate = part.from.is_far() ? part.fate : fate_of(part, decisions_.look(part.from.name.place));
  return fate != Fate::kOpen && end(part, fate == Fate::kHappened);
}

size_t Table::Parts::settle_decided() {
  std::vector<Part*> all;
  all.reserve(parts_.size());
  for (const auto& part : parts_) all.push_back(part.get());
  return static_cast<size_t>(
      std::ranges::count_if(all, [this](Part* part) { return settle_if_decided(*part); }));
}

bool Table::Parts::end(Part& part, bool has_happened) {
  if (part.is_logged && !tell_settled(part.from.name, has_happened)) return false;
  // A kill in the middle ends as this one.
  if (part.record_at) {
    const Fate fate = has_happened ? Fate::kHappened : Fate::kNever;
    table_.writer_.publish(part.record_at.plus(offsetof(FarPart, fate)), static_cast<uint64_t>(fate));
  }
  Settling settling(table_);
  const std::vector<PendingEntry> entries = std::move(part.writes);
  std::vector<Offset> slots;
  slots.reserve(entries.size());
  for (const PendingEntry& entry : entries) {
    const Offset slot_at = settling.slot_of(entry);
    if (has_happened) {
      if (entry.replaced) table_.depart(entry.replaced);
      settling.apply(slot_at, entry);
    } else {
      settling.undo(slot_at, entry);
    }
    slots.push_back(slot_at);
  }
  for (size_t i = 0; has_happened && i < entries.size(); ++i) settling.account(slots[i], entries[i]);
  if (part.record_at) drop_record(part.record_at);
  forget(part);
  release(part);
  for (const PendingEntry& entry : entries) {
    const bool is_gone = has_happened ? entry.is_erasure : !entry.replaced;
    settling.tidy(entry.hash, is_gone, has_happened && !entry.replaced);
  }
  note_recovered();
  return true;
}

// The part goes.
void Table::Parts::release(const Part& part) {
  for (const uint64_t hash : part.keys) {
    const auto [begin, end] = holds_.equal_range(hash);
    const auto held = std::find_if(begin, end, [&](const auto& one) { return one.second.part == &part; });
    if (held != end) holds_.erase(held);
  }
  adopted_ -= part.is_adopted ? 1 : 0;
  far_ -= part.from.is_far() ? 1 : 0;
  std::erase_if(parts_, [&](const auto& one) { return one.get() == &part; });
  if (parts_.empty()) table_.holding_ = nullptr;
  ++ended_;
}

const Trailer& Table::Parts::trailer_of(Slot slot) const noexcept {
  return table_.writer_.view<Trailer>(slot.buffer().plus(table_.lengths_of(slot).trailer_at()));
}

Slot Table::Parts::standing_of(Slot slot) const noexcept {
  const Lengths lengths = table_.lengths_of(slot);
  if (!lengths.is_pending()) return slot;
  const Trailer& trailer = trailer_of(slot);
  if (!has_happened({.place = {trailer.decision_at}, .number = trailer.number})) return {trailer.replaced};
  return (lengths.flags & Lengths::kTombstone) != 0 ? Slot{} : slot;
}

// Of a far one: as its home was when it was last asked; a read that needs to know waits for that.
bool Table::Parts::has_happened(const TransactionName& name) const noexcept {
  if (!name.place.is_far()) return decisions_.look(name.place).commits(name.number);
  const Part* const part = find(name);
  return part != nullptr && (part->seen == Fate::kHappened || part->seen == Fate::kUnconfirmed);
}

bool Table::Parts::is_counted(Slot slot) const noexcept {
  return !table_.lengths_of(slot).is_pending() || trailer_of(slot).replaced != 0;
}

bool Table::holds(uint64_t hash) noexcept {
  return holding_->blocks(hash);
}

bool Table::is_kept(uint64_t hash) const noexcept {
  return holding_ != nullptr && holding_->keeps(hash);
}

Slot Table::settled(Slot slot) const noexcept {
  return holding_->standing_of(slot);
}

}  // namespace refract::kv
