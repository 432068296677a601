// SPDX-License-Identifier: Apache-2.0
// Which stores have something in a space beside the table of keys, and where each begins. The table is not
// among them: its root stands in the header (store_root), and a space of which no directory was ever written
// has the table alone.
//
// Threads: the one that owns the space.
#pragma once

#include <optional>
#include <vector>

#include "refract/base/result.h"
#include "refract/memory/remote_pointer.h"
#include "refract/memory/store_name.h"
#include "refract/memory/writer.h"

namespace refract {

// Nothing: the store has no place in the space yet.
[[nodiscard]] std::optional<Offset> root_of_store(const Writer& writer, StoreName name) noexcept;
// From now on the store begins there: one store to memory decides, so that a crash leaves the old place or
// the new one. kNoSpace: kSpaceStoresMax others are named already.
[[nodiscard]] Result<> set_root_of_store(Writer& writer, StoreName name, Offset root) noexcept;
[[nodiscard]] std::vector<StoreName> stores_in(const Writer& writer);

}  // namespace refract
