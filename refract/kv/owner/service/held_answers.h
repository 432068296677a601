// SPDX-License-Identifier: Apache-2.0
// Answers that may not be given before the log has confirmed what they tell (docs/design/025-log.md): in the
// order in which they were made, which is the order of their positions. They are no more than the calls that
// their sessions may have under way.
//
// Threads: used only by the shard that owns the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/rpc/server.h"

namespace refract::kv {

class HeldAnswers {
 public:
  struct Answer {
    rpc::Responder to;
    uint64_t position = 0;  // Of the log: what it must have confirmed.
    Code code = Code::kOk;
    uint8_t head_bytes = 0;
    std::array<std::byte, 16> head{};  // What a write answers with.
    std::vector<std::byte> tail;       // What a chain answers with.
  };
  struct Text {
    std::span<const std::byte> head = {};  // At most 16 bytes.
    std::span<const std::byte> tail = {};
  };

  // Copies the text. REQUIRES: no answer before has a higher position.
  void keep(const rpc::Responder& to, uint64_t position, Code code, const Text& text);
  // Gives those up to `confirmed`, in their order, or all of them where something has failed: with this code
  // in place of what they would have said.
  struct Given {
    size_t answers = 0;
    size_t failed = 0;  // Among them.
  };
  Given give(rpc::Server* server, uint64_t confirmed, Code failure) noexcept;
  void drop(rpc::SessionId session) noexcept;

  [[nodiscard]] bool empty() const noexcept { return answers_.empty(); }
  [[nodiscard]] size_t count() const noexcept { return answers_.size(); }

 private:
  std::deque<Answer> answers_;
};

}  // namespace refract::kv
