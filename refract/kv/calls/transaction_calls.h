// SPDX-License-Identifier: Apache-2.0
// What the coordinator of a transaction over several shards asks of one of them, over a session
// (transaction_wire.h, docs/design/066).
//
// Codes: those of the owner; kUnavailable: nothing was sent; kIndeterminate: it was sent, and the answer did
// not come. No call is ever repeated here.
//
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/calls/rpc_types.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

// The words of a home that a session has, and that no transaction uses.
class WordPool {
 public:
  // Nothing: there is none left.
  [[nodiscard]] std::optional<TransactionName> take();
  // The transaction was decided against: the word is for another. One whose numbers are used up goes to the
  // home, which gives it others.
  void give_back(const TransactionName& name);
  // It was committed, or may have been: the home has the word next.
  void bring_back(const TransactionName& name) { ended_.push_back(name.place); }
  void add(const wire::GivenWord& word);

  void clear() noexcept;
  [[nodiscard]] size_t count() const noexcept { return words_.size(); }
  // Of those that are to be brought back, some that are not any more.
  [[nodiscard]] std::vector<DecisionPlace> take_ended(size_t most);

 private:
  struct Word {
    DecisionPlace place;
    uint64_t next = 0;
  };
  std::deque<Word> words_;
  std::vector<DecisionPlace> ended_;
};

class TransactionCalls final : private rpc::ReplyTaker {
 public:
  // Both outlive it.
  TransactionCalls(rpc::Session& session, runtime::Shard& shard) : session_(session), shard_(shard) {}
  TransactionCalls(const TransactionCalls&) = delete;
  TransactionCalls& operator=(const TransactionCalls&) = delete;
  ~TransactionCalls() override;

  // A name for a transaction of which this shard is the home. kOverloaded: the home has no words left.
  // `is_far`: with parts on other nodes that write.
  [[nodiscard]] runtime::Task<Result<TransactionName>> begin(uint64_t deadline_ns, bool is_far = false);
  // Asks the home again which memory it has, and what time it is there.
  [[nodiscard]] runtime::Task<Code> look_at_home(uint64_t deadline_ns);
  // When the session was opened that has the names which begin() gives now.
  [[nodiscard]] uint64_t opened_ns() const noexcept { return session_.opened_ns(); }
  // It is known what became of it; `is_refused`: it was decided against, or is never decided for.
  // `opened_ns`: as it was when it began; `is_far` likewise.
  void end(const TransactionName& name, bool is_refused, uint64_t opened_ns, bool is_far = false);

  struct Terms {
    TransactionName name;
    uint64_t begun_ns = 0;  // The transaction's first attempt, by the shard's clock.
    uint64_t deadline_ns = 0;
    uint64_t not_after_wall_ns = 0;  // Of decide(): as wire::PartRequest.
    // Over several nodes: of the home's memory.
    uint64_t generation = 0;
    // Of the home: where it has parts on other nodes.
    std::span<const wire::FarPlace> far_places = {};
  };
  // By the node's clock, which all its shards have (docs/design/028): when it held, and until when; 0: for
  // ever, as long as its keys are held.
  struct Held {
    uint64_t looked_wall_ns = 0;
    uint64_t expires_wall_ns = 0;
    uint64_t sent_ns = 0;  // By this process's clock: it looked later.
  };
  // The batch says which one a refusal is about.
  [[nodiscard]] runtime::Task<Result<Held>> prepare(RpcBatch& batch, Terms terms) {
    return change(wire::TransactionMethod::kPrepare, batch, terms);
  }
  [[nodiscard]] runtime::Task<Result<Held>> decide(RpcBatch& batch, Terms terms) {
    return change(wire::TransactionMethod::kDecide, batch, terms);
  }
  [[nodiscard]] runtime::Task<Code> ask_outcome(TransactionName name, uint64_t deadline_ns);
  // Those of this shard that wait for their homes.
  [[nodiscard]] runtime::Task<Result<std::vector<wire::OpenFarPart>>> open_far(uint64_t deadline_ns);
  // Ends all of that home, which will not come back: kHappened or kNever. How many these were.
  [[nodiscard]] runtime::Task<Result<uint64_t>> give_up(uint32_t member, wire::Fate fate,
                                                        uint64_t deadline_ns);

  // Tells this shard to settle its part; does not wait. `fate`: of a part on another node than its home.
  void settle(const TransactionName& name, wire::Fate fate = wire::Fate::kOpen);
  // As the home's last answer was.
  struct Home {
    uint64_t generation = 0;  // Of its memory.
    uint64_t wall_ns = 0;     // What time it was there at the latest
    uint64_t seen_ns = 0;     // when it was this, by this process's clock.
  };
  [[nodiscard]] const Home& home() const noexcept { return home_; }

 private:
  class Staging;

  [[nodiscard]] runtime::Task<Result<Held>> change(wire::TransactionMethod method, RpcBatch& batch,
                                                   Terms terms);
  [[nodiscard]] runtime::Task<Code> stage(std::span<const std::byte> body, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> read_rest(uint64_t view, std::span<std::byte> written,
                                              uint64_t deadline_ns);
  [[nodiscard]] Code unsent(Code code) const noexcept;
  void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept override;

  [[nodiscard]] uint32_t free_place();
  [[nodiscard]] runtime::Task<> settle_later(wire::FarSettleRequest request);
  [[nodiscard]] static rpc::Call settling(const wire::FarSettleRequest& request) noexcept;
  void look_at_session();
  void ask_for_words(bool is_far);
  void take_words(std::span<const std::byte> bytes, WordPool& words);

  rpc::Session& session_;
  runtime::Shard& shard_;
  WordPool words_;
  WordPool far_words_;
  Home home_;
  uint64_t words_opened_ns_ = 0;
  bool is_staging_ = false;
  // Calls whose answers are not awaited. 0: the place is free.
  struct Leaving {
    uint64_t id = 0;
    bool is_for_words = false;
    bool is_far = false;  // Which words.
  };
  std::vector<Leaving> leaving_;
  std::array<bool, 2> is_asking_for_words_{};  // Near ones, far ones.
  std::vector<runtime::Task<>> later_;         // Settles for which there was no room.
};

}  // namespace refract::kv
