// SPDX-License-Identifier: Apache-2.0
// The calls of numbered writes over a session (numbered_wire.h), many under way at once and without a
// coroutine each. Which call is sent when, and what an answer means, is the caller's matter
// (refract/client/numbered).
//
// Threads: used only by the session's shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/layout/numbered_wire.h"
#include "refract/kv/layout/operations_body.h"
#include "refract/rpc/session.h"

namespace refract::kv {

class NumberedChannel final : private rpc::ReplyTaker {
 public:
  // Told inside of polls, with the caller's own number of the call. May begin calls, and be exchanged.
  class Listener {
   public:
    virtual void session_came(uint32_t place, const wire::SessionReply& reply) noexcept = 0;
    // Valid during the call only; the owner may still be changing the bytes. False: they make no sense.
    [[nodiscard]] virtual bool answers_came(uint32_t place,
                                            std::span<const wire::TakenAnswer> answers) noexcept = 0;
    // The owner answered with this code, and has done nothing.
    virtual void call_was_refused(uint32_t place, Code code) noexcept = 0;
    // What is under way gets no answer any more: the session has ended, or is about to.
    virtual void answers_were_lost() noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // The session outlives it.
  explicit NumberedChannel(rpc::Session& session) noexcept : session_(session) {}
  NumberedChannel(const NumberedChannel&) = delete;
  NumberedChannel& operator=(const NumberedChannel&) = delete;
  // Gives up what is under way, and tells nothing of it.
  ~NumberedChannel() override;

  // Hears of all calls from now on. Null: nothing does, and what is under way is given up.
  void listen(Listener* listener) noexcept;

  // These give false where a call cannot be sent now.
  [[nodiscard]] bool begin_session(uint32_t place) noexcept;
  [[nodiscard]] bool resume_session(uint32_t place, const wire::SessionRequest& request) noexcept;
  [[nodiscard]] bool send(uint32_t place, wire::OperationsBody& body) noexcept;
  // Calls that were begun leave now, not at the end of the turn.
  void flush() noexcept { session_.flush(); }

  [[nodiscard]] const rpc::Session& session() const noexcept { return session_; }

 private:
  struct UnderWay {
    uint64_t id = 0;  // 0: the row is free.
    uint32_t place = 0;
    bool is_of_session = false;
  };
  [[nodiscard]] bool start(const rpc::Call& call, uint32_t place, bool is_of_session) noexcept;
  void on_reply(uint32_t row, const runtime::OpResult& reply) noexcept override;
  // False: it makes no sense.
  [[nodiscard]] bool take_session(uint32_t place, std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] bool take_answers(uint32_t place, std::span<const std::byte> bytes) noexcept;
  void give_up() noexcept;

  rpc::Session& session_;
  Listener* listener_ = nullptr;
  std::vector<UnderWay> under_way_;
};

}  // namespace refract::kv
