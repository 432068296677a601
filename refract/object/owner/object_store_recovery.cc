// SPDX-License-Identifier: Apache-2.0
// What is rebuilt from records when the owner starts, and how they are checked: nothing that a record says is
// followed before it agrees with the object's header and with the heap.
//
// A crash leaves two records of one object where it fell between the stores of a seal, a departure, or of
// this recovery. The one further on is right: sealed behind creation, departed behind creation; but a
// departed one beside a sealed one was not acknowledged, and goes. Both have the object's place, so that the
// index finds them.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "refract/object/owner/object_store_state.h"

namespace refract::object {
namespace {

constexpr uint8_t note_of(KeyKind kind) noexcept {
  return kind == KeyKind::kSealed ? 1 : kind == KeyKind::kCreation ? 2 : 4;
}
constexpr uint8_t kSealedSeen = note_of(KeyKind::kSealed);
constexpr uint8_t kCreationSeen = note_of(KeyKind::kCreation);
constexpr uint8_t kDepartedSeen = note_of(KeyKind::kDeparted);

}  // namespace

const char* ObjectStore::State::read_record(kv::Slot slot, Named& named) const noexcept {
  const auto entry = parts.table.entry_in(slot);
  if (!entry) return "a record has a time to live";
  if (entry->value_bytes != sizeof(ObjectRecord)) return "a record has another length";
  named.kind = static_cast<KeyKind>(entry->key[0]);
  named.id = entry->key.subspan(1);
  // So short values follow their key at once.
  std::memcpy(&named.record, entry->key.data() + entry->key.size(), sizeof(ObjectRecord));
  if (named.kind == KeyKind::kTombstone) return read_tombstone(entry->key, named);
  const bool is_departed = named.kind == KeyKind::kDeparted;
  if (!is_departed && named.kind != KeyKind::kSealed && named.kind != KeyKind::kCreation) {
    return "a record is of no kind";
  }
  if (!is_departed)
    return named.id.empty() || named.id.size() > kIdBytesMax ? "an id is too long or missing" : nullptr;
  const ObjectKey expected = ObjectKey::departed(named.record.object_at);
  return std::ranges::equal(expected.bytes(), entry->key) ? nullptr : "a departed object has another's key";
}

// Its record has the birth alone.
const char* ObjectStore::State::read_tombstone(std::span<const std::byte> key, Named& named) noexcept {
  const ObjectRecord& record = named.record;
  uint64_t birth = 0;
  if (key.size() <= 1 + sizeof(birth) || key.size() > 1 + sizeof(birth) + kIdBytesMax) {
    return "an id is too long or missing";
  }
  std::memcpy(&birth, &key[1], sizeof(birth));
  named.id = key.subspan(1 + sizeof(birth));
  const bool is_sound = birth != 0 && record.birth == birth && record.object_at == 0 &&
                        record.body_bytes == 0 && record.metadata_bytes == 0 && record.flags == 0;
  return is_sound ? nullptr : "a tombstone and its key disagree";
}

const char* ObjectStore::State::check_record(const Named& named) const noexcept {
  if (named.kind == KeyKind::kTombstone) return nullptr;
  const ObjectRecord& record = named.record;
  const uint32_t flags = named.kind == KeyKind::kSealed ? ObjectRecord::kKept : 0;
  if ((record.flags & ~flags) != 0) return "a record has flags that it cannot have";
  const Offset at{record.object_at};
  if (at.value % kBodyAlignment != 0 || !parts.heap.is_inside(at, sizeof(ObjectHeader))) {
    return "a record names no place of an object";
  }
  const ObjectHeader header = header_of(at);
  const bool is_same = header.mark == kObjectMark && header.birth == record.birth && record.birth != 0 &&
                       header.body_bytes == record.body_bytes &&
                       header.metadata_bytes == record.metadata_bytes;
  if (!is_same) return "a record and its object's header disagree";
  const bool is_possible = record.body_bytes <= parts.heap.end() &&
                           record.metadata_bytes <= kMetadataBytesMax && header.id_bytes > 0 &&
                           header.id_bytes <= kIdBytesMax &&
                           parts.heap.is_inside(at, parts_of(at).total_bytes());
  if (!is_possible) return "an object has impossible lengths";
  if (named.kind != KeyKind::kDeparted && !std::ranges::equal(id_of(at), named.id)) {
    return "a record has another id than its object";
  }
  return nullptr;
}

template <typename Visit>
std::optional<ObjectStore::Damage> ObjectStore::State::visit_records(Visit&& visit) const {
  kv::Table::Hand hand;
  kv::Table::SlotRoom room;
  do {
    for (const kv::Table::Standing& standing : parts.table.slots_at(hand, room)) {
      Named named;
      const char* what = read_record(standing.slot, named);
      if (what == nullptr) what = check_record(named);
      if (what == nullptr) what = visit(std::as_const(named));
      if (what != nullptr) return Damage{.at = standing.slot.buffer(), .what = what};
    }
  } while (hand.bucket != 0 || hand.line != 0);
  return std::nullopt;
}

const char* ObjectStore::State::adopt(const Named& named) {
  if (named.kind == KeyKind::kTombstone) {
    tombstones.emplace(std::string(reinterpret_cast<const char*>(named.id.data()), named.id.size()),
                       named.record.birth);
    return nullptr;
  }
  const Offset object{named.record.object_at};
  const uint8_t note = note_of(named.kind);
  Number number = index.find(object);
  if (number == ObjectIndex::kNone) {
    if (!parts.heap.mark_live(object, parts_of(object).total_bytes())) {
      return "an object's memory is another's, or none";
    }
    number = index.add(object, Standing::kCreation);
  } else if ((index.notes(number) & note) != 0) {
    return "two records of a kind name one object";
  }
  index.notes(number) |= note;
  const uint8_t seen = index.notes(number);
  if (note == kSealedSeen) {
    index.set_kept(number, (named.record.flags & ObjectRecord::kKept) != 0);
    index.move(number, sealed_standing(object, index.is_kept(number)));
  } else if ((seen & kSealedSeen) == 0) {
    index.move(number, (seen & kDepartedSeen) != 0 ? Standing::kDeparted : Standing::kCreation);
  }
  return nullptr;
}

// By when they got their room: of uses nothing is known any more.
void ObjectStore::State::order_by_age() {
  std::vector<std::pair<uint64_t, Number>> by_stamp;
  by_stamp.reserve(index.count(Standing::kLoose));
  for (Number number = index.oldest(Standing::kLoose); number != ObjectIndex::kNone;
       number = index.newer(number)) {
    by_stamp.emplace_back(header_of(index.object(number)).stamp, number);
  }
  std::ranges::sort(by_stamp);
  for (const auto& [stamp, number] : by_stamp) index.move(number, Standing::kLoose);
}

// Before anything is served: a weaker record that outlived its object would name what is another's.
void ObjectStore::State::settle_records() {
  for (const Standing standing : {Standing::kLoose, Standing::kKept, Standing::kDeparted}) {
    for (Number number = index.oldest(standing); number != ObjectIndex::kNone; number = index.newer(number)) {
      const Offset object = index.object(number);
      const uint8_t seen = index.notes(number);
      if ((seen & kCreationSeen) != 0) remove(ObjectKey(KeyKind::kCreation, id_of(object)));
      if (standing != Standing::kDeparted && (seen & kDepartedSeen) != 0) {
        remove(ObjectKey::departed(object.value));
      }
      index.notes(number) = 0;
    }
  }
}

Result<> ObjectStore::mark_live() {
  State& state = *state_;
  state.damage = state.visit_records([&](const State::Named& named) { return state.adopt(named); });
  if (state.damage) return fail(Code::kCorrupt);
  state.order_by_age();
  for (const auto standing : {State::Standing::kCreation, State::Standing::kLoose, State::Standing::kKept,
                              State::Standing::kDeparted}) {
    for (State::Number number = state.index.oldest(standing); number != ObjectIndex::kNone;
         number = state.index.newer(number)) {
      state.count(standing, state.parts_of(state.index.object(number)), true);
    }
  }
  return {};
}

Result<> ObjectStore::finish_recovery() {
  State& state = *state_;
  state.settle_records();
  state.release_departed();
  state.take_spare();
  return {};
}

std::optional<ObjectStore::Damage> ObjectStore::damage() const noexcept {
  const State& state = *state_;
  if (state.damage) return state.damage;
  ObjectAccounts sums;
  const auto damage = state.visit_records([&](const State::Named& named) -> const char* {
    const uint64_t bytes = uint64_t{named.record.body_bytes} + named.record.metadata_bytes;
    switch (named.kind) {
      case KeyKind::kSealed:
        ++sums.objects;
        sums.sealed_bytes += bytes;
        if (state.sealed_standing({named.record.object_at}, (named.record.flags & ObjectRecord::kKept) !=
                                                                0) == State::Standing::kKept) {
          sums.kept_bytes += bytes;
        }
        break;
      case KeyKind::kCreation:
        ++sums.creations;
        sums.creation_bytes += bytes;
        break;
      case KeyKind::kDeparted:
        ++sums.departed;
        sums.departed_bytes += bytes;
        break;
      case KeyKind::kTombstone:
        return nullptr;
    }
    const bool is_known = state.index.find({named.record.object_at}) != ObjectIndex::kNone;
    return is_known ? nullptr : "a record names an object that the owner does not know";
  });
  if (damage) return damage;
  const ObjectAccounts& said = state.accounts;
  const bool is_right = sums.objects == said.objects && sums.sealed_bytes == said.sealed_bytes &&
                        sums.kept_bytes == said.kept_bytes && sums.creations == said.creations &&
                        sums.creation_bytes == said.creation_bytes && sums.departed == said.departed &&
                        sums.departed_bytes == said.departed_bytes;
  if (!is_right) return Damage{.at = kv::kRootAt, .what = "the accounts are not the sums over all records"};
  return std::nullopt;
}

}  // namespace refract::object
