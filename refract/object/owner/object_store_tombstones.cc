// SPDX-License-Identifier: Apache-2.0
#include "refract/object/owner/object_store_state.h"

namespace refract::object {
namespace {

std::pair<std::string, uint64_t> named(std::span<const std::byte> id, uint64_t birth) {
  return {std::string(reinterpret_cast<const char*>(id.data()), id.size()), birth};
}

}  // namespace

Code ObjectStore::add_tombstone(std::span<const std::byte> id, uint64_t birth) {
  State& state = *state_;
  if (id.empty() || id.size() > kIdBytesMax || birth == 0) return Code::kInvalidArgument;
  if (has_tombstone(id, birth)) return Code::kOk;
  state.begin_step();
  const ObjectRecord record{.object_at = 0, .birth = birth, .body_bytes = 0, .metadata_bytes = 0, .flags = 0};
  const Code code = state.put_with_room(ObjectKey::tombstone(id, birth), record);
  if (code == Code::kOk) state.tombstones.insert(named(id, birth));
  return code;
}

void ObjectStore::remove_tombstone(std::span<const std::byte> id, uint64_t birth) {
  State& state = *state_;
  if (!has_tombstone(id, birth)) return;
  state.remove(ObjectKey::tombstone(id, birth));
  state.tombstones.erase(named(id, birth));
}

bool ObjectStore::has_tombstone(std::span<const std::byte> id, uint64_t birth) const {
  const Tombstones& there = state_->tombstones;
  return !there.empty() && there.contains(named(id, birth));
}

const ObjectStore::Tombstones& ObjectStore::tombstones() const noexcept {
  return state_->tombstones;
}

}  // namespace refract::object
