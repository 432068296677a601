// SPDX-License-Identifier: Apache-2.0
// What the measuring end of `refract-bench fabric` tells the other before it begins, over the channel that it
// measures.
//
// Orders are SENDs and each is answered by one; what comes between is what was ordered. Both ends are the
// same program, so that the form may change with it; the magic number is another in each form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace refract::bench {

enum class Command : uint64_t {
  kFacts = 1,      // Answer: the key of the serving end's region.
  kEcho = 2,       // Each message that is no order is answered by one of `bytes`.
  kCount = 3,      // They are counted from 0. Answer to the next kTell.
  kTell = 4,       // Answer: how many were counted.
  kWriteBack = 5,  // When `first`, `first` + 1 ... appear at the end of the written area's first `bytes`, the
                   // like is written to `address`.
  kRest = 6,       // Nothing is coming for a while: sleep until something does.
};

struct FabricOrder {
  static constexpr uint64_t kMagic = 0x3172656472624652;  // The bytes "RFbrder1".

  uint64_t magic = kMagic;
  Command command = Command::kFacts;
  uint64_t bytes = 0;
  uint64_t first = 0;
  uint64_t address = 0;  // A RemotePointer, and its key.
  uint64_t key = 0;
  uint64_t reserved[2] = {};
};
static_assert(sizeof(FabricOrder) == 64 && std::is_trivially_copyable_v<FabricOrder>);

struct FabricAnswer {
  uint64_t value = 0;
  uint64_t key = 0;
};
static_assert(sizeof(FabricAnswer) == 16);

// Whether a message is an order: the bytes that are sent otherwise never begin like one.
[[nodiscard]] inline std::optional<FabricOrder> order_in(std::span<const std::byte> message) noexcept {
  FabricOrder order;
  if (message.size() != sizeof(order)) return std::nullopt;
  std::memcpy(&order, message.data(), sizeof(order));
  if (order.magic != FabricOrder::kMagic) return std::nullopt;
  return order;
}

}  // namespace refract::bench
