// SPDX-License-Identifier: Apache-2.0
// What NumberedWrites has in hand, and what it has sent: the numbers, and the calls that carry them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/client/numbered/numbered_write.h"
#include "refract/kv/layout/numbered_wire.h"

namespace refract::client {

// A number in hand.
struct NumberedEntry {
  enum class What : uint8_t {
    kFree,
    kUnderWay,  // It was sent, and this connection has not answered.
    kRefused,   // For now; it is not under way.
    kInDoubt,   // Its connection ended in front of the answer.
    kToAcknowledge,
    kAcknowledging,  // In a call that is not answered.
  };
  enum class Asking : uint8_t { kNot, kWanted, kUnderWay };

  uint64_t number = 0;             // 0: free.
  NumberedWrite* write = nullptr;  // Null: its caller has left, or was told.
  uint32_t tag = 0;
  uint16_t place = kv::wire::kPlaceUnknown;
  What what = What::kFree;
  Asking asking = Asking::kNot;
  bool is_condition = false;
  bool is_given_up = false;  // What was not executed is not sent again.
};

// What is to be sent.
struct NumberedCall {
  enum class What : uint8_t { kBegin, kResume, kOperations };
  struct Item {
    uint64_t number = 0;  // 0: it has none.
    uint32_t tag = 0;
    const NumberedOperation* operation = nullptr;  // Null: the number is withdrawn.
    uint64_t draft = 0;                            // It is committed; 0: the call brings the value.
  };

  What what = What::kOperations;
  bool may_wait = false;
  uint32_t place = 0;  // By which the answer is told.
  size_t count = 0;
  size_t acknowledged_count = 0;
  std::array<Item, kv::wire::kOperationsPerCall> room = {};
  std::array<kv::wire::Acknowledged, kv::wire::kAcknowledgedPerCall> acknowledged_room = {};

  [[nodiscard]] std::span<const Item> items() const noexcept { return std::span(room).first(count); }
  [[nodiscard]] std::span<const kv::wire::Acknowledged> acknowledged() const noexcept {
    return std::span(acknowledged_room).first(acknowledged_count);
  }
};

}  // namespace refract::client
