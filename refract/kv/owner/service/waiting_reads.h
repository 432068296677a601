// SPDX-License-Identifier: Apache-2.0
// Reads that met an entry of an open far part, until its home has been looked at: docs/design/070.
//
// Threads: the owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "refract/base/units.h"
#include "refract/rpc/server.h"

namespace refract::kv {

class WaitingReads {
 public:
  static constexpr size_t kMax = 1024;
  static constexpr size_t kPerSession = 256;  // One must not take the places of all.
  static constexpr uint64_t kBytesMax = 8 * kMiB;
  static constexpr uint64_t kLongest_ns = kSecond_ns;

  struct Read {
    rpc::Responder from;
    rpc::MessageHeader header{};
    std::vector<std::byte> payload;
    std::optional<uint64_t> hash;  // Of its key; nothing: of any.
    uint64_t came = 0;             // By Table::Parts::far_tick().
    uint64_t give_up_ns = 0;
  };
  // Copies the call. False: there are too many.
  [[nodiscard]] bool add(const rpc::IncomingCall& call, std::optional<uint64_t> hash, uint64_t came,
                         uint64_t now_ns);
  void drop(rpc::SessionId session);
  [[nodiscard]] std::deque<Read> take() noexcept;
  void put_back(Read read);
  [[nodiscard]] bool empty() const noexcept { return reads_.empty(); }
  [[nodiscard]] size_t count() const noexcept { return reads_.size(); }

 private:
  std::deque<Read> reads_;
  uint64_t bytes_ = 0;
};

}  // namespace refract::kv
