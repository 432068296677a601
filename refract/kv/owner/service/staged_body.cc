// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/staged_body.h"

#include <utility>

#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

Code StagedBody::add(std::span<const std::byte> body) {
  const auto request = wire::take<wire::BatchPieceRequest>(body);
  if (!request || request->reserved != 0 || body.empty()) return Code::kMalformed;
  if (request->offset == 0) drop();
  if (request->offset != bytes_.size()) return Code::kInvalidated;
  if (body.size() > wire::kBatchBodyBytesMax - bytes_.size()) return Code::kTooLarge;
  if (all_ + body.size() > kBytesMax) return Code::kOverloaded;
  const size_t from = bytes_.size();
  all_ += body.size();
  bytes_.resize(from + body.size());
  copy_possibly_torn(bytes_.data() + from, body.data(), body.size());
  return Code::kOk;
}

std::optional<std::vector<std::byte>> StagedBody::take(uint64_t bytes) {
  if (bytes_.size() != bytes) return std::nullopt;
  all_ -= bytes_.size();
  return std::exchange(bytes_, {});
}

void StagedBody::drop() noexcept {
  all_ -= bytes_.size();
  bytes_ = {};
}

}  // namespace refract::kv
