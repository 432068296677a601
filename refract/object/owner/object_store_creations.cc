// SPDX-License-Identifier: Apache-2.0
// Creations: how they get room and a record, and become objects, or go.
#include <algorithm>

#include "refract/object/owner/object_store_state.h"

namespace refract::object {

// Each length by itself first: their sum may not fit a word.
Code ObjectStore::State::check(const NewObject& object) const noexcept {
  if (object.id.empty() || object.id.size() > kIdBytesMax || object.birth == 0) return Code::kInvalidArgument;
  if (object.metadata_bytes > kMetadataBytesMax) return Code::kInvalidArgument;
  if (object.body_bytes > parts.limit) return Code::kTooLarge;
  return object.metadata_bytes > parts.limit - object.body_bytes ? Code::kTooLarge : Code::kOk;
}

Code ObjectStore::State::look_for_birth(const NewObject& object, Number& number) {
  number = find(KeyKind::kSealed, object.id);
  if (number == ObjectIndex::kNone && accounts.creations > 0) number = find(KeyKind::kCreation, object.id);
  if (number != ObjectIndex::kNone) {
    const ObjectHeader& header = header_of(index.object(number));
    const bool is_same_object =
        header.body_bytes == object.body_bytes && header.metadata_bytes == object.metadata_bytes;
    // A copy that comes from another node is none of its first creator's, and the other way round.
    const bool is_pulled = (header.flags & ObjectHeader::kPulled) != 0;
    const bool is_same = is_pulled == object.is_pulled || index.standing(number) != Standing::kCreation;
    if (header.birth == object.birth && is_same) {
      return is_same_object ? Code::kOk : Code::kInvalidArgument;
    }
  }
  // What went here is there elsewhere.
  if (object.is_pulled) return number != ObjectIndex::kNone ? Code::kExists : Code::kOk;
  switch (births.end_of(object.birth)) {
    case RecentBirths::End::kGone:
      return Code::kIndeterminate;
    case RecentBirths::End::kAborted:
      return Code::kNotFound;
    case RecentBirths::End::kUnknown:
      break;
  }
  return number != ObjectIndex::kNone ? Code::kExists : Code::kOk;
}

// What cannot succeed is found out before anything goes.
Result<Offset> ObjectStore::State::take_room(const ObjectParts& of) {
  const uint64_t bytes = of.total_bytes();
  std::optional<Offset> room = parts.heap.allocate(bytes);
  if (!room && accounts.departed > 0) {
    release_departed();
    room = parts.heap.allocate(bytes);
  }
  if (!room && !can_make_room(bytes)) return fail(Code::kNoSpace);
  if (const Code code = make_limit(of.counted_bytes()); code != Code::kOk) {
    if (room) parts.heap.release(*room, bytes);
    return fail(code);
  }
  while (!room) {
    room = parts.heap.allocate(bytes);
    if (room) break;
    if (const Code code = make_room(bytes); code != Code::kOk) return fail(code);
  }
  return *room;
}

void ObjectStore::State::write_header(Offset object, const NewObject& of) {
  Writer& writer = parts.writer;
  const ObjectParts lengths{.body_bytes = of.body_bytes,
                            .metadata_bytes = of.metadata_bytes,
                            .id_bytes = static_cast<uint16_t>(of.id.size())};
  const ObjectHeader header{.stamp = 0,
                            .mark = kObjectMark,
                            .birth = of.birth,
                            .body_bytes = of.body_bytes,
                            .metadata_bytes = of.metadata_bytes,
                            .id_bytes = lengths.id_bytes,
                            .flags = of.is_pulled ? ObjectHeader::kPulled : uint16_t{0},
                            .copies = 0,
                            .reserved_end = {}};
  // What the memory held before says first that it is so no more.
  writer.withdraw(object);
  writer.copy(object, std::as_bytes(std::span(&header, 1)));
  writer.copy(object.plus(lengths.id_at()), of.id);
  const uint64_t end = lengths.id_at() + lengths.id_bytes;
  writer.zero(object.plus(end), lengths.total_bytes() - end);
  writer.publish(object, parts.heap.next_stamp());
}

Result<Creation> ObjectStore::create(const NewObject& object) {
  State& state = *state_;
  state.begin_step();
  if (const Code code = state.check(object); code != Code::kOk) return fail(code);
  State::Number number = ObjectIndex::kNone;
  if (const Code code = state.look_for_birth(object, number); code != Code::kOk) return fail(code);
  if (number != ObjectIndex::kNone) return state.creation_of(number);

  const Result<State::Number> taken = state.take_unrecorded(object);
  if (!taken) return fail(taken.error());
  const Code code = state.put_with_room(ObjectKey(KeyKind::kCreation, object.id),
                                        state.record_of(state.index.object(*taken), 0));
  if (code != Code::kOk) {
    state.give_back(*taken);
    return fail(code);
  }
  return state.creation_of(*taken);
}

// As long as it has no record its memory is free for the next owner.
Result<ObjectStore::State::Number> ObjectStore::State::take_unrecorded(const NewObject& object) {
  const Result<Offset> room = take_room({.body_bytes = object.body_bytes,
                                         .metadata_bytes = object.metadata_bytes,
                                         .id_bytes = static_cast<uint16_t>(object.id.size())});
  if (!room) return fail(room.error());
  write_header(*room, object);
  return add(*room, Standing::kCreation);
}

void ObjectStore::State::give_back(Number number) {
  const Offset object = index.object(number);
  const uint64_t bytes = parts_of(object).total_bytes();
  forget(number);
  parts.heap.release(object, bytes);
}

Result<Object> ObjectStore::make(const NewObject& object, const Fill& fill_room) {
  State& state = *state_;
  state.begin_step();
  if (const Code code = state.check(object); code != Code::kOk) return fail(code);
  State::Number number = ObjectIndex::kNone;
  if (const Code code = state.look_for_birth(object, number); code != Code::kOk) return fail(code);
  if (number != ObjectIndex::kNone) {
    const Creation known = state.creation_of(number);
    if (known.is_sealed) return state.object_of(number);
    fill_room(known);
    Result<Object> sealed = seal(object.id, object.birth);
    if (!sealed) (void)state.give_up(object.id, object.birth, object.is_pulled);
    return sealed;
  }
  const Result<State::Number> taken = state.take_unrecorded(object);
  if (!taken) return fail(taken.error());
  fill_room(state.creation_of(*taken));
  const Code code = state.publish(*taken, object.id, false);
  if (code == Code::kOk) return state.object_of(*taken);
  state.give_back(*taken);
  return fail(code);
}

Result<Creation> ObjectStore::creation(std::span<const std::byte> id, uint64_t birth) {
  State& state = *state_;
  bool is_taken = false;
  for (const KeyKind kind : {KeyKind::kCreation, KeyKind::kSealed}) {
    const State::Number number = state.find(kind, id);
    if (number == ObjectIndex::kNone) continue;
    const Creation creation = state.creation_of(number);
    if (creation.birth == birth) return creation;
    is_taken = true;
  }
  return fail(is_taken ? Code::kExists : Code::kNotFound);
}

std::span<std::byte> ObjectStore::room_of(const Creation& creation) noexcept {
  std::byte* const object = state_->parts.writer.base() + creation.object.value;
  return {object + ObjectParts::body_at(), creation.parts.filled_bytes()};
}

Result<Object> ObjectStore::seal(std::span<const std::byte> id, uint64_t birth, CopiesWord copies) {
  State& state = *state_;
  state.begin_step();
  const Result<Creation> creation = this->creation(id, birth);
  if (!creation) {
    if (state.births.end_of(birth) == RecentBirths::End::kGone) return fail(Code::kIndeterminate);
    const bool is_sealed = state.find(KeyKind::kSealed, id) != ObjectIndex::kNone;
    return fail(is_sealed ? Code::kExists : Code::kNotFound);
  }
  const State::Number number = state.index.find(creation->object);
  if (creation->is_sealed) return state.object_of(number);
  // Before the record: a server that is killed in between finds it bound, or not sealed.
  if (copies.bits != 0) {
    state.parts.writer.publish(creation->object.plus(offsetof(ObjectHeader, copies)), copies.bits);
  }
  const Code code = state.publish(number, id, true);
  if (code != Code::kOk) return fail(code);
  return state.object_of(number);
}

Code ObjectStore::State::publish(Number number, std::span<const std::byte> id, bool has_record) {
  const Offset at = index.object(number);
  const Code code = put_with_room(ObjectKey(KeyKind::kSealed, id), record_of(at, 0));
  if (code != Code::kOk) return code;
  if (has_record) remove(ObjectKey(KeyKind::kCreation, id));
  set_standing(number, sealed_standing(at, false));
  ++accounts.sealed_ever;
  const Object object = object_of(number);
  if (listener != nullptr) listener->sealed(id_of(at), object);
  return Code::kOk;
}

// Readers were never led to it: no pin can be of this object. So its memory goes with its record.
// What comes from another node is not its first creator's: READs are under way into its room.
Code ObjectStore::State::give_up(std::span<const std::byte> id, uint64_t birth, bool is_pulled) {
  const Number number = find(KeyKind::kCreation, id);
  if (number == ObjectIndex::kNone) {
    const Number sealed = find(KeyKind::kSealed, id);
    const bool is_other = sealed != ObjectIndex::kNone && header_of(index.object(sealed)).birth != birth;
    return is_other ? Code::kExists : Code::kNotFound;
  }
  const Offset object = index.object(number);
  if (header_of(object).birth != birth) return Code::kExists;
  if (((header_of(object).flags & ObjectHeader::kPulled) != 0) != is_pulled) return Code::kNotFound;
  remove(ObjectKey(KeyKind::kCreation, id));
  give_back(number);
  ++accounts.aborted_ever;
  return Code::kOk;
}

Code ObjectStore::end_creation(std::span<const std::byte> id, uint64_t birth) {
  return state_->give_up(id, birth, false);
}

Code ObjectStore::end_pull(std::span<const std::byte> id, uint64_t birth) {
  return state_->give_up(id, birth, true);
}

Code ObjectStore::abort_creation(std::span<const std::byte> id, uint64_t birth) {
  state_->births.add(birth, RecentBirths::End::kAborted);
  return state_->give_up(id, birth, false);
}

std::vector<ObjectStore::OpenCreation> ObjectStore::creations() const {
  const State& state = *state_;
  std::vector<OpenCreation> found;
  for (State::Number number = state.index.oldest(State::Standing::kCreation); number != ObjectIndex::kNone;
       number = state.index.newer(number)) {
    const Offset object = state.index.object(number);
    const std::span<const std::byte> id = state.id_of(object);
    const ObjectHeader& header = state.header_of(object);
    found.push_back({.id = {id.begin(), id.end()},
                     .birth = header.birth,
                     .is_pulled = (header.flags & ObjectHeader::kPulled) != 0});
  }
  return found;
}

}  // namespace refract::object
