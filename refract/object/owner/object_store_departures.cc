// SPDX-License-Identifier: Apache-2.0
// How objects lose their id, and when their memory goes back (O2, O3 in object/layout/object_layout.h).
//
// The order of stores: a record of kind departed; the sealed one is removed; fence, look at pins; the
// departed one is removed; the memory goes. So between any two of them each object in use has a record.
#include "refract/object/owner/object_store_state.h"

namespace refract::object {
namespace {

// A buffer of the table for the record of a departed object.
constexpr uint64_t kDepartedBytes =
    kv::Lengths{.value_bytes = sizeof(ObjectRecord), .key_bytes = 1 + sizeof(uint64_t)}.total_bytes();

}  // namespace

void ObjectStore::State::take_spare() {
  if (!spare) spare = parts.heap.allocate(kDepartedBytes).value_or(Offset{});
}

void ObjectStore::State::release_spare(Offset at) {
  parts.heap.release(at, kDepartedBytes);
}

Code ObjectStore::State::put_departed(const ObjectRecord& record) {
  const ObjectKey key = ObjectKey::departed(record.object_at);
  const Code code = put(key, record);
  if (code != Code::kNoSpace) return code;
  take_spare();
  if (!spare) return code;
  release_spare(std::exchange(spare, {}));
  const Code again = put(key, record);
  // It lacked a line of the table.
  if (again != Code::kOk) take_spare();
  return again;
}

Code ObjectStore::State::depart(Number number, bool is_evicted) {
  const Object object = object_of(number);
  if (const Code code = put_departed(record_of(object.object, 0)); code != Code::kOk) return code;
  const std::span<const std::byte> id = id_of(object.object);
  remove(ObjectKey(KeyKind::kSealed, id));
  set_standing(number, Standing::kDeparted);
  births.add(object.birth, RecentBirths::End::kGone);
  ++(is_evicted ? accounts.evicted_ever : accounts.deleted_ever);
  if (is_evicted) accounts.evicted_bytes_ever += object.parts.counted_bytes();
  if (listener != nullptr) listener->deleted(id, object);
  return Code::kOk;
}

bool ObjectStore::State::end_departed(Number number) {
  const Offset object = index.object(number);
  if (parts.heap.pins_seen().contains(object)) {
    take_spare();
    return false;
  }
  const uint64_t bytes = parts_of(object).total_bytes();
  forget(number);
  // Before the memory: a record that names what is free, or another's, is damage to the next owner.
  remove(ObjectKey::departed(object.value));
  parts.heap.release(object, bytes);
  take_spare();
  return true;
}

size_t ObjectStore::State::release_departed() {
  Number number = index.oldest(Standing::kDeparted);
  if (number == ObjectIndex::kNone) return 0;
  (void)parts.heap.look_at_pins();
  while (number != ObjectIndex::kNone) {
    const Number newer = index.newer(number);
    end_departed(number);
    number = newer;
  }
  return index.count(Standing::kDeparted);
}

}  // namespace refract::object
