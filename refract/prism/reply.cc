// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/reply.h"

#include <algorithm>
#include <cstring>

#include "refract/prism/operation.h"

namespace refract::prism {

Result<Reply> Reply::of(std::span<const std::byte> bytes, size_t operations) noexcept {
  Reply reply;
  uint64_t at = operations * sizeof(Outcome);
  if (operations > kOperationsMax || bytes.size() < at) return fail(Code::kMalformed);
  for (size_t i = 0; i < operations; ++i) {
    Outcome outcome;
    std::memcpy(&outcome, bytes.data() + i * sizeof(Outcome), sizeof(outcome));
    if (outcome.reserved != 0 || padded(outcome.bytes) > bytes.size() - at) return fail(Code::kMalformed);
    reply.outputs_[i] = {
        .at = static_cast<uint32_t>(at), .bytes = outcome.bytes, .code = code_from_wire(outcome.code)};
    at += padded(outcome.bytes);
  }
  if (at != bytes.size()) return fail(Code::kMalformed);
  reply.payload_ = bytes;
  reply.count_ = operations;
  return reply;
}

uint64_t Reply::word(size_t index) const noexcept {
  const std::span<const std::byte> output = bytes(index);
  uint64_t value = 0;
  const size_t count = std::min(output.size(), sizeof(value));
  if (count > 0) std::memcpy(&value, output.data(), count);
  return value;
}

bool Reply::all_ok() const noexcept {
  return count_ > 0 && std::ranges::all_of(std::span(outputs_).first(count_),
                                           [](const Output& output) { return output.code == Code::kOk; });
}

}  // namespace refract::prism
