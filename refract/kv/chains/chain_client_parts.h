// SPDX-License-Identifier: Apache-2.0
// What the sources of ChainClient share, and no other source includes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "refract/kv/chains/chain_client.h"
#include "refract/prism/limits.h"
#include "refract/prism/operation.h"

namespace refract::kv {

// Chains that put nothing into the owner's memory are shorter.
inline constexpr size_t kSearchBytesMax =
    sizeof(prism::ChainHeader) + prism::kOperationsMax * sizeof(prism::OperationHeader);

[[nodiscard]] inline bool may_change(const ChainSearch& /*search*/) noexcept {
  return false;
}
[[nodiscard]] inline bool may_change(const ChainPut& put) noexcept {
  return put.may_change();
}

[[nodiscard]] inline size_t bytes_of_chain(const ChainSearch& /*search*/) noexcept {
  return kSearchBytesMax;
}
[[nodiscard]] inline size_t bytes_of_chain(const ChainPut& put) noexcept {
  return std::max<size_t>(kSearchBytesMax, put.chain_bytes());
}

class ChainClient::Message {
 public:
  Message(ChainClient& client, size_t bytes) : client_(client) {
    if (!client_.free_messages_.empty()) {
      bytes_ = std::move(client_.free_messages_.back());
      client_.free_messages_.pop_back();
    }
    grow(bytes);
  }
  // REQUIRES: nothing in it is wanted any more.
  void grow(size_t bytes) {
    if (bytes_.size() < bytes) bytes_.resize(bytes);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { client_.free_messages_.push_back(std::move(bytes_)); }

  [[nodiscard]] std::span<std::byte> room() noexcept { return bytes_; }

 private:
  ChainClient& client_;
  std::vector<std::byte> bytes_;
};

template <typename Machine>
auto ChainClient::take(Machine& machine, const Result<prism::Reply>& reply, uint64_t epoch) noexcept {
  // The table that was asked about may be another by now, which matters to those who still search in it.
  const bool is_stale = epoch != epoch_ && !may_change(machine);
  if (!reply || is_stale) return machine.give_up(ByRpc::kRefused);
  return machine.take(*reply);
}

}  // namespace refract::kv
