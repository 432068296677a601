// SPDX-License-Identifier: Apache-2.0
// A hash for which only a holder of its key can choose inputs: SipHash. With one round for each word and
// three at the end it is for tables that are private to a process, under keys that others choose: nothing of
// that is ever stored or sent. With two and four, results may be seen by all, and do not tell the key.
//
// Threads: any; it does not change.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "refract/base/prng.h"

namespace refract {

struct SecretKey {
  uint64_t low = 0;
  uint64_t high = 0;

  [[nodiscard]] static SecretKey draw() noexcept {
    return {.low = secure_random_u64(), .high = secure_random_u64()};
  }
};

// SipHash-c-d as its authors define it.
template <int kRoundsPerWord, int kRoundsAtEnd>
class SipHash {
 public:
  explicit constexpr SipHash(const SecretKey& key) noexcept : key_(key) {}

  [[nodiscard]] uint64_t operator()(std::span<const std::byte> bytes) const noexcept {
    State state = begin();
    const uint64_t last = uint64_t{bytes.size()} << 56;
    for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
      state.take(word_of(bytes.first(sizeof(uint64_t))));
    }
    state.take(last | word_of(bytes));
    return state.end();
  }
  // As of its eight bytes.
  [[nodiscard]] uint64_t operator()(uint64_t word) const noexcept {
    State state = begin();
    state.take(word);
    state.take(uint64_t{sizeof(word)} << 56);
    return state.end();
  }

 private:
  struct State {
    uint64_t v0, v1, v2, v3;

    template <int kRounds>
    constexpr void stir() noexcept {
      for (int round = 0; round < kRounds; ++round) {
        v0 += v1;
        v2 += v3;
        v1 = std::rotl(v1, 13) ^ v0;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 = std::rotl(v0, 32) + v3;
        v2 += v1;
        v3 = std::rotl(v3, 21) ^ v0;
        v1 = std::rotl(v1, 17) ^ v2;
        v2 = std::rotl(v2, 32);
      }
    }
    constexpr void take(uint64_t word) noexcept {
      v3 ^= word;
      stir<kRoundsPerWord>();
      v0 ^= word;
    }
    [[nodiscard]] constexpr uint64_t end() noexcept {
      v2 ^= 0xff;
      stir<kRoundsAtEnd>();
      return v0 ^ v1 ^ v2 ^ v3;
    }
  };

  [[nodiscard]] constexpr State begin() const noexcept {
    return {.v0 = key_.low ^ 0x736f6d6570736575,
            .v1 = key_.high ^ 0x646f72616e646f6d,
            .v2 = key_.low ^ 0x6c7967656e657261,
            .v3 = key_.high ^ 0x7465646279746573};
  }
  // Of up to eight bytes, the first lowest.
  [[nodiscard]] static uint64_t word_of(std::span<const std::byte> bytes) noexcept {
    uint64_t word = 0;
    if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
    return word;
  }

  SecretKey key_;
};

using SecretHash = SipHash<1, 3>;

// For standard containers under keys that others choose; each has a key of its own.
class SecretHasher {
 public:
  using is_transparent = void;
  [[nodiscard]] size_t operator()(uint64_t word) const noexcept { return hash_(word); }
  [[nodiscard]] size_t operator()(std::string_view text) const noexcept {
    return hash_(std::as_bytes(std::span(text)));
  }

 private:
  SecretHash hash_{SecretKey::draw()};
};

}  // namespace refract
