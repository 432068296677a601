// SPDX-License-Identifier: Apache-2.0
// What became of the writes that carried an identity: the last ones of the clients that wrote last. Bounded,
// and it knows what it has forgotten: a write that is not found here was either not executed in the time that
// this memory covers, or nobody can tell. docs/design/012-request-identity.md
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "refract/base/result.h"
#include "refract/kv/contract.h"

namespace refract::kv {

class Outcomes {
 public:
  static constexpr size_t kPerClient = 256;  // By the sequence's low bits.
  static constexpr size_t kClientsMax = 1024;

  struct Outcome {
    uint64_t sequence = 0;
    uint64_t version = 0;
    Code code = Code::kOk;

    [[nodiscard]] Result<uint64_t> result() const noexcept {
      return code == Code::kOk ? Result<uint64_t>(version) : fail(code);
    }
  };

  // Nothing executed before `since_ns` is known here. Times are of one clock that never goes back.
  explicit Outcomes(uint64_t since_ns) noexcept : complete_since_ns_(since_ns) {}

  void remember(RequestId request, const Result<uint64_t>& result, uint64_t now_ns);
  [[nodiscard]] std::optional<Outcome> find(RequestId request) const noexcept;
  // Whether a write first sent at `first_sent_ns` or later would be found if it had been executed.
  [[nodiscard]] bool would_know(RequestId request, uint64_t first_sent_ns) const noexcept;

  [[nodiscard]] size_t clients() const noexcept { return by_client_.size(); }

 private:
  struct Client {
    uint64_t id = 0;
    uint64_t used_ns = 0;
    uint64_t forgotten = 0;  // The highest sequence whose place another one took.
    std::array<Outcome, kPerClient> outcomes{};
  };

  [[nodiscard]] Client& client(uint64_t id);

  std::list<Client> clients_;  // Used last, first.
  std::unordered_map<uint64_t, std::list<Client>::iterator> by_client_;
  uint64_t complete_since_ns_;
};

}  // namespace refract::kv
