// SPDX-License-Identifier: Apache-2.0
// Parts whose home is another node: docs/design/070.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "refract/kv/layout/far_part.h"
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

uint64_t Table::Parts::record_bytes(std::span<const Beside> beside) noexcept {
  uint64_t bytes = sizeof(FarPart);
  for (const Beside& one : beside) bytes += far_key_bytes(one.key.size());
  return bytes;
}

void Table::Parts::link_record(Offset at, const PartOf& from, std::span<const Beside> beside,
                               uint64_t first_stamp) {
  Writer& writer = table_.writer_;
  const FarPart record{.stamp = 0,
                       .next = writer.load(kFarPartsAt),
                       .decision_at = from.name.place.bits,
                       .number = from.name.number,
                       .generation = from.generation,
                       .fate = 0,
                       .first_stamp = first_stamp,
                       .keys = static_cast<uint32_t>(beside.size()),
                       .bytes = static_cast<uint32_t>(record_bytes(beside) - sizeof(FarPart))};
  writer.withdraw(at);
  writer.copy(at, std::as_bytes(std::span(&record, 1)));
  Offset next = at.plus(sizeof(record));
  for (const Beside& one : beside) {
    const FarKey head{.bytes = static_cast<uint32_t>(one.key.size()), .is_written = one.is_written ? 1U : 0U};
    writer.copy(next, std::as_bytes(std::span(&head, 1)));
    writer.copy(next.plus(sizeof(head)), one.key);
    next = next.plus(far_key_bytes(one.key.size()));
  }
  REFRACT_FAULT("kv.parts.before_record");
  writer.publish(kFarPartsAt, at.value);
}

// One store takes it out of the list.
void Table::Parts::drop_record(Offset at) {
  Writer& writer = table_.writer_;
  Offset link = kFarPartsAt;
  while (writer.load(link) != at.value) link = Offset{writer.load(link)}.plus(offsetof(FarPart, next));
  const auto& record = writer.view<FarPart>(at);
  const uint64_t bytes = sizeof(record) + uint64_t{record.bytes};
  writer.publish(link, record.next);
  REFRACT_FAULT("kv.parts.unlinked_record");
  table_.heap_.retire(at, bytes);
}

void Table::Parts::note_away(uint32_t member, uint64_t since_ns) {
  if (since_ns != 0) {
    away_[member] = since_ns;
  } else {
    away_.erase(member);
  }
}

uint64_t Table::Parts::away_since(uint32_t member) const noexcept {
  const auto found = away_.find(member);
  return found == away_.end() ? 0 : found->second;
}

std::vector<const HeldPart*> Table::Parts::open_far() const {
  std::vector<const HeldPart*> open;
  for (const auto& part : parts_) {
    if (part->from.is_far() && part->fate == Fate::kOpen) open.push_back(part.get());
  }
  return open;
}

size_t Table::Parts::give_up(uint32_t member, Fate fate) {
  std::vector<Part*> given_up;
  for (const auto& part : parts_) {
    const bool is_its = part->from.is_far() && part->from.name.place.member() == member;
    if (is_its && part->fate == Fate::kOpen) given_up.push_back(part.get());
  }
  for (Part* const part : given_up) {
    part->fate = part->seen = fate;
    (void)settle_if_decided(*part);
  }
  return given_up.size();
}

bool Table::Parts::is_stuck(uint64_t hash) const noexcept {
  if (away_.empty()) return false;
  const auto [begin, end] = holds_.equal_range(hash);
  return std::any_of(begin, end, [this](const auto& held) {
    const Part& part = *held.second.part;
    return part.from.is_far() && part.fate == Fate::kOpen && is_away(part.from.name.place.member());
  });
}

namespace {

// Visits its keys. False: they are not what it says.
template <typename Visit>
bool each_key(const Writer& writer, Offset at, Visit visit) {
  const auto& record = writer.view<FarPart>(at);
  uint64_t used = 0;
  for (uint32_t i = 0; i < record.keys; ++i) {
    if (used + sizeof(FarKey) > record.bytes) return false;
    const Offset head_at = at.plus(sizeof(FarPart) + used);
    const auto& head = writer.view<FarKey>(head_at);
    if (head.bytes == 0 || head.bytes > kKeyBytesMax || head.is_written > 1) return false;
    used += far_key_bytes(head.bytes);
    if (used > record.bytes) return false;
    visit(std::span<const std::byte>(writer.at(head_at.plus(sizeof(FarKey))), head.bytes),
          head.is_written != 0);
  }
  return used == record.bytes;
}

}  // namespace

// Marking a buffer twice fails: so a list that is a ring is found.
bool Table::Parts::mark_live() {
  const Writer& writer = table_.writer_;
  for (Offset at{writer.load(kFarPartsAt)}; at; at = Offset{writer.view<FarPart>(at).next}) {
    if (at.value % kGranuleBytes != 0 || !table_.heap_.is_inside(at, sizeof(FarPart))) return false;
    const auto& record = writer.view<FarPart>(at);
    const uint64_t bytes = sizeof(record) + uint64_t{record.bytes};
    const bool is_decision = record.generation == 0;
    const bool has_fate = record.fate <= static_cast<uint64_t>(Fate::kNever);
    const bool is_sound = DecisionPlace{record.decision_at}.is_far() && has_fate &&
                          (!is_decision || record.keys == 0) && record.keys <= kKeysMax;
    if (!is_sound || !table_.heap_.is_inside(at, bytes)) return false;
    if (!each_key(writer, at, [](std::span<const std::byte>, bool) {})) return false;
    if (!table_.heap_.mark_live(at, bytes)) return false;
  }
  return true;
}

