// SPDX-License-Identifier: Apache-2.0
// What becomes of the packets to and from one address at the far end of a path; those of other addresses
// arrive once, in order. Chance comes from a seed, but the moments at which packets come do not: a run cannot
// be repeated packet by packet.
//
// Threads: any, except fate_of.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "bench/measure/held_packets.h"

#include "refract/base/prng.h"

namespace refract::test {

class Weather final : public bench::PacketFates {
 public:
  struct Kind {
    double loss = 0;
    double duplicates = 0;
    double reorder = 0;
    uint64_t reorder_ns = 0;  // By how much at most such a packet is late.
    bool cut_to_far = false;
    bool cut_to_near = false;
  };
  struct Counts {
    uint64_t packets = 0;
    uint64_t lost = 0;
    uint64_t duplicated = 0;
    uint64_t reordered = 0;
    uint64_t cut = 0;
  };
  explicit Weather(uint64_t seed) : prng_(seed) {}

  // An IPv4 address.
  void choose(const std::string& address);
  void set(const Kind& kind);
  [[nodiscard]] Counts counts() const;

  [[nodiscard]] Fate fate_of(std::span<const std::byte> packet) noexcept override;

 private:
  mutable std::mutex mutex_;  // Of all.
  Prng prng_;
  uint32_t address_ = 0;  // As it stands in a packet.
  Kind kind_;
  Counts counts_;
};

}  // namespace refract::test
