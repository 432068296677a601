// SPDX-License-Identifier: Apache-2.0
// The client's end of the numbered writes of one shard (docs/design/077): which call is to be sent next, and
// what an answer means. It knows no connection, clock or message: NumberedShard sends what next() says.
//
// A write is added, sent and answered; it is refused for now, and sent again; its connection ends, and the
// next one is asked what became of it; its time is over, and it is withdrawn. What has a record at the owner
// stays in hand until the owner has the acknowledgement, also where its caller has left.
//
// Order of a tag: what it has refused goes before all that is new, and so does a condition until it is
// answered, since an owner has no bar for it. The first that was refused goes alone, in a call that may wait;
// then some behind it, and when all of these had an outcome, the others. A long value's write holds its tag
// from its turn on until its draft is there, and then goes like others; a connection's end ends its draft.
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/result.h"
#include "refract/client/numbered/numbered_call.h"
#include "refract/client/numbered/numbered_write.h"
#include "refract/kv/layout/numbered_wire.h"

namespace refract::client {

class NumberedWrites {
 public:
  // Under way at once. Others of the same connection need credits, too; what waits at the owner must not keep
  // anything from being withdrawn.
  static constexpr size_t kCallsMax = 16;
  static constexpr size_t kWaitingCallsMax = 16;
  static constexpr size_t kAskingCallsMax = 4;
  // As many records as a session has. An owner ends a connection with more numbers in its bars than that.
  static constexpr size_t kInHandMax = 1008;

  struct Limits {
    size_t body_bytes_max = 0;    // Of a call.
    size_t answer_bytes_max = 0;  // Of its answer.
    bool messages_are_stores = false;
  };

  // `functions`: the version of this program's table.
  explicit NumberedWrites(uint32_t functions) noexcept : functions_(functions) {}
  NumberedWrites(const NumberedWrites&) = delete;
  NumberedWrites& operator=(const NumberedWrites&) = delete;
  // REQUIRES: all writes were told, or have left.
  ~NumberedWrites();

  // It is told, or leaves, later. Another code than kOk: it was not added. kTooLarge: a call has no room for
  // it. kUnsupported: as an outcome has it.
  [[nodiscard]] Code add(NumberedWrite& write);
  // Its time is over. True: it is out, and has not been executed. False: it is told what became of it.
  [[nodiscard]] bool give_up(NumberedWrite& write);
  // The same, and its caller does not hear of it any more. It need not be added.
  void leave(NumberedWrite& write);

  // A new connection to the shard, over which nothing was sent. REQUIRES: !is_connected().
  void connected(const Limits& limits);
  // It ended.
  void lost();
  [[nodiscard]] bool is_connected() const noexcept { return is_connected_; }
  // Over a session.
  [[nodiscard]] bool is_open() const noexcept { return state_ == Session::kOpen; }
  // What was not sent is told this code: the shard is another one.
  void end_unsent(Code code);

  // What is to be sent now, valid until anything else is called. Null: nothing.
  [[nodiscard]] const NumberedCall* next();
  // It was not sent, and is the next one again.
  void not_sent(uint32_t place);
  // A write whose turn has come and whose value is to be brought into a draft of this connection. Null: none.
  [[nodiscard]] NumberedWrite* next_draft();
  // It is there. Of one that does not wait for it any more this means nothing, likewise of the next.
  void drafted(NumberedWrite& write, uint64_t draft);
  // It could not be brought: not now, and next_draft() gives it again; or what its caller is told.
  void not_drafted_now(NumberedWrite& write);
  void not_drafted(NumberedWrite& write, Code code);
  // Answers of calls; of one that is not under way they mean nothing. False: they make no sense, and the
  // connection is to be ended.
  [[nodiscard]] bool answered(uint32_t place, std::span<const kv::wire::TakenAnswer> answers);
  // As a whole, by the owner, which has done nothing of it.
  void refused(uint32_t place, Code code);
  // Of kBegin and kResume. Where the owner is overloaded, that is tried again when next() is called; another
  // code than that and kInvalidated is told to all that was not sent.
  void opened(uint32_t place, const kv::wire::SessionReply& reply);
  // For kResume. REQUIRES: a session was opened.
  [[nodiscard]] kv::wire::SessionRequest session() const noexcept { return session_; }

  // Whether anything is to be sent, or awaits an answer.
  [[nodiscard]] bool has_work() const noexcept {
    return !unsent_.is_empty() || !bars_.empty() || pending_ > 0;
  }
  // Whether next() may have a call.
  [[nodiscard]] bool has_to_send() const noexcept {
    if (state_ != Session::kOpen) return has_work();
    return !unsent_.is_empty() || !to_ask_.empty() || !due_.empty() || !due_to_follow_.empty();
  }
  // Whether next_draft() may have one.
  [[nodiscard]] bool has_to_draft() const noexcept { return !to_draft_.empty(); }
  // Writes that are to be told.
  [[nodiscard]] size_t writes() const noexcept { return writes_; }
  // Numbers that have or may have records, or are refused.
  [[nodiscard]] size_t in_hand() const noexcept { return pending_ + to_acknowledge_count_; }
  // The same, with those whose acknowledgement is under way.
  [[nodiscard]] size_t numbers() const noexcept { return entries_.size() - free_.size(); }
  // How many calls are under way.
  [[nodiscard]] size_t calls() const noexcept;

