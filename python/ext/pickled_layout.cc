// SPDX-License-Identifier: Apache-2.0
#include "python/ext/pickled_layout.h"

#include <cstring>
#include <limits>

namespace refract::python {

namespace {

constexpr uint64_t kBytesMax = std::numeric_limits<int64_t>::max();

bool is_inside(const PickledPiece& piece, uint64_t body_bytes) noexcept {
  return piece.at <= body_bytes && piece.bytes <= body_bytes - piece.at;
}

}  // namespace

std::optional<PickledPlan> plan_pickled(uint64_t stream_bytes, std::span<const uint64_t> buffers_bytes) {
  if (buffers_bytes.size() > kPickledBuffersMax || stream_bytes > kBytesMax / 2) return std::nullopt;
  PickledPlan plan{.header = {.mark = kPickledMark,
                              .version = kPickledVersion,
                              .buffers = static_cast<uint32_t>(buffers_bytes.size()),
                              .stream_bytes = stream_bytes},
                   .pieces = {}};
  plan.stream_at = sizeof(PickledHeader) + buffers_bytes.size() * sizeof(PickledPiece);
  plan.body_bytes = plan.stream_at + stream_bytes;
  for (const uint64_t bytes : buffers_bytes) {
    const uint64_t at = (plan.body_bytes + kPickledAlignment - 1) / kPickledAlignment * kPickledAlignment;
    if (bytes > kBytesMax / 2 || at > kBytesMax / 2) return std::nullopt;
    plan.pieces.push_back({.at = at, .bytes = bytes});
    plan.body_bytes = at + bytes;
  }
  return plan;
}

std::optional<PickledParts> read_pickled(std::span<const std::byte> body) {
  PickledHeader header{};
  if (body.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, body.data(), sizeof(header));
  if (header.mark != kPickledMark || header.version != kPickledVersion) return std::nullopt;
  const uint64_t stream_at = sizeof(header) + uint64_t{header.buffers} * sizeof(PickledPiece);
  if (header.buffers > kPickledBuffersMax || !is_inside({stream_at, header.stream_bytes}, body.size())) {
    return std::nullopt;
  }
  PickledParts parts{.stream = body.subspan(stream_at, header.stream_bytes), .buffers = {}};
  parts.buffers.reserve(header.buffers);
  for (uint32_t i = 0; i < header.buffers; ++i) {
    PickledPiece piece{};
    std::memcpy(&piece, body.data() + sizeof(header) + i * sizeof(piece), sizeof(piece));
    if (piece.at % kPickledAlignment != 0 || !is_inside(piece, body.size())) return std::nullopt;
    parts.buffers.push_back(body.subspan(piece.at, piece.bytes));
  }
  return parts;
}

}  // namespace refract::python
