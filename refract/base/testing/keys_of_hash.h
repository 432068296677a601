// SPDX-License-Identifier: Apache-2.0
// Keys for hashes of one's choice, as any client can compute them that knows the seed: XXH3 of eight bytes is
// a bijection. For tests and benchmarks of what such keys do to a table.
//
// Threads: any.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "refract/base/hash.h"

namespace refract::test {

class KeysOfHash {
 public:
  explicit KeysOfHash(uint64_t seed) noexcept : flip_(0) {
    const uint64_t zero = 0;
    flip_ = undo(hash_key(std::as_bytes(std::span(&zero, 1)), seed));
  }

  // The key of eight bytes with this hash.
  [[nodiscard]] std::string operator()(uint64_t hash) const {
    const uint64_t word = std::rotl(undo(hash) ^ flip_, 32);
    std::string key(sizeof(word), '\0');
    std::memcpy(key.data(), &word, sizeof(word));
    return key;
  }
  // The key with this number of those whose hashes end in `low_bits`, of `bits` bits: they share a bucket of
  // every table with fewer than 2^bits buckets. With fewer than 2^(56-bits) of them their fingerprint, too.
  [[nodiscard]] std::string of_bucket(uint64_t number, uint64_t low_bits, int bits) const {
    return (*this)((number << bits) | low_bits);
  }

 private:
  // What XXH3 has mixed, from the last step to the first.
  [[nodiscard]] static uint64_t undo(uint64_t hash) noexcept {
    constexpr uint64_t kFactor = 0x9fb21c651e98df25;
    uint64_t inverse = kFactor;  // Right in three bits, then in twice as many each time.
    for (int i = 0; i < 5; ++i) inverse *= 2 - kFactor * inverse;
    hash ^= (hash >> 28) ^ (hash >> 56);
    hash *= inverse;
    hash ^= (hash >> 35) + sizeof(uint64_t);
    hash *= inverse;
    // x ^ rotl(x, 49) ^ rotl(x, 24), 64 times, is x.
    for (int i = 0; i < 63; ++i) hash ^= std::rotl(hash, 49) ^ std::rotl(hash, 24);
    return hash;
  }

  uint64_t flip_;
};

}  // namespace refract::test
