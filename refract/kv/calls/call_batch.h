// SPDX-License-Identifier: Apache-2.0
// Many calls of one kind, of one message each, under way at once: a state machine between the session's
// replies and the one coroutine that waits for all, so that a call costs no coroutine and no allocation.
//
// Threads: used only by its session's shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class CallBatch : public rpc::ReplyTaker {
 public:
  CallBatch(const CallBatch&) = delete;
  CallBatch& operator=(const CallBatch&) = delete;
  // Gives up what is under way.
  ~CallBatch() override;

  // Until every item has had its turn, or nothing more can be sent now: begun() says how many had.
  // `deadline_ns` 0: what is under way is given up when no reply has come for `timeout_ns`. What is given up
  // is settled with kIndeterminate.
  [[nodiscard]] runtime::Task<> run(uint64_t deadline_ns, uint64_t timeout_ns);

  [[nodiscard]] size_t begun() const noexcept { return next_; }
  [[nodiscard]] bool is_late() const noexcept { return is_late_; }

  void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept final;

 protected:
  enum class Begun : uint8_t {
    kSent,
    kSettled,  // Without a call.
    kNotNow,   // No credit, or no room.
  };

  // `width`: calls under way at once, at most.
  CallBatch(rpc::Session& session, runtime::Shard& shard, size_t count, size_t width);

  // Begins the item by send(call, place), or settles it.
  [[nodiscard]] virtual Begun begin(size_t item, uint32_t place) noexcept = 0;
  virtual void settle(size_t item, const runtime::OpResult& reply) noexcept = 0;
  // For items of several calls: whether this reply led to another one, which has been sent from this place.
  // If not, the item is settled.
  [[nodiscard]] virtual bool goes_on(size_t item, uint32_t place, const runtime::OpResult& reply) noexcept;

  [[nodiscard]] Begun send(const rpc::Call& call, uint32_t place) noexcept;
  // The item that was begun last at a place.
  [[nodiscard]] size_t item_at(uint32_t place) const noexcept { return places_[place].item; }
  [[nodiscard]] rpc::Session& session() const noexcept { return session_; }
  [[nodiscard]] runtime::Shard& shard() const noexcept { return shard_; }

 private:
  struct UnderWay {
    uint64_t call = 0;  // 0: the place is free.
    size_t item = 0;
  };

  void begin_more() noexcept;
  void give_up() noexcept;

  rpc::Session& session_;
  runtime::Shard& shard_;
  const size_t count_;
  size_t next_ = 0;
  std::vector<UnderWay> places_;
  std::vector<uint32_t> free_places_;
  uint64_t replies_ = 0;
  runtime::Token waiter_ = 0;
  bool is_late_ = false;
};

}  // namespace refract::kv
