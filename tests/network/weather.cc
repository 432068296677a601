// SPDX-License-Identifier: Apache-2.0
#include "tests/network/weather.h"

#include <arpa/inet.h>
#include <netinet/ip.h>

#include <cstring>

namespace refract::test {

void Weather::choose(const std::string& address) {
  const std::scoped_lock lock(mutex_);
  address_ = ::inet_addr(address.c_str());
}

void Weather::set(const Kind& kind) {
  const std::scoped_lock lock(mutex_);
  kind_ = kind;
}

Weather::Counts Weather::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

bench::PacketFates::Fate Weather::fate_of(std::span<const std::byte> packet) noexcept {
  iphdr header;
  if (packet.size() < sizeof(header)) return {};
  std::memcpy(&header, packet.data(), sizeof(header));
  const std::scoped_lock lock(mutex_);
  const bool to_far = header.daddr == address_;
  if (header.version != 4 || (!to_far && header.saddr != address_)) return {};
  ++counts_.packets;
  if (to_far ? kind_.cut_to_far : kind_.cut_to_near) {
    ++counts_.cut;
    return {.copies = 0};
  }
  if (prng_.chance(kind_.loss)) {
    ++counts_.lost;
    return {.copies = 0};
  }
  Fate fate;
  if (prng_.chance(kind_.duplicates)) {
    ++counts_.duplicated;
    fate.copies = 2;
  }
  if (prng_.chance(kind_.reorder)) {
    ++counts_.reordered;
    fate.delay_ns = prng_.below(kind_.reorder_ns + 1);
  }
  return fate;
}

}  // namespace refract::test
