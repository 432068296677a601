// SPDX-License-Identifier: Apache-2.0
#include "bench/load/byte_table.h"

#include <cstring>
#include <utility>

#include "bench/load/open_addressing.h"
#include "bench/load/sized_table.h"

namespace refract::bench {
namespace {

class TableOfTheBars final : public ByteTable {
 public:
  explicit TableOfTheBars(OpenAddressing table) noexcept : table_(std::move(table)) {}

  void put(std::span<const std::byte> key, std::span<const std::byte> value) override {
    Value copy;
    std::memcpy(&copy, value.data(), sizeof(copy));
    table_.put(key_of(key), copy);
  }
  bool get(std::span<const std::byte> key, std::span<std::byte> value) const override {
    Value copy;
    if (!table_.get(key_of(key), copy)) return false;
    std::memcpy(value.data(), &copy, sizeof(copy));
    return true;
  }
  [[nodiscard]] std::string_view form() const noexcept override { return "sizes known when compiled"; }

 private:
  static Key key_of(std::span<const std::byte> bytes) noexcept {
    Key key;
    std::memcpy(&key, bytes.data(), sizeof(key));
    return key;
  }

  OpenAddressing table_;
};

class TableOfAnySizes final : public ByteTable {
 public:
  explicit TableOfAnySizes(SizedTable table) noexcept : table_(std::move(table)) {}

  void put(std::span<const std::byte> key, std::span<const std::byte> value) override {
    table_.put(key, value);
  }
  bool get(std::span<const std::byte> key, std::span<std::byte> value) const override {
    return table_.get(key, value);
  }
  [[nodiscard]] std::string_view form() const noexcept override { return "sizes known when made"; }

 private:
  SizedTable table_;
};

}  // namespace

Reported<std::unique_ptr<ByteTable>> make_open_addressing(const ByteTable::Sizes& sizes) {
  if (sizes.key_bytes == sizeof(Key) && sizes.value_bytes == sizeof(Value)) {
    // One more: probing ends at an empty slot.
    Reported<OpenAddressing> table = OpenAddressing::create(sizes.keys + 1);
    if (!table) return report(table.error());
    return std::make_unique<TableOfTheBars>(std::move(*table));
  }
  Reported<SizedTable> table = SizedTable::create(
      {.entries = sizes.keys, .key_bytes = sizes.key_bytes, .value_bytes = sizes.value_bytes});
  if (!table) return report(table.error());
  return std::make_unique<TableOfAnySizes>(std::move(*table));
}

}  // namespace refract::bench
