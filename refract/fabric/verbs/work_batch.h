// SPDX-License-Identifier: Apache-2.0
// The work requests of one channel's turn, linked as the device takes them; and how their completions find
// back. Only sources include this.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "refract/fabric/verbs/tuning.h"

namespace refract::fabric::verbs {

struct WorkBatch {
  std::array<ibv_send_wr, kSendQueue> requests;
  std::array<ibv_sge, kSendQueue> places;
  uint32_t count = 0;

  // Without bytes until place_of() is given some.
  ibv_send_wr& add(uint64_t id) noexcept {
    ibv_send_wr& request = requests[count];
    request = {};
    request.wr_id = id;
    if (count > 0) requests[count - 1].next = &request;
    ++count;
    return request;
  }
  void place(ibv_send_wr& request, const ibv_sge& where) noexcept {
    ibv_sge& place = places[count - 1];
    place = where;
    request.sg_list = &place;
    request.num_sge = where.length > 0 ? 1 : 0;
  }
};

// The id of a receive is its buffer's index; that of a send says whose it is.
inline constexpr uint64_t kSendBit = uint64_t{1} << 63;
inline constexpr uint32_t kGenerationMask = 0x7fff;

struct WorkId {
  uint32_t generation = 0;  // 15 bits.
  uint32_t slot = 0;        // 16 bits.
  uint32_t sequence = 0;

  [[nodiscard]] constexpr uint64_t bits() const noexcept {
    return kSendBit | (uint64_t{generation} << 48) | (uint64_t{slot} << 32) | sequence;
  }
  [[nodiscard]] static constexpr WorkId from(uint64_t bits) noexcept {
    return {.generation = static_cast<uint32_t>(bits >> 48) & kGenerationMask,
            .slot = static_cast<uint32_t>(bits >> 32) & 0xffff,
            .sequence = static_cast<uint32_t>(bits)};
  }
};

// The immediate of a message: how many credits it returns, and whether that is all it does, or whether it
// ends an introduction.
inline constexpr uint32_t kCreditsMask = 0xffff;
inline constexpr uint32_t kCreditsOnly = uint32_t{1} << 31;
inline constexpr uint32_t kIsGreeting = uint32_t{1} << 30;

}  // namespace refract::fabric::verbs
