// SPDX-License-Identifier: Apache-2.0
// Tables inside the client's process, behind one interface: what a store costs that is not a store, since
// only this program reaches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "refract/base/report.h"

namespace refract::bench {

class ByteTable {
 public:
  struct Sizes {
    uint64_t keys = 0;  // That it is to hold at most.
    size_t key_bytes = 0;
    size_t value_bytes = 0;
  };

  virtual ~ByteTable() = default;
  // Keys and values have the sizes that it was made for, always.
  virtual void put(std::span<const std::byte> key, std::span<const std::byte> value) = 0;
  // Copies the value out.
  [[nodiscard]] virtual bool get(std::span<const std::byte> key, std::span<std::byte> value) const = 0;
  // Both, with no other access between them: as here where there is one thread.
  [[nodiscard]] virtual bool replace(std::span<const std::byte> key, std::span<std::byte> old_value,
                                     std::span<const std::byte> value) {
    if (!get(key, old_value)) return false;
    put(key, value);
    return true;
  }
  // Which of its forms it has for these sizes, in words.
  [[nodiscard]] virtual std::string_view form() const noexcept = 0;
};

// The table that bars are measured with (open_addressing.h) for its sizes, and for others one that is built
// alike and learns them when it is made. For one thread.
[[nodiscard]] Reported<std::unique_ptr<ByteTable>> make_open_addressing(const ByteTable::Sizes& sizes);
// libcuckoo's. For any number of threads. kUnsupported where this program was built without it.
[[nodiscard]] Reported<std::unique_ptr<ByteTable>> make_cuckoo_table(const ByteTable::Sizes& sizes);

}  // namespace refract::bench
