// SPDX-License-Identifier: Apache-2.0
// libcuckoo's table; no_cuckoo_table.cc is built where it is not installed.
#include <array>
#include <cstring>
#include <libcuckoo/cuckoohash_map.hh>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "bench/load/byte_table.h"
#include "bench/load/entry.h"

#include "refract/base/hash.h"

namespace refract::bench {
namespace {

// The same hash as ours and the other table's, so that it decides nothing.
struct HashOfBytes {
  template <typename Bytes>
  size_t operator()(const Bytes& bytes) const noexcept {
    return hash_key(std::as_bytes(std::span(bytes)), 42);
  }
};

// A string that is held is compared with a view: nothing is allocated to look for it.
struct SameBytes {
  template <typename One, typename Other>
  bool operator()(const One& one, const Other& other) const noexcept {
    return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size()) == 0;
  }
};

template <typename Held>
constexpr bool kIsString = std::is_same_v<Held, std::string>;

// An array's size is known when this is compiled, a string's is whatever it was made for.
template <typename Held>
Held held(std::span<const std::byte> bytes) {
  Held copy{};
  if constexpr (kIsString<Held>) copy.resize(bytes.size());
  std::memcpy(copy.data(), bytes.data(), copy.size());
  return copy;
}

template <typename Held>
auto looked_for(std::span<const std::byte> bytes) {
  if constexpr (kIsString<Held>) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } else {
    return held<Held>(bytes);
  }
}

template <typename HeldKey, typename HeldValue>
class Cuckoo final : public ByteTable {
 public:
  explicit Cuckoo(const Sizes& sizes) : map_(sizes.keys) {
    // Else it throws where a table that is nearly empty has to grow.
    map_.minimum_load_factor(0);
  }

  void put(std::span<const std::byte> key, std::span<const std::byte> value) override {
    const auto overwrite = [&](HeldValue& there) { std::memcpy(there.data(), value.data(), there.size()); };
    // The value is only made where the key is new.
    if (map_.update_fn(looked_for<HeldKey>(key), overwrite)) return;
    map_.upsert(held<HeldKey>(key), overwrite, held<HeldValue>(value));
  }
  bool get(std::span<const std::byte> key, std::span<std::byte> value) const override {
    return map_.find_fn(looked_for<HeldKey>(key), [&](const HeldValue& there) {
      std::memcpy(value.data(), there.data(), there.size());
    });
  }
  bool replace(std::span<const std::byte> key, std::span<std::byte> old_value,
               std::span<const std::byte> value) override {
    return map_.update_fn(looked_for<HeldKey>(key), [&](HeldValue& there) {
      std::memcpy(old_value.data(), there.data(), there.size());
      std::memcpy(there.data(), value.data(), there.size());
    });
  }
  [[nodiscard]] std::string_view form() const noexcept override {
    return kIsString<HeldKey> ? "keys and values are strings" : "keys and values lie in its slots";
  }

 private:
  libcuckoo::cuckoohash_map<HeldKey, HeldValue, HashOfBytes, SameBytes> map_;
};

}  // namespace

Reported<std::unique_ptr<ByteTable>> make_cuckoo_table(const ByteTable::Sizes& sizes) {
  if (sizes.key_bytes == sizeof(Key) && sizes.value_bytes == sizeof(Value)) {
    return std::make_unique<Cuckoo<std::array<std::byte, sizeof(Key)>, std::array<std::byte, sizeof(Value)>>>(
        sizes);
  }
  return std::make_unique<Cuckoo<std::string, std::string>>(sizes);
}

}  // namespace refract::bench
