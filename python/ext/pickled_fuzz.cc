// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a value: what is taken for one lies inside of them.
#include <cstdint>
#include <cstdlib>

#include "python/ext/pickled_layout.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span body(reinterpret_cast<const std::byte*>(data), size);
  const auto parts = refract::python::read_pickled(body);
  if (!parts) return 0;
  uint64_t sum = 0;
  for (const std::byte byte : parts->stream) sum += static_cast<uint64_t>(byte);
  for (const auto& buffer : parts->buffers) {
    for (const std::byte byte : buffer) sum += static_cast<uint64_t>(byte);
    if ((buffer.data() - body.data()) % 64 != 0) __builtin_trap();
  }
  // What reads the bytes must not be left out.
  return sum == UINT64_MAX ? 1 : 0;
}
