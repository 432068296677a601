// SPDX-License-Identifier: Apache-2.0
// What an executor knows of one connection: its scratch area, and the keys that it was given.
//
// Keys are drawn for each connection and region, so that rights are per connection, and end with it. Threads:
// the executor's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "refract/base/result.h"
#include "refract/memory/remote_pointer.h"
#include "refract/prism/limits.h"
#include "refract/prism/operation.h"

namespace refract::prism::snic {

struct Grant {
  RemoteKey key;
  uint16_t region = 0;
  ChainRights rights;
};

class Connection {
 public:
  Connection() = default;
  // Of keys that follow from a seed instead of being drawn, for runs that must be repeatable.
  explicit Connection(uint64_t key_seed) noexcept : key_seed_(key_seed) {}

  // Draws a key. A region that is granted again keeps its key and gains these rights. kNoSpace: kGrantsMax.
  [[nodiscard]] Result<Grant> grant(uint16_t region, ChainRights rights) noexcept;
  // With a key of the caller's choice, for tests that must be repeatable. kExists: the key or the region is
  // known. kInvalidArgument: key 0.
  [[nodiscard]] Result<> add(const Grant& grant) noexcept;

  // Null: no region has this key.
  [[nodiscard]] const Grant* find(RemoteKey key) const noexcept {
    for (size_t i = 0; i < count_; ++i) {
      if (grants_[i].key == key) return &grants_[i];
    }
    return nullptr;
  }

  [[nodiscard]] std::byte* scratch() noexcept { return scratch_.data(); }
  [[nodiscard]] const std::byte* scratch() const noexcept { return scratch_.data(); }

 private:
  alignas(64) std::array<std::byte, kScratchBytes> scratch_{};
  std::array<Grant, kGrantsMax> grants_{};
  size_t count_ = 0;
  uint64_t key_seed_ = 0;  // 0: the kernel draws.
};

}  // namespace refract::prism::snic
