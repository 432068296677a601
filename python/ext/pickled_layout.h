// SPDX-License-Identifier: Apache-2.0
// The body of an object that is a Python value: what pickle made of it, and the buffers that it refers to,
// such as the data of arrays, each where a reader can use it in place. docs/formats/pickled.md.
//
// Nothing here knows Python. Threads: none of it is shared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace refract::python {

// "refract" and 5, the protocol of pickle.
inline constexpr std::array<char, 8> kPickledMark = {'r', 'e', 'f', 'r', 'a', 'c', 't', '\x05'};
inline constexpr uint32_t kPickledVersion = 1;
inline constexpr uint64_t kPickledAlignment = 64;
inline constexpr uint32_t kPickledBuffersMax = 1U << 24;

struct PickledHeader {
  std::array<char, 8> mark;
  uint32_t version;
  uint32_t buffers;       // So many PickledPiece follow.
  uint64_t stream_bytes;  // Behind them.
};
static_assert(sizeof(PickledHeader) == 24 && offsetof(PickledHeader, stream_bytes) == 16);

struct PickledPiece {
  uint64_t at;  // From the body's beginning; a multiple of kPickledAlignment.
  uint64_t bytes;
};
static_assert(sizeof(PickledPiece) == 16);

// Where everything goes. Empty: too many buffers, or lengths that no object can have.
struct PickledPlan {
  PickledHeader header;
  std::vector<PickledPiece> pieces;
  uint64_t stream_at = 0;
  uint64_t body_bytes = 0;
};
[[nodiscard]] std::optional<PickledPlan> plan_pickled(uint64_t stream_bytes,
                                                      std::span<const uint64_t> buffers_bytes);

// What a body says. Empty: it is no such value, or it contradicts itself; every part lies inside of the body.
struct PickledParts {
  std::span<const std::byte> stream;
  std::vector<std::span<const std::byte>> buffers;
};
[[nodiscard]] std::optional<PickledParts> read_pickled(std::span<const std::byte> body);

}  // namespace refract::python
