// SPDX-License-Identifier: Apache-2.0
// The body of a call of kOperations, as a client puts it together (numbered_wire.h).
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "refract/kv/layout/numbered_wire.h"

namespace refract::kv::wire {

// A call's body, put together: first what is acknowledged, then the operations. Its memory grows to what
// bodies need, and is used again. Bounds are the caller's matter.
class OperationsBody {
 public:
  void clear() noexcept {
    used_ = sizeof(OperationsRequest);
    request_ = {};
    answer_bytes_max_ = 0;
  }
  void may_wait() noexcept { request_.flags = OperationsRequest::kMayWait; }
  // REQUIRES: no operation was added.
  void acknowledge(uint64_t number, uint16_t place) {
    const Acknowledged one = Acknowledged::of(number, place);
    append(std::as_bytes(std::span(&one, 1)));
    ++request_.acknowledged;
  }
  // REQUIRES: key and value are as long as the operation says, but for a key that was staged.
  void add(const Operation& operation, std::span<const std::byte> key, std::span<const std::byte> value) {
    append(std::as_bytes(std::span(&operation, 1)));
    append(key);
    append(value);
    ++request_.operations;
    answer_bytes_max_ +=
        sizeof(OperationAnswer) + wire::answer_bytes_max(static_cast<OperationKind>(operation.kind));
  }
  [[nodiscard]] size_t operations() const noexcept { return request_.operations; }
  [[nodiscard]] size_t size() const noexcept { return used_; }
  [[nodiscard]] size_t answer_bytes_max() const noexcept { return answer_bytes_max_; }
  // Until something is added.
  [[nodiscard]] std::span<const std::byte> bytes() {
    bytes_.resize(std::max(bytes_.size(), used_));
    std::memcpy(bytes_.data(), &request_, sizeof(request_));
    return std::span(bytes_).first(used_);
  }

 private:
  void append(std::span<const std::byte> part) {
    const size_t from = used_;
    used_ += part.size();
    if (used_ > bytes_.size()) bytes_.resize(2 * used_);
    if (!part.empty()) std::memcpy(bytes_.data() + from, part.data(), part.size());
  }

  std::vector<std::byte> bytes_;
  size_t used_ = sizeof(OperationsRequest);
  OperationsRequest request_{};
  size_t answer_bytes_max_ = 0;
};

}  // namespace refract::kv::wire
