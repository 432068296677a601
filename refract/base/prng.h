// SPDX-License-Identifier: Apache-2.0
// Chance comes in by this object, so that a seed replays a run. Not for secrets: see secure_random.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace refract {

// splitmix64: also the way to turn one seed into several.
[[nodiscard]] constexpr uint64_t mix(uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// 128 bits, for a multiplication's high half; the keyword is an extension that both compilers have.
__extension__ using Wide = unsigned __int128;

// xoshiro256**, seeded by splitmix64. One owner, no locks.
class Prng {
 public:
  explicit constexpr Prng(uint64_t seed) noexcept {
    for (uint64_t& word : state_) word = mix(seed++);
  }

  [[nodiscard]] constexpr uint64_t next() noexcept {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound). REQUIRES: bound > 0.
  [[nodiscard]] constexpr uint64_t below(uint64_t bound) noexcept {
    return static_cast<uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

  // True with the given probability.
  [[nodiscard]] constexpr bool chance(double probability) noexcept {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  uint64_t state_[4] = {};
};

// Fills `bytes` from the kernel's generator: for rkeys and identities. Aborts if the kernel has none.
void secure_random(std::span<std::byte> bytes) noexcept;
[[nodiscard]] uint64_t secure_random_u64() noexcept;

}  // namespace refract