void Table::Parts::adopt_records() {
  const Writer& writer = table_.writer_;
  for (Offset at{writer.load(kFarPartsAt)}; at; at = Offset{writer.view<FarPart>(at).next}) {
    const auto& record = writer.view<FarPart>(at);
    const TransactionName name{.place = {record.decision_at}, .number = record.number};
    if (record.generation == 0) {
      decided_before_.emplace_back(name, at);
      continue;
    }
    Part& part = adopted(name, record.generation);
    part.record_at = at;
    part.fate = part.seen = static_cast<Fate>(record.fate);
    std::vector<std::pair<uint64_t, bool>> keys;
    (void)each_key(writer, at, [&](std::span<const std::byte> key, bool is_written) {
      keys.emplace_back(table_.hash(key), is_written);
    });
    hold(part, std::move(keys));
  }
}

// As a log and a snapshot have them.
std::vector<ChangeLog::Change> Table::Parts::marks_of(const Part& part) const {
  std::vector<ChangeLog::Change> marks;
  if (!part.record_at) return marks;
  const auto& record = table_.writer_.view<FarPart>(part.record_at);
  uint64_t stamp = record.first_stamp;
  const auto add = [&](std::span<const std::byte> key, uint64_t says) {
    marks.push_back({.kind = ChangeLog::Kind::kMark, .stamp = stamp++, .expires_wall_ns = says, .key = key});
  };
  add(std::as_bytes(std::span(&record.generation, 1)), ChangeLog::kMarkGeneration);
  (void)each_key(table_.writer_, part.record_at, [&](std::span<const std::byte> key, bool is_written) {
    add(key, is_written ? ChangeLog::kMarkWritten : ChangeLog::kMarkRead);
  });
  return marks;
}

bool Table::Parts::has_decided_before(const TransactionName& name) const noexcept {
  return std::ranges::find(decided_before_, name, &std::pair<TransactionName, Offset>::first) !=
         decided_before_.end();
}

std::vector<TransactionName> Table::Parts::decided_before() const {
  std::vector<TransactionName> names;
  names.reserve(decided_before_.size());
  for (const auto& [name, at] : decided_before_) names.push_back(name);
  return names;
}

Code Table::Parts::restore_decision(const TransactionName& name) {
  const std::optional<Offset> at = table_.heap_.allocate(sizeof(FarPart));
  if (!at) return Code::kNoSpace;
  link_record(*at, {.name = name}, {}, 0);
  decided_before_.emplace_back(name, *at);
  return Code::kOk;
}

bool Table::Parts::forget_far(const TransactionName& name) {
  if (log_ != nullptr && !tell_settled(name, /*has_happened=*/true)) return false;
  const auto found = std::ranges::find(decided_before_, name, &std::pair<TransactionName, Offset>::first);
  if (found == decided_before_.end()) return true;
  drop_record(found->second);
  decided_before_.erase(found);
  return true;
}

Code Table::Parts::restore(const Restored& restored) {
  PartOf from{.name = restored.name};
  from.is_restored = true;
  std::vector<BatchCondition> marks;
  std::vector<BatchWrite> writes;
  for (const ChangeLog::Change& change : restored.changes) {
    if (change.kind == ChangeLog::Kind::kMark && change.expires_wall_ns == ChangeLog::kMarkGeneration) {
      if (change.key.size() != sizeof(from.generation)) return Code::kCorrupt;
      std::memcpy(&from.generation, change.key.data(), sizeof(from.generation));
      continue;
    }
    const TableKey key = table_.hashed(change.key);
    const bool is_written = change.kind != ChangeLog::Kind::kMark || change.expires_wall_ns != 0;
    const auto is_its_key = [&](const BatchWrite& one) {
      return one.key.hash == key.hash && std::ranges::equal(one.key.bytes, key.bytes);
    };
    // An erasure that finds something is told as a mark as well.
    if (change.kind == ChangeLog::Kind::kMark && std::ranges::any_of(writes, is_its_key)) continue;
    if (!is_written) {
      marks.push_back({.key = key});
    } else if (change.kind == ChangeLog::Kind::kPut) {
      writes.push_back({.key = key,
                        .kind = WriteKind::kPut,
                        .value = change.value,
                        .expires_wall_ns = change.expires_wall_ns,
                        .restored_stamp = change.stamp});
    } else {
      const bool is_erasure = change.kind == ChangeLog::Kind::kErase;
      writes.push_back(
          {.key = key, .kind = WriteKind::kErase, .restored_stamp = is_erasure ? change.stamp : 0});
    }
  }
  if (from.generation == 0) return Code::kCorrupt;
  TableBatch batch{.conditions = marks, .writes = writes};
  const Code code = prepare(batch, from).code();
  if (code == Code::kOk) find(restored.name)->is_demanded = true;
  return code;
}

}  // namespace refract::kv
