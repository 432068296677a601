// SPDX-License-Identifier: Apache-2.0
// Pins of a reader that holds more than one PinTable has room for: several tables behind each other, and a
// word that says how many of them the server has to look at.
//
// The first table is another writer's, which may be used by itself as well. Tables are taken into use when
// those before them are full, and given up again when they are empty and others have room; which costs
// nothing for as long as one table does.
//
// Threads: one, except let_go, as PinWriter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "refract/memory/pins.h"

namespace refract {

class WidePins {
 public:
  // Tables behind the first; all outlive this.
  struct More {
    std::span<PinTable> tables;
    // Of all tables: how many are in use. The server looks at so many, and at one where it says 0.
    uint64_t* in_use = nullptr;
    // Gets the memory of a table, before it is used for the first time. False: there is none. Null: all
    // memory is there.
    bool (*take)(PinTable& table) noexcept = nullptr;
  };

  WidePins() = default;
  // Of one table alone.
  explicit WidePins(PinWriter& first) noexcept : WidePins(first, {}) {}
  WidePins(PinWriter& first, const More& more) noexcept;

  // As PinWriter's. Indices of the first table are those of its writer.
  [[nodiscard]] int pin(Offset buffer, uint64_t stamp) noexcept {
    if (tables_ == 1) [[likely]] {
      const int index = first_->pin(buffer, stamp);
      if (index >= 0) [[likely]]
        return index;
    }
    return pin_in_some(buffer, stamp);
  }
  void unpin(int index) noexcept;
  [[nodiscard]] bool let_go(int index) noexcept { return of(index).let_go(index % kIndicesPerTable); }
  [[nodiscard]] size_t retire() noexcept;
  [[nodiscard]] size_t in_use() const noexcept;

  [[nodiscard]] size_t pins_max() const noexcept { return (1 + more_.tables.size()) * kPinsMax; }
  [[nodiscard]] size_t tables_in_use() const noexcept { return tables_; }

 private:
  static constexpr int kIndicesPerTable = 256;
  // So many pins share one look for tables that are not needed any more.
  static constexpr uint32_t kPinsPerLook = 256;

  [[nodiscard]] PinWriter& writer(size_t table) const noexcept {
    return table == 0 ? *first_ : writers_[table - 1];
  }
  [[nodiscard]] PinWriter& of(int index) const noexcept {
    return writer(static_cast<size_t>(index / kIndicesPerTable));
  }
  [[nodiscard, gnu::noinline]] int pin_in_some(Offset buffer, uint64_t stamp) noexcept;
  [[nodiscard]] bool add_table() noexcept;
  void give_up_empty_tables() noexcept;

  PinWriter* first_ = nullptr;
  More more_;
  std::unique_ptr<PinWriter[]> writers_;  // Of more_.tables.
  size_t made_ = 0;                       // Of these, how many have taken their table over.
  size_t tables_ = 1;                     // In use.
  size_t current_ = 0;                    // Where the next pin is tried first.
  uint32_t pins_until_look_ = kPinsPerLook;
};

}  // namespace refract
