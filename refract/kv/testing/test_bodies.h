// SPDX-License-Identifier: Apache-2.0
// Bodies of calls and of replies, and values, as tests of the rpc path make them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/check.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv::test {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A call's body: its fixed part and what follows on it.
template <typename T>
[[nodiscard]] std::string body_of(const T& fixed, std::string_view behind = {}) {
  std::string body(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  return body.append(behind);
}

[[nodiscard]] inline wire::PutRequest put_request(size_t key_bytes, size_t value_bytes) {
  wire::PutRequest request{};
  request.key.key_bytes = static_cast<uint16_t>(key_bytes);
  request.key.value_bytes = static_cast<uint32_t>(value_bytes);
  return request;
}

[[nodiscard]] inline wire::KeyRef key_ref(size_t key_bytes) {
  wire::KeyRef ref{};
  ref.key_bytes = static_cast<uint16_t>(key_bytes);
  return ref;
}

template <typename T>
[[nodiscard]] T reply_as(const std::string& reply) {
  REFRACT_CHECK(reply.size() >= sizeof(T));
  T value{};
  std::memcpy(&value, reply.data(), sizeof(T));
  return value;
}

// A value that shows where each of its bytes belongs.
[[nodiscard]] inline std::string patterned(size_t bytes, uint64_t seed = 0) {
  std::string value(bytes, '\0');
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = (seed * 29 + at + 1) * 0x9E3779B97F4A7C15ULL;
    std::memcpy(value.data() + at, &word, std::min<size_t>(8, bytes - at));
  }
  return value;
}

}  // namespace refract::kv::test
