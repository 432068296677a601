// SPDX-License-Identifier: Apache-2.0
// From a parsed chain to the bytes that travel (docs/formats/prism.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/chains/chain_text.h"

#include "refract/memory/remote_pointer.h"

namespace refract::chains {

// A store that a connection was let into.
struct OpenedStore {
  std::string name;
  uint16_t region = 0;
  RemoteKey key;
  uint64_t root = 0;  // Offset in the region.
};

// REQUIRES: every store that the chain names is among `stores`. Fails where a store's root leads out of what
// an address can say.
[[nodiscard]] Reported<std::vector<std::byte>> encode(const ParsedChain& chain,
                                                      std::span<const OpenedStore> stores);

// The bytes of a chain in hex, a line for each field, each with its name and meaning. Of bytes that are no
// chain, as far as they are one.
[[nodiscard]] std::string wire_text(std::span<const std::byte> chain);
// The same as a JSON object.
[[nodiscard]] std::string wire_json(std::span<const std::byte> chain);

}  // namespace refract::chains
