// SPDX-License-Identifier: Apache-2.0
// What has come of a body that is longer than a message (batch_wire.h), of one session; the bytes of all
// sessions of a service together are bounded.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/layout/batch_wire.h"

namespace refract::kv {

class StagedBody {
 public:
  static constexpr uint64_t kBytesMax = 256 * kMiB;  // Of all sessions.

  // `all` counts the bytes of all sessions, and outlives this.
  explicit StagedBody(uint64_t& all) noexcept : all_(all) {}
  StagedBody(const StagedBody&) = delete;
  StagedBody& operator=(const StagedBody&) = delete;
  ~StagedBody() { drop(); }

  // Of a call of kBatchPiece: what is to be answered.
  [[nodiscard]] Code add(std::span<const std::byte> body);
  // All of it, which is not here any more. Nothing: there are not so many bytes.
  [[nodiscard]] std::optional<std::vector<std::byte>> take(uint64_t bytes);

 private:
  void drop() noexcept;

  uint64_t& all_;
  std::vector<std::byte> bytes_;
};

}  // namespace refract::kv
