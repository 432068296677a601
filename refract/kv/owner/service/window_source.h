// SPDX-License-Identifier: Apache-2.0
// Where a table's service gets windows from: pieces of memory that one peer may reach by one-sided requests
// for a while. The node implements it over a domain's register_region and revoke_region.
//
// A window is asked for only for sessions whose channel says one_sided_bytes_min, so it needs to be open in
// the domain of such channels only. Whoever knows the key may use it: it is drawn at random and told to one
// peer.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "refract/memory/remote_pointer.h"

namespace refract::kv {

struct Window {
  RemotePointer address;  // Of the first byte.
  RemoteKey key;
};

class WindowSource {
 public:
  virtual ~WindowSource() = default;
  // Nothing: there is none to be had now, and the bytes travel in messages. The bytes stay where they are
  // until close().
  [[nodiscard]] virtual std::optional<Window> open(std::span<std::byte> bytes, Rights rights) = 0;
  // From now on nobody reads or writes through the window, a transfer under way included: it fails. Returns
  // how many bytes have been written through it; a byte written twice counts twice.
  virtual uint64_t close(const Window& window) noexcept = 0;
};

}  // namespace refract::kv
