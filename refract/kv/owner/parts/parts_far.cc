// SPDX-License-Identifier: Apache-2.0
// Parts whose home is another node: docs/design/070.
#include <algorithm>

#include "refract/kv/owner/parts/parts.h"
#include "refract/runtime/fault.h"

namespace refract::kv {

// A session that lies about its own transaction does what it could do by two of them.
Code Table::Parts::settle_far(const TransactionName& name, uint64_t session, Fate fate) {
  Part* const part = find(name);
  if (part == nullptr || !part->from.is_far()) return Code::kNotFound;
  const bool is_told = fate == Fate::kHappened || fate == Fate::kNever;
  if (part->from.session == session && is_told && part->fate == Fate::kOpen) part->fate = part->seen = fate;
  part->is_demanded = true;
  return end_as(*part, part->fate);
}

std::vector<Table::Parts::Question> Table::Parts::questions() const {
  std::vector<Question> questions;
  for (const auto& part : parts_) {
    if (!part->from.is_far() || part->fate != Fate::kOpen) continue;
    if (!part->is_demanded && part->looked >= part->look_wanted) continue;
    questions.push_back(
        {.name = part->from.name, .generation = part->from.generation, .is_demanded = part->is_demanded});
  }
  return questions;
}

void Table::Parts::take_fate(const Question& question, Fate fate, uint64_t left) {
  Part* const part = find(question.name);
  if (part == nullptr || part->from.generation != question.generation || part->fate != Fate::kOpen) return;
  part->looked = std::max(part->looked, left);
  part->seen = fate;
  if (fate != Fate::kHappened && fate != Fate::kNever) return;
  part->fate = fate;
  (void)settle_if_decided(*part);
}

bool Table::Parts::is_gone(const TransactionName& name) {
  if (Part* const part = find(name)) {
    part->is_demanded = true;
    return false;
  }
  return std::ranges::none_of(settled_, [&](const Logged& one) { return one.name == name; });
}

bool Table::Parts::is_unclear(std::optional<uint64_t> hash, uint64_t came) {
  if (hash && !holds_.contains(*hash)) return false;
  bool is_unclear = false;
  for (const auto& part : parts_) {
    if (!part->from.is_far() || part->fate != Fate::kOpen || part->born > came) continue;
    const auto is_key = [&](const PendingEntry& entry) { return !hash || entry.hash == *hash; };
    if (part->looked >= came || std::ranges::none_of(part->writes, is_key)) continue;
    part->look_wanted = std::max(part->look_wanted, came);
    is_unclear = true;
  }
  return is_unclear;
}

void Table::Parts::link_record(Offset at, const PartOf& from, const Beside& beside) {
  Writer& writer = table_.writer_;
  const FarPart record{.stamp = 0,
                       .next = writer.load(kFarPartsAt),
                       .decision_at = from.name.place.bits,
                       .number = from.name.number,
                       .generation = from.generation,
                       .fate = 0,
                       .marks = static_cast<uint32_t>(beside.marks.size()),
                       .erased = static_cast<uint32_t>(beside.erased.size()),
                       .reserved = 0};
  writer.withdraw(at);
  writer.copy(at, std::as_bytes(std::span(&record, 1)));
  writer.copy(at.plus(sizeof(record)), std::as_bytes(std::span(beside.marks)));
  writer.copy(at.plus(far_part_bytes(beside.marks.size())), std::as_bytes(std::span(beside.erased)));
  REFRACT_FAULT("kv.parts.before_record");
  writer.publish(kFarPartsAt, at.value);
}

// One store takes it out of the list.
void Table::Parts::drop_record(Offset at) {
  Writer& writer = table_.writer_;
  Offset link = kFarPartsAt;
  while (writer.load(link) != at.value) link = Offset{writer.load(link)}.plus(offsetof(FarPart, next));
  const auto& record = writer.view<FarPart>(at);
  const uint64_t bytes = far_part_bytes(uint64_t{record.marks} + record.erased);
  writer.publish(link, record.next);
  REFRACT_FAULT("kv.parts.unlinked_record");
  table_.heap_.retire(at, bytes);
}

void Table::Parts::note_away(uint32_t member, bool is_away) {
  if (is_away) {
    away_.insert(member);
  } else {
    away_.erase(member);
  }
}

bool Table::Parts::is_stuck(uint64_t hash) const noexcept {
  if (away_.empty()) return false;
  const auto [begin, end] = holds_.equal_range(hash);
  return std::any_of(begin, end, [this](const auto& held) {
    const Part& part = *held.second.part;
    return part.from.is_far() && part.fate == Fate::kOpen && is_away(part.from.name.place.member());
  });
}

// Marking a buffer twice fails: so a list that is a ring is found.
bool Table::Parts::mark_live() {
  const Writer& writer = table_.writer_;
  size_t count = 0;
  for (Offset at{writer.load(kFarPartsAt)}; at; at = Offset{writer.view<FarPart>(at).next}) {
    if (at.value % kGranuleBytes != 0 || !table_.heap_.is_inside(at, sizeof(FarPart))) return false;
    const auto& record = writer.view<FarPart>(at);
    const uint64_t hashes = uint64_t{record.marks} + record.erased;
    const bool is_sound = DecisionPlace{record.decision_at}.is_far() && record.generation != 0 &&
                          record.fate <= static_cast<uint64_t>(Fate::kNever) && hashes <= kKeysMax &&
                          table_.heap_.is_inside(at, far_part_bytes(hashes));
    if (!is_sound || ++count > kPartsMax) return false;
    if (!table_.heap_.mark_live(at, far_part_bytes(hashes))) return false;
  }
  return true;
}

void Table::Parts::adopt_records() {
  const Writer& writer = table_.writer_;
  for (Offset at{writer.load(kFarPartsAt)}; at; at = Offset{writer.view<FarPart>(at).next}) {
    const auto& record = writer.view<FarPart>(at);
    Part& part = adopted({.place = {record.decision_at}, .number = record.number}, record.generation);
    part.record_at = at;
    part.fate = part.seen = static_cast<Fate>(record.fate);
    std::vector<std::pair<uint64_t, bool>> keys;
    for (uint64_t i = 0; i < uint64_t{record.marks} + record.erased; ++i) {
      keys.emplace_back(writer.load(at.plus(far_part_bytes(i))), i >= record.marks);
    }
    hold(part, std::move(keys));
  }
}

}  // namespace refract::kv
