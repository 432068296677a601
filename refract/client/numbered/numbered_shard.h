// SPDX-License-Identifier: Apache-2.0
// The numbered writes of one shard on their way: gathers what is added in a turn, sends what NumberedWrites
// says over the connection that there is, waits for the next one where it ended, and ends what takes too
// long.
//
// Long values are brought into drafts first, a bounded number at once (drafts.h).
//
// A write's time is its client's timeout. It is withdrawn when three quarters of that are over, so that the
// last one is for learning what became of it; then it is told kIndeterminate, and its number stays in hand.
//
// Threads: used only by the shard of its peers. It goes after all its writes, not in the turn in which one of
// them ended, and before the peers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "refract/client/numbered/drafts.h"
#include "refract/client/numbered/numbered_write.h"
#include "refract/client/numbered/numbered_writes.h"
#include "refract/client/paths/peers.h"
#include "refract/kv/calls/numbered_channel.h"
#include "refract/runtime/task.h"

namespace refract::client {

class TimedWrites;

// Is over once, or leaves before it goes: NumberedShard::leave().
class TimedWrite : public NumberedWrite {
 public:
  using NumberedWrite::NumberedWrite;
  // As told().
  virtual void over(const NumberedOutcome& outcome) noexcept = 0;
  void told(const NumberedOutcome& outcome) noexcept final;

 protected:
  ~TimedWrite() = default;

 private:
  friend class TimedWrites;
  friend class NumberedShard;

  uint64_t begun_ns_ = 0;
  Drafts* drafts_ = nullptr;      // Of its shard, where it has or had one.
  TimedWrites* timed_ = nullptr;  // That it is in, if it is.
  TimedWrite* earlier_ = nullptr;
  TimedWrite* later_ = nullptr;
};

// In the order in which they were begun.
class TimedWrites {
 public:
  TimedWrites() = default;
  TimedWrites(const TimedWrites&) = delete;
  TimedWrites& operator=(const TimedWrites&) = delete;
  ~TimedWrites() = default;

  [[nodiscard]] TimedWrite* first() const noexcept { return first_; }
  void add(TimedWrite& one) noexcept;
  static void remove(TimedWrite& one) noexcept;

 private:
  TimedWrite* first_ = nullptr;
  TimedWrite* last_ = nullptr;
};

class NumberedShard final : private kv::NumberedChannel::Listener, private Drafts::Listener {
 public:
  // `number`: of the shard, as the peers have it. The peers outlive it.
  NumberedShard(Peers& peers, uint32_t number);
  NumberedShard(const NumberedShard&) = delete;
  NumberedShard& operator=(const NumberedShard&) = delete;
  ~NumberedShard();

  [[nodiscard]] uint32_t number() const noexcept { return number_; }
  // `begun_ns`: since when its time runs. Another code than kOk: as NumberedWrites::add(). It is over later,
  // not inside.
  [[nodiscard]] Code add(TimedWrite& write, uint64_t begun_ns);
  // As NumberedWrites::give_up(). True: it is not over later.
  [[nodiscard]] bool give_up(TimedWrite& write) noexcept;
  void leave(TimedWrite& write) noexcept;

  [[nodiscard]] const NumberedWrites& writes() const noexcept { return writes_; }

 private:
  void session_came(uint32_t place, const kv::wire::SessionReply& reply) noexcept override;
  [[nodiscard]] bool answers_came(uint32_t place,
                                  std::span<const kv::wire::TakenAnswer> answers) noexcept override;
  void call_was_refused(uint32_t place, Code code) noexcept override;
  void answers_were_lost() noexcept override;
  void draft_is_over() noexcept override { wake(); }

  [[nodiscard]] KeyOwner place() const noexcept { return {.key = {}, .shard = number_}; }
  [[nodiscard]] uint64_t timeout_ns() const noexcept { return peers_.settings().options.timeout_ns; }
  [[nodiscard]] uint64_t withdraw_after_ns() const noexcept { return timeout_ns() - timeout_ns() / 4; }
  void wake();
  [[nodiscard]] bool has_to_do() const noexcept {
    return writes_.has_to_send() || drafts_.has_to_tell() || (writes_.has_to_draft() && drafts_.has_room());
  }
  void look_further();
  [[nodiscard]] runtime::Task<> run();
  // False: there is no server now.
  [[nodiscard]] bool attach();
  void detach() noexcept;
  // False: not all could be sent now.
  [[nodiscard]] bool send_all() noexcept;
  [[nodiscard]] bool send(const NumberedCall& call) noexcept;
  void begin_drafts();
  [[nodiscard]] runtime::Task<> watch();
  void end_overdue(uint64_t now_ns);

  Peers& peers_;
  const uint32_t number_;
  uint64_t layout_;
  NumberedWrites writes_;
  Drafts drafts_;
  TimedWrites timed_;
  TimedWrites withdrawn_;
  kv::wire::OperationsBody body_;

  Connection* connection_ = nullptr;  // Null: none was there.
  uint64_t opened_ns_ = 0;            // Of its session, when the writes were told of it.
  std::optional<Peers::Use> use_;     // Of the connection, while calls are under way.

  uint64_t not_before_ns_ = 0;  // The owner has refused a call for now.
  bool is_running_ = false;
  bool is_watching_ = false;
  runtime::Task<> running_;
  runtime::Task<> watching_;
};

}  // namespace refract::client
