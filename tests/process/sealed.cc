// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sealed.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "refract/base/hash.h"

namespace refract::test {

std::string sealed_value(std::string_view key, uint64_t number, uint64_t bytes) {
  std::string value(bytes, '\0');
  std::memcpy(value.data(), &number, sizeof(number));
  std::memcpy(value.data() + 8, &bytes, sizeof(bytes));
  const uint64_t seed = hash_key(std::as_bytes(std::span(key)), number ^ bytes << 32);
  for (uint64_t at = kSealedBytesMin; at < bytes; at += 8) {
    const uint64_t word = (seed + at) * 0x9E3779B97F4A7C15ULL;
    std::memcpy(value.data() + at, &word, std::min<uint64_t>(8, bytes - at));
  }
  return value;
}

std::optional<uint64_t> number_in(std::string_view key, std::string_view value) {
  if (value.size() < kSealedBytesMin) return std::nullopt;
  uint64_t number = 0;
  uint64_t bytes = 0;
  std::memcpy(&number, value.data(), sizeof(number));
  std::memcpy(&bytes, value.data() + 8, sizeof(bytes));
  if (bytes != value.size() || sealed_value(key, number, bytes) != value) return std::nullopt;
  return number;
}

}  // namespace refract::test
