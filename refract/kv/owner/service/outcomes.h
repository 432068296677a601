// SPDX-License-Identifier: Apache-2.0
// What became of the writes that carried an identity: the last ones of the clients that wrote last. Bounded,
// and it knows what it has forgotten: a write that is not found here was not executed in the time that this
// memory covers, or its outcome is not known. docs/design/012-request-identity.md
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/secret_hash.h"
#include "refract/kv/layout/contract.h"

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

  // `opened_ns`: when the session opened by which it came; 0: not known.
  void remember(RequestId request, const Result<uint64_t>& result, uint64_t now_ns, uint64_t opened_ns = 0);
  [[nodiscard]] std::optional<Outcome> find(RequestId request) const noexcept;
  // Of a batch whose answer the table cannot tell later, all that was answered, while there is room for it:
  // the last ones. Empty: it is not known. Good until the next call.
  void remember_answer(RequestId request, std::span<const std::byte> answer);
  [[nodiscard]] std::span<const std::byte> answer_to(RequestId request) const noexcept;
  static constexpr size_t kAnswersBytesMax = size_t{1} << 20;
  // Whether a write first sent at `first_sent_ns` or later would be found if it had been executed.
  [[nodiscard]] bool would_know(RequestId request, uint64_t first_sent_ns) const noexcept;

  // Whether a first attempt that comes by a session opened at `opened_ns` may be behind its own repetition,
  // which was executed over a younger session and is forgotten.
  [[nodiscard]] bool may_be_late(RequestId request, uint64_t opened_ns) const noexcept;

  // For a write that takes time between the look at its past and its effect (it waits for memory, or for its
  // value): what becomes of the same write meanwhile, by another way, is not forgotten before unwatch(),
  // which comes as often. A write without an identity is not watched.
  void watch(RequestId request);
  void unwatch(RequestId request);
  // Whether it is, and has not been executed since.
  [[nodiscard]] bool is_open(RequestId request) const noexcept;
  [[nodiscard]] size_t watched() const noexcept { return watched_.size(); }

  [[nodiscard]] size_t clients() const noexcept { return by_client_.size(); }

 private:
  struct Client {
    uint64_t id = 0;
    uint64_t used_ns = 0;
    uint64_t forgotten = 0;  // The highest sequence whose place another one took.
    uint64_t opened_ns = 0;  // When the youngest session opened by which it wrote.
    std::array<Outcome, kPerClient> outcomes{};
  };

  struct Watched {
    size_t times = 0;
    std::optional<Outcome> outcome;
  };

  [[nodiscard]] Client& client(uint64_t id);

  std::list<Client> clients_;  // Used last, first.
  // Clients choose their numbers.
  std::unordered_map<uint64_t, std::list<Client>::iterator, SecretHasher> by_client_;
  std::map<RequestId, Watched> watched_;
  std::map<RequestId, std::vector<std::byte>> answers_;
  std::deque<RequestId> answered_;  // In the order in which they came.
  size_t answers_bytes_ = 0;
  uint64_t complete_since_ns_;
};

}  // namespace refract::kv
