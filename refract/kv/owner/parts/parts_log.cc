// SPDX-License-Identifier: Apache-2.0
// What parts tell a log, and what they wait for of it: docs/design/067.
#include <algorithm>
#include <iterator>

#include "refract/base/check.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/runtime/fault.h"

namespace refract::kv {

bool Table::Parts::commit(const TransactionName& name, std::optional<uint32_t> member, uint64_t group_stamp,
                          std::span<const ChangeLog::Change> changes) {
  if (log_ == nullptr) return commit_unlogged(name);
  // What readers have seen is in the log, and what is in the log happens: so the word is decided behind that,
  // and nothing else decides it meanwhile.
  const Decision claimed = Decision::claimed(name.number);
  if (decisions_.decide(name.place, claimed).bits != claimed.bits) return false;
  REFRACT_FAULT("kv.parts.claimed");
  const DecisionPlace place = member ? name.place.seen_from_afar(*member) : name.place;
  log_->append_decided({.place = place, .number = name.number}, group_stamp, changes);
  REFRACT_FAULT("kv.parts.logged");
  confirm_from(name);
  return true;
}

void Table::Parts::tell_prepared(std::vector<ChangeLog::Change> changes, uint64_t group_stamp) {
  Part& part = *parts_.back();
  if (log_ == nullptr) return;
  const std::vector<ChangeLog::Change> marks = marks_of(part);
  changes.insert(changes.end(), marks.begin(), marks.end());
  if (changes.empty()) return;
  log_->append_prepared(part.from.name, group_stamp, changes);
  table_.logged_stamp_ = changes.back().stamp;
  part.is_logged = true;
  part.position = table_.log_->appended();
}

// The word says that it has happened; once the log has confirmed all that has been appended, for ever.
void Table::Parts::confirm_from(const TransactionName& name) {
  const uint64_t position = log_ != nullptr ? table_.log_->appended() : 0;
  if (log_ == nullptr || has_confirmed(position)) {
    decisions_.replace(name.place, Decision::committed(name.number));
    return;
  }
  decisions_.replace(name.place, Decision::unconfirmed(name.number));
  deciding_.push_back({.position = position, .name = name});
}

// False: not now.
bool Table::Parts::tell_settled(const TransactionName& name, bool has_happened) {
  if (!log_works() || table_.log_->room_for(0, 0) != Code::kOk) return false;
  const uint64_t stamp = table_.heap_.next_stamp();
  table_.logged_stamp_ = stamp;
  log_->append_settled(name, stamp, has_happened);
  REFRACT_FAULT("kv.parts.settled");
  return true;
}

// Its home may forget the transaction when no start from the disk asks for it any more.
void Table::Parts::forget(const Part& part) {
  const DecisionPlace place = part.from.name.place;
  if (!part.is_logged || has_confirmed(table_.log_->appended())) {
    if (!place.is_far()) decisions_.end_part(place);
  } else {
    settled_.push_back({.position = table_.log_->appended(), .name = part.from.name});
  }
}

size_t Table::Parts::on_log_progress() {
  if (log_ == nullptr || !log_works()) return 0;
  size_t done = 0;
  for (; !deciding_.empty() && has_confirmed(deciding_.front().position); deciding_.pop_front(), ++done) {
    const TransactionName& name = deciding_.front().name;
    REFRACT_CHECK(decisions_.look(name.place).bits == Decision::unconfirmed(name.number).bits);
    decisions_.replace(name.place, Decision::committed(name.number));
  }
  for (; !settled_.empty() && has_confirmed(settled_.front().position); settled_.pop_front(), ++done) {
    const DecisionPlace place = settled_.front().name.place;
    if (!place.is_far()) decisions_.end_part(place);
  }
  if (!parts_.empty()) done += settle_decided();
  note_recovered();
  return done;
}

std::vector<TransactionName> Table::Parts::decisions_to_keep() const {
  std::vector<TransactionName> names;
  const bool are_recovered = decisions_.are_recovered();
  for (size_t word = 0; word < kDecisionWords; ++word) {
    const DecisionPlace place = decisions_.place_of(shard_, word);
    const Decision decision = decisions_.look(place);
    const bool is_counted_on = !are_recovered || decisions_.parts(place) != 0;
    if (decision.is_committed() && is_counted_on) names.push_back({place, decision.number()});
  }
  return names;
}

std::vector<Table::Parts::Prepared> Table::Parts::prepared() const {
  std::vector<Prepared> all;
  for (const auto& part : parts_) {
    if (part->writes.empty() && !part->record_at) continue;
    Prepared& one = all.emplace_back(Prepared{.name = part->from.name, .changes = {}});
    for (const PendingEntry& entry : part->writes) {
      const Offset buffer = entry.slot.buffer();
      one.changes.push_back(table_.change_in(buffer, table_.writer_.load(buffer)));
    }
    std::ranges::copy(marks_of(*part), std::back_inserter(one.changes));
    std::ranges::sort(one.changes, {}, &ChangeLog::Change::stamp);
  }
  return all;
}

void Table::Parts::adopt(std::span<const Slot> pending) {
  for (const Slot slot : pending) {
    const Trailer& trailer = trailer_of(slot);
    Part& part = adopted({.place = {trailer.decision_at}, .number = trailer.number}, trailer.generation);
    const uint64_t hash = table_.hash(table_.key_of(slot));
    const bool is_erasure = (table_.lengths_of(slot).flags & Lengths::kTombstone) != 0;
    part.writes.push_back(
        {.slot = slot, .replaced = {trailer.replaced}, .hash = hash, .is_erasure = is_erasure});
    hold(part, {{hash, true}});
  }
  adopt_records();
}

Table::Parts::Part& Table::Parts::adopted(const TransactionName& name, uint64_t generation) {
  if (Part* const known = find(name)) return *known;
  parts_.push_back(std::make_unique<Part>());
  Part& part = *parts_.back();
  part.from.name = name;
  part.from.generation = generation;
  if (part.from.is_far()) {
    // Its session is gone, and the client may still have it decided: only the home knows.
    part.is_demanded = true;
    part.born = far_tick();
    ++far_;
  } else {
    part.is_adopted = true;
    ++adopted_;
    decisions_.begin_part(name.place);
  }
  return part;
}

void Table::Parts::take_up(const std::optional<TransactionName>& decided) {
  for (size_t word = 0; word < kDecisionWords; ++word) {
    const TransactionName name{.place = decisions_.place_of(shard_, word),
                               .number = decisions_.look(decisions_.place_of(shard_, word)).number()};
    const Decision decision = decisions_.look(name.place);
    // Of a log that is lost nothing is known: its files may have it.
    const bool is_known = log_ == nullptr || log_works();
    if (decision.is_claimed() && is_known && decided != name) {
      decisions_.replace(name.place, Decision::aborted(name.number));
    } else if (decision.is_claimed() || decision.is_unconfirmed()) {
      confirm_from(name);
    }
  }
  recover_at_ = log_ != nullptr ? table_.log_->appended() : 0;
  std::vector<TransactionName> names;
  for (const auto& part : parts_) {
    part->is_logged = log_ != nullptr;
    names.push_back(part->from.name);
  }
  for (const TransactionName& name : names) (void)settle(name);
  is_taken_up_ = true;
  note_recovered();
}

// From the first moment on at which no start from the disk needs what an earlier process has decided: what it
// has settled is confirmed, too.
void Table::Parts::note_recovered() {
  const auto is_near = [](const Logged& one) { return !one.name.place.is_far(); };
  if (!is_taken_up_ || is_recovered_ || adopted_ != 0) return;
  if (std::ranges::any_of(settled_, is_near)) return;
  if (log_ != nullptr && !has_confirmed(recover_at_)) return;
  is_recovered_ = true;
  decisions_.recovered();
}

}  // namespace refract::kv
