// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/store_directory.h"

#include <cstddef>
#include <cstdint>

#include "refract/memory/space.h"

namespace refract {
namespace {

constexpr Offset entry_at(uint64_t index) noexcept {
  return {offsetof(SpaceHeader, stores) + index * sizeof(SpaceStore)};
}
constexpr Offset root_at(uint64_t index) noexcept {
  return entry_at(index).plus(offsetof(SpaceStore, root));
}

// The layout version shares its word with the size of chunks.
constexpr Offset kVersionAt{offsetof(SpaceHeader, layout_version)};
static_assert(offsetof(SpaceHeader, layout_version) % sizeof(uint64_t) == 0);

}  // namespace

std::optional<Offset> root_of_store(const Writer& writer, StoreName name) noexcept {
  for (uint64_t index = 0; index < kSpaceStoresMax; ++index) {
    if (writer.load(entry_at(index)) == name.bits) return Offset{writer.load(root_at(index))};
  }
  return std::nullopt;
}

Result<> set_root_of_store(Writer& writer, StoreName name, Offset root) noexcept {
  for (uint64_t index = 0; index < kSpaceStoresMax; ++index) {
    const uint64_t found = writer.load(entry_at(index));
    if (found != 0 && found != name.bits) continue;
    // A release that knows no directory would take the memory of these stores for free: it must refuse the
    // space before there is such a store.
    writer.publish(kVersionAt, writer.load(kVersionAt) | kSpaceHasStores);
    writer.publish(root_at(index), root.value);
    if (found == 0) writer.publish(entry_at(index), name.bits);
    return {};
  }
  return fail(Code::kNoSpace);
}

std::vector<StoreName> stores_in(const Writer& writer) {
  std::vector<StoreName> names;
  for (uint64_t index = 0; index < kSpaceStoresMax; ++index) {
    const uint64_t bits = writer.load(entry_at(index));
    if (bits != 0) names.push_back({bits});
  }
  return names;
}

}  // namespace refract