 private:
  using Entry = NumberedEntry;
  enum class Kind : uint8_t { kFree, kSession, kNew, kFirst, kAsking };
  enum class Session : uint8_t { kNone, kKnown, kOpening, kOpen };
  struct Member {
    Entry* entry = nullptr;
    uint64_t number = 0;  // The entry may be another's by now.
    uint64_t bar = 0;     // That this one alone has made; 0: none.
  };
  struct Sent {
    Kind kind = Kind::kFree;
    uint32_t generation = 1;
    uint64_t bar = 0;  // That all of it are of; 0: none.
    size_t count = 0;
    size_t acknowledged_count = 0;
    std::array<Member, kv::wire::kOperationsPerCall> members = {};
    std::array<Entry*, kv::wire::kAcknowledgedPerCall> acknowledged = {};
  };
  // Of a tag; of a write without one its own.
  struct Bar {
    // In their order; those that were refused have entries, and come first. Else one comes first that waits
    // for its draft.
    WriteList held;
    bool is_under_way = false;  // A call that decides how it continues. Else the first was refused,
    bool is_due = false;        // and it is due.
    bool is_passing = false;    // Its first had an outcome: others may follow.
  };

  // What a call that is being made has room for.
  struct Room {
    size_t bytes = 0;
    size_t answer_bytes = 0;
    size_t numbers = 0;
  };

  [[nodiscard]] static uint64_t bar_of(uint32_t tag, uint64_t number) noexcept;
  [[nodiscard]] static bool is_pending(const Entry& entry) noexcept;
  [[nodiscard]] size_t operation_bytes_max() const noexcept;
  [[nodiscard]] size_t bytes_of(const NumberedWrite& write) const noexcept;
  [[nodiscard]] bool is_long(const NumberedOperation& operation) const noexcept;
  [[nodiscard]] bool needs_draft(const NumberedWrite& write) const noexcept;
  [[nodiscard]] Code check(const NumberedOperation& operation) const noexcept;

  // Making a call.
  [[nodiscard]] const NumberedCall* next_of_session();
  [[nodiscard]] const NumberedCall* next_asking();
  [[nodiscard]] const NumberedCall* next_of_bars();
  [[nodiscard]] const NumberedCall* next_of_bar(std::deque<uint64_t>& due);
  [[nodiscard]] const NumberedCall* next_new();
  [[nodiscard]] Sent& begin_call(Kind kind);
  [[nodiscard]] bool has_room_for(const NumberedWrite& write) const noexcept;
  void put_into_call(NumberedWrite& write);
  void follow(Bar& bar, size_t width);
  void hold_for_draft(NumberedWrite& write);
  // True: it was waiting, and is not any more.
  [[nodiscard]] bool end_drafting(NumberedWrite& write) noexcept;
  [[nodiscard]] const NumberedCall* finish_call();
  [[nodiscard]] size_t width() const noexcept;
  [[nodiscard]] size_t count_of(Kind kind) const noexcept {
    return calls_under_way_[static_cast<size_t>(kind)];
  }

  // What becomes of them.
  [[nodiscard]] Sent* find(uint32_t place) noexcept;
  void release(Sent& call) noexcept;
  void came(Entry& entry, const kv::wire::TakenAnswer& answer);
  void was_asked(Entry& entry, const kv::wire::TakenAnswer& answer);
  void was_refused(Entry& entry);
  void finish(Entry& entry, const NumberedOutcome& outcome, uint16_t place);
  void end(Entry& entry, Code code);
  [[nodiscard]] NumberedWrite& detach(Entry& entry) noexcept;
  void want_asking(Entry& entry);
  void continue_bar(uint64_t key, bool is_passing);
  void continue_bars_of(const Sent& call, bool is_passing);
  void look_at_bar(uint64_t key, Bar& bar);
  void lift(uint64_t key, Bar& bar);
  void forget_session();
  void lose(Entry& entry);
  void end_list(WriteList& list, Code code);
  void end_what_cannot_be_sent();
  void put_acknowledged_back(Sent& call);

  [[nodiscard]] Entry& new_entry(NumberedWrite& write);
  void release(Entry& entry) noexcept;
  void become(Entry& entry, Entry::What what) noexcept;
  void forget(NumberedWrite& write) noexcept;
  void tell(NumberedWrite& write, const NumberedOutcome& outcome) noexcept;
  void tell_all() noexcept;

  const uint32_t functions_;
  uint64_t last_number_ = 0;
  size_t writes_ = 0;
  bool is_connected_ = false;
  Limits limits_;
  Session state_ = Session::kNone;
  kv::wire::SessionRequest session_{};
  bool is_functions_known_ = false;
  bool are_functions_ours_ = false;

  WriteList unsent_;   // None of them is at the owner, in any way.
  WriteList telling_;  // About to be told.
  std::deque<Entry> entries_;
  std::vector<Entry*> free_;
  size_t pending_ = 0;   // Without an outcome.
  size_t in_doubt_ = 0;  // Of these.
  size_t under_way_ = 0;
  size_t to_acknowledge_count_ = 0;
  std::vector<Entry*> to_acknowledge_;
  std::vector<Member> to_ask_;  // Or those that were.
  std::unordered_map<uint64_t, Bar> bars_;
  // Bars, or those that were; of the second ones not the first is to be sent, but those behind it.
  std::deque<uint64_t> due_;
  std::deque<uint64_t> due_to_follow_;
  std::deque<NumberedWrite*> to_draft_;  // Not begun.
  std::deque<Sent> calls_;
  std::array<size_t, 5> calls_under_way_{};

  // Of the call that is being made.
  NumberedCall call_;
  Sent* sent_ = nullptr;
  Room room_;
};

}  // namespace refract::client
