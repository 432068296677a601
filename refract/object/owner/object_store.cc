// SPDX-License-Identifier: Apache-2.0
// Objects where they lie, their records, and what the store says of them.
#include "refract/object/owner/object_store.h"

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"
#include "refract/kv/layout/scan_cursor.h"
#include "refract/object/owner/object_store_state.h"

namespace refract::object {

// --- Objects where they lie ---

ObjectParts ObjectStore::State::parts_of(Offset object) const noexcept {
  const ObjectHeader& header = header_of(object);
  return {
      .body_bytes = header.body_bytes, .metadata_bytes = header.metadata_bytes, .id_bytes = header.id_bytes};
}

std::span<const std::byte> ObjectStore::State::id_of(Offset object) const noexcept {
  const ObjectParts of = parts_of(object);
  return {parts.writer.at(object.plus(of.id_at())), of.id_bytes};
}

ObjectRecord ObjectStore::State::record_of(Offset object, uint32_t flags) const noexcept {
  const ObjectHeader& header = header_of(object);
  return {.object_at = object.value,
          .birth = header.birth,
          .body_bytes = header.body_bytes,
          .metadata_bytes = header.metadata_bytes,
          .flags = flags};
}

Object ObjectStore::State::object_of(Number number) const noexcept {
  const Offset object = index.object(number);
  return {.object = object,
          .birth = header_of(object).birth,
          .parts = parts_of(object),
          .is_kept = index.is_kept(number),
          .copies = copies_of(object)};
}

Creation ObjectStore::State::creation_of(Number number) const noexcept {
  const Offset object = index.object(number);
  return {.object = object,
          .birth = header_of(object).birth,
          .parts = parts_of(object),
          .is_sealed = index.standing(number) != Standing::kCreation};
}

// --- Records ---

ObjectStore::State::Number ObjectStore::State::find(KeyKind kind, std::span<const std::byte> id) {
  if (id.empty() || id.size() > kIdBytesMax) return ObjectIndex::kNone;
  const auto entry = parts.table.find(ObjectKey(kind, id).bytes());
  if (!entry) return ObjectIndex::kNone;
  uint64_t object_at = 0;
  REFRACT_DCHECK(entry->value.size() == sizeof(ObjectRecord));
  std::memcpy(&object_at, entry->value.data(), sizeof(object_at));
  return index.find({object_at});
}

Code ObjectStore::State::put(const ObjectKey& key, const ObjectRecord& record) {
  return parts.table.put(key.bytes(), std::as_bytes(std::span(&record, 1)), {}).code();
}

void ObjectStore::State::remove(const ObjectKey& key) {
  const Result<uint64_t> erased = parts.table.erase(key.bytes(), 0);
  REFRACT_DCHECK(erased.has_value());
}

// --- Standings and accounts ---

void ObjectStore::State::count(Standing standing, const ObjectParts& counted, bool is_added) noexcept {
  const uint64_t bytes = is_added ? counted.counted_bytes() : 0 - counted.counted_bytes();
  const uint64_t one = is_added ? 1 : ~uint64_t{0};
  switch (standing) {
    case Standing::kCreation:
      accounts.creation_bytes += bytes;
      accounts.creations += one;
      return;
    case Standing::kKept:
      accounts.kept_bytes += bytes;
      [[fallthrough]];
    case Standing::kLoose:
      accounts.sealed_bytes += bytes;
      accounts.objects += one;
      return;
    case Standing::kDeparted:
      accounts.departed_bytes += bytes;
      accounts.departed += one;
      return;
  }
}

ObjectStore::State::Number ObjectStore::State::add(Offset object, Standing standing) {
  count(standing, parts_of(object), true);
  return index.add(object, standing);
}

void ObjectStore::State::set_standing(Number number, Standing standing) {
  const ObjectParts of = parts_of(index.object(number));
  count(index.standing(number), of, false);
  count(standing, of, true);
  index.move(number, standing);
}

// A word that cannot be is none: the rest of the object is what it is.
CopiesWord ObjectStore::State::copies_of(Offset object) const noexcept {
  const CopiesWord word{static_cast<uint32_t>(header_of(object).copies)};
  return word.is_sound() && header_of(object).copies == word.bits ? word : CopiesWord();
}

ObjectStore::State::Standing ObjectStore::State::sealed_standing(Offset object, bool is_kept) const noexcept {
  return is_kept || copies_of(object).is_bound() ? Standing::kKept : Standing::kLoose;
}

ObjectStore::State::Number ObjectStore::State::find_sealed(std::span<const std::byte> id, uint64_t birth) {
  const Number number = find(KeyKind::kSealed, id);
  if (number == ObjectIndex::kNone) return number;
  return header_of(index.object(number)).birth == birth ? number : ObjectIndex::kNone;
}

void ObjectStore::State::forget(Number number) {
  count(index.standing(number), parts_of(index.object(number)), false);
  index.remove(number);
}

// --- The calls ---

ObjectStore::ObjectStore(const ObjectStoreParts& parts) : state_(std::make_unique<State>(parts)) {}
ObjectStore::~ObjectStore() = default;

void ObjectStore::tell(Listener* listener) noexcept {
  state_->listener = listener;
}

ObjectStore::Shortage ObjectStore::shortage() const noexcept {
  return state_->shortage;
}

Result<Object> ObjectStore::find(std::span<const std::byte> id) {
  State& state = *state_;
  const State::Number number = state.find(KeyKind::kSealed, id);
  if (number == ObjectIndex::kNone) return fail(Code::kNotFound);
  if (state.index.standing(number) == State::Standing::kLoose) {
    state.index.move(number, State::Standing::kLoose);
  }
  return state.object_of(number);
}

Result<uint64_t> ObjectStore::erase(std::span<const std::byte> id, uint64_t birth) {
  State& state = *state_;
  state.begin_step();
  const State::Number number = state.find(KeyKind::kSealed, id);
  if (number == ObjectIndex::kNone) return fail(Code::kNotFound);
  const Offset object = state.index.object(number);
  if (birth != 0 && state.header_of(object).birth != birth) return fail(Code::kVersionMismatch);
  Code code = state.depart(number, false);
  if (code == Code::kNoSpace && state.accounts.departed > 0) {
    // One that departed before may have the memory, and its last holder may have let go of it.
    state.release_departed();
    code = state.depart(number, false);
  }
  if (code != Code::kOk) {
    const kv::GrowthSource* const growth = state.parts.growth;
    if (growth != nullptr && growth->can_grow(kChunkBytes)) state.shortage.wanted_bytes = kChunkBytes;
    return fail(code);
  }
  const uint64_t holders = state.parts.heap.look_at_pins_of(object);
  state.end_departed(number);
  return holders;
}

Code ObjectStore::keep(std::span<const std::byte> id, bool is_kept) {
  State& state = *state_;
  state.begin_step();
  const State::Number number = state.find(KeyKind::kSealed, id);
  if (number == ObjectIndex::kNone) return Code::kNotFound;
  if (state.index.is_kept(number) == is_kept) return Code::kOk;
  const Offset object = state.index.object(number);
  // What goes for the record's room is another object.
  state.set_standing(number, State::Standing::kKept);
  const Code code = state.put_with_room(ObjectKey(KeyKind::kSealed, id),
                                        state.record_of(object, is_kept ? ObjectRecord::kKept : 0));
  if (code == Code::kOk) state.index.set_kept(number, is_kept);
  state.set_standing(number, state.sealed_standing(object, state.index.is_kept(number)));
  return code;
}

Code ObjectStore::set_copies(std::span<const std::byte> id, uint64_t birth, CopiesWord copies) {
  State& state = *state_;
  const State::Number number = state.find_sealed(id, birth);
  if (number == ObjectIndex::kNone) return Code::kNotFound;
  const Offset object = state.index.object(number);
  state.parts.writer.publish(object.plus(offsetof(ObjectHeader, copies)), copies.bits);
  state.set_standing(number, state.sealed_standing(object, state.index.is_kept(number)));
  return Code::kOk;
}

void ObjectStore::visit_bound(
    const std::function<bool(std::span<const std::byte> id, const Object&)>& visit) {
  const State& state = *state_;
  const auto& pins = state.parts.heap.look_at_pins();
  for (State::Number number = state.index.oldest(State::Standing::kKept); number != ObjectIndex::kNone;
       number = state.index.newer(number)) {
    const Object object = state.object_of(number);
    if (object.is_kept || pins.contains(object.object)) continue;
    if (!visit(state.id_of(object.object), object)) return;
  }
}

void ObjectStore::put_behind(std::span<const std::byte> id, uint64_t birth) {
  State& state = *state_;
  const State::Number number = state.find_sealed(id, birth);
  if (number != ObjectIndex::kNone) state.index.move(number, state.index.standing(number));
}

size_t ObjectStore::release_departed() {
  return state_->release_departed();
}

const ObjectAccounts& ObjectStore::accounts() const noexcept {
  return state_->accounts;
}

HeldBytes ObjectStore::held() {
  State& state = *state_;
  HeldBytes held{.kept_only_bytes = state.accounts.kept_bytes};
  uint64_t last = 0;
  for (const uint64_t pin : state.parts.heap.look_at_pins().offsets()) {
    if (std::exchange(last, pin) == pin) continue;
    const State::Number number = state.index.find({pin});
    if (number == ObjectIndex::kNone) continue;
    const auto standing = state.index.standing(number);
    const uint64_t bytes = state.parts_of({pin}).counted_bytes();
    if (standing != State::Standing::kLoose && standing != State::Standing::kKept) continue;
    held.sealed_bytes += bytes;
    ++held.objects;
    if (standing == State::Standing::kKept) held.kept_only_bytes -= bytes;
  }
  return held;
}

Writer& ObjectStore::writer() noexcept {
  return state_->parts.writer;
}

uint64_t ObjectStore::holders_of(Offset object) {
  return state_->parts.heap.look_at_pins_of(object);
}

uint64_t ObjectStore::list(uint64_t cursor, const std::function<void(const Listed&)>& visit) const {
  const State& state = *state_;
  const kv::Table& table = state.parts.table;
  const auto show = [&](const kv::Table::Standing& standing) {
    State::Named named;
    if (state.read_record(standing.slot, named) != nullptr) return;
    if (named.kind != KeyKind::kSealed && named.kind != KeyKind::kCreation) return;
    const ObjectRecord& record = named.record;
    visit({.id = named.id,
           .object = {.object = {record.object_at},
                      .birth = record.birth,
                      .parts = {.body_bytes = record.body_bytes,
                                .metadata_bytes = record.metadata_bytes,
                                .id_bytes = static_cast<uint16_t>(named.id.size())},
                      .is_kept = (record.flags & ObjectRecord::kKept) != 0,
                      .copies = state.copies_of({record.object_at})},
           .is_sealed = named.kind == KeyKind::kSealed});
  };
  kv::Table::SlotRoom room;
  for (uint64_t lines = 0; lines < kv::kLinesPerPiece; lines += room.lines) {
    const kv::ScanStep step = kv::scan_step(cursor, table.stats().buckets);
    uint64_t piece = 0;
    if (table.crowd_of(step.bucket) != nullptr) {
      piece = table.crowds()->piece_of(step.bucket, cursor & kv::kCursorPieceMask).value_or(0);
    }
    kv::Table::Hand hand{.bucket = step.bucket, .line = piece * kv::kLinesPerPiece};
    for (const kv::Table::Standing& standing : table.slots_at(hand, room)) show(standing);
    const bool is_over = hand.bucket != step.bucket || hand.line == 0;
    cursor = is_over ? step.next
                     : (cursor & ~kv::kCursorPieceMask) | table.crowds()->piece_bits(step.bucket, piece + 1);
    if (cursor == 0) return 0;
  }
  return cursor;
}

}  // namespace refract::object
