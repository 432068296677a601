// SPDX-License-Identifier: Apache-2.0
// Serves the calls of transactions over several shards (transaction_wire.h) for one of them: as their home,
// or for its part. What a session has prepared ends with it; what is not settled in time is settled by a
// timer, which runs only while there is something. What meets a key that a younger transaction holds waits,
// unanswered (WaitingTurns); older ones refuse it. docs/design/066.
//
//   rpc::ServiceTable services({{0, &table_service}, {wire::kTransactionMethodsBegin, &transactions}});
//
// Threads: only the shard that owns the table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/layout/routing.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/parts/waiting_turns.h"
#include "refract/kv/owner/service/batch_call.h"
#include "refract/kv/owner/service/staged_body.h"
#include "refract/kv/owner/transactions/far_talk.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class TransactionService final : public rpc::Service, private FarTalk::Host {
 public:
  // A client that has not decided by then loses to those that were refused one of its keys, or wait for it;
  // and after the longer time in any case.
  static constexpr uint64_t kPatience_ns = 10 * kMillisecond_ns;
  static constexpr uint64_t kPatienceMax_ns = kSecond_ns;

  // All outlive the service.
  struct Parts {
    Table& table;  // Has parts: Table::parts().
    Decisions& decisions;
    runtime::Shard& shard;
    uint32_t shard_index = 0;
    KeyRouting routing{};
    PartUpkeep& upkeep;
    uint64_t floor_stamp = 0;     // No stamp below was given in this memory.
    uint64_t generation = 0;      // Of this memory: another one has another.
    OtherNodes* nodes = nullptr;  // Null: transactions over several nodes are not taken.
  };
  // REQUIRES: the table's parts have taken up what a killed owner has left.
  explicit TransactionService(const Parts& parts);
  ~TransactionService() override;
  // Before the first session; null: no call is answered any more.
  void answer_through(rpc::Server* server) noexcept { server_ = server; }
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;
  // As TableService's, and before that one's. Returns how much there was to do.
  size_t on_log_progress() noexcept;

  struct Counts {
    uint64_t prepared = 0;      // Parts,
    uint64_t decided = 0;       // transactions whose home this is,
    uint64_t conflicts = 0;     // and either, refused because of another transaction.
    uint64_t refused = 0;       // Or because of a condition.
    uint64_t waited = 0;        // Either, for a younger one.
    uint64_t overdue = 0;       // Parts that the timer has settled,
    uint64_t orphaned = 0;      // and those whose session closed.
    uint64_t far_prepared = 0;  // Parts whose home is another node,
    uint64_t far_decided = 0;   // and transactions decided here that have parts on others.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // What it has decided, and other nodes may still ask for: by the names that they know.
  [[nodiscard]] std::vector<TransactionName> decided_afar() const;
  // Null: this node knows of no other.
  [[nodiscard]] FarTalk* far() noexcept { return far_ ? &*far_ : nullptr; }
  [[nodiscard]] const FarTalk* far() const noexcept { return far_ ? &*far_ : nullptr; }

 private:
  struct Open {
    explicit Open(uint64_t& all_staged_bytes) noexcept : staged(all_staged_bytes) {}
    StagedBody staged;
    uint64_t view = 0;              // Of the answer that did not fit; 0: there is none.
    std::vector<std::byte> answer;  // What follows its PartReply.
  };
  using Method = wire::TransactionMethod;
  // A prepare or a decide; with what WaitingTurns asks for.
  struct Asked {
    rpc::Responder from;
    Method method{};
    TransactionName name = {};
    std::unique_ptr<BatchCall> call = nullptr;
    uint64_t session = 0;
    uint64_t begun_ns = 0;  // Of its transaction, by the shard's clock.
    uint64_t not_after_wall_ns = 0;
    uint64_t give_up_ns = 0;
    uint64_t bytes = 0;
    uint64_t generation = 0;                   // Of a far part.
    std::vector<wire::FarPlace> far_places{};  // Of a home: where it has parts on other nodes.
  };

  void execute(const rpc::IncomingCall& call, Open& session);
  void give_words(const rpc::Responder& to, std::span<const std::byte> body);
  void change(Asked asked, Open& session, std::span<const std::byte> body);
  void prepare_far(Asked asked, Open& session, std::span<const std::byte> body);
  void decide_far(Asked asked, Open& session, std::span<const std::byte> body);
  void settle_far(const rpc::Responder& to, std::span<const std::byte> body);
  void tell_fates(const rpc::Responder& to, std::span<const std::byte> body);
  void tell_gone(const rpc::Responder& to, std::span<const std::byte> body);
  void tell_open_far(const rpc::Responder& to, std::span<const std::byte> body);
  void give_up(const rpc::Responder& to, std::span<const std::byte> body);
  [[nodiscard]] bool is_meant(const wire::FatesRequest& request) const noexcept;
  [[nodiscard]] wire::Fate fate_of(const TransactionName& name, bool is_demanded);
  [[nodiscard]] static bool takes_part(Method method) noexcept {
    return method == Method::kPrepare || method == Method::kPrepareFar;
  }
  void on_far_answer() noexcept override;
  void change_or_wait(Asked& asked, Open& session);
  [[nodiscard]] Code refuse_at_once(const Asked& asked);
  [[nodiscard]] bool waits(Asked& asked);
  [[nodiscard]] Code change(const Asked& asked);
  void answer_batch(const rpc::Responder& to, Open& session, const BatchCall& call, Code code);
  void answer_rest(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void settle(const rpc::Responder& to, std::span<const std::byte> body);
  void tell_outcome(const rpc::Responder& to, std::span<const std::byte> body);
  void answer(const rpc::Responder& to, Code code, std::span<const std::byte> text = {}) noexcept;
  // When the log has confirmed what it tells.
  void answer_when_confirmed(const rpc::Responder& to, std::span<const std::byte> text = {}) noexcept;
  void look_at_ended() noexcept;
  void look_after_time() noexcept;
  [[nodiscard]] runtime::Task<> settle_in_time();
  void retry_waiting() noexcept;
  [[nodiscard]] runtime::Task<> end_waits_in_time();

  Parts parts_;
  rpc::Server* server_ = nullptr;
  HomeWords words_;
  uint64_t staged_bytes_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Open>> sessions_;
  runtime::Task<> timer_;
  std::optional<FarTalk> far_;
  WaitingTurns<Asked> waiting_;
  runtime::Task<> waiting_timer_;
  uint64_t views_ = 0;
  uint64_t ended_seen_ = 0;
  Counts counts_;
};

}  // namespace refract::kv
