// SPDX-License-Identifier: Apache-2.0
// Serves a table to remote callers: decodes, checks, executes and answers the calls of wire.h, in groups
// whose cache misses overlap. A call that is refused for its form has changed nothing. A write that finds the
// memory full while the node can still grow, or its key held by a transaction, waits, unanswered; beyond a
// bounded number the answer is kOverloaded. What a session holds open is released when it ends.
//
// Where the table has a log, a write's answer is given when the log has confirmed all that was appended up to
// then; reads never wait. A write for which the log has no room waits, too (docs/design/025-log.md).
//
// A write with an identity is executed at most once, however often it is sent; where it cannot be known
// whether it has been, the answer is kIndeterminate (page 012). No session can make another wait for more
// than a group of its small calls: pages of scans are worked on one a turn, in turns (page 013). Timers give
// back buffers that were replaced, and remove expired entries, in small steps.
// Threads: only the shard that owns the table.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/layout/batch_wire.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/kv/layout/routing.h"
#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/far_reads.h"
#include "refract/kv/owner/service/held_answers.h"
#include "refract/kv/owner/service/keyed_call.h"
#include "refract/kv/owner/service/outcomes.h"
#include "refract/kv/owner/service/pull_fetcher.h"
#include "refract/kv/owner/service/service_writes.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/owner/table/table.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class BatchCall;

class TableService final : public rpc::Service,
                           public ChainUpkeep,
                           public PartUpkeep,
                           private FarReads::Host,
                           private PullFetcher::Taker {
 public:
  // All outlive the service. `pins` must be among the sources that the heap asks (pin_sources.h). The shard's
  // clock is the table's.
  struct Parts {
    Table& table;
    Heap& heap;
    Writer& writer;
    SessionPins& pins;
    GrowthSource& growth;
    runtime::Shard& shard;
    uint64_t sweep_round_ns = 60 * kSecond_ns;  // In which the whole table is searched for expired entries.
    // Which keys are this table's. Others are answered with kWrongShard.
    uint32_t shard_index = 0;
    KeyRouting routing{};
    WindowSource* windows = nullptr;  // Null: values travel in messages only.
    // Of the values that all sessions together have begun and not committed; one alone may be larger.
    uint64_t upload_bytes_max = kGiB;
    uint64_t pull_piece_bytes = PullFetcher::kPieceBytes;
    Eviction* eviction = nullptr;  // The table's; null: what does not fit is answered with kNoSpace.
  };
  explicit TableService(const Parts& parts);
  ~TableService() override;
  // Before the first session; null: no call is answered any more.
  void answer_through(rpc::Server* server) noexcept {
    server_ = server;
    fetcher_.reach_through(server);
  }
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;
  // The node has given the heap more memory: writes that waited continue. Or it was refused, and can_grow()
  // says so: what still does not fit is answered with kNoSpace.
  void on_memory_added() noexcept;
  void on_growth_refused() noexcept { retry_waiting(); }
  void on_settled() noexcept override;
  void on_far_answer() noexcept override;
  [[nodiscard]] FarReads& far_reads() noexcept { return far_reads_; }
  [[nodiscard]] Code on_turn(Code code, uint64_t bytes) noexcept override;
  // The log has advanced, or has failed: continues with what waited. Returns how much there was to do.
  size_t on_log_progress() noexcept;

  // Of a service beside this one whose writes are of the same table (numbered_service.h). Null: there is
  // none.
  void retry_also(writes::WaitingBeside* beside) noexcept { beside_ = beside; }
  // What the session holds open: staged keys, uploads. Null: it has ended.
  [[nodiscard]] SessionState* state_of(rpc::SessionId session) noexcept;
  // Has a value brought into a draft of the session, and answers (wire::NumberedMethod::kPullDraft).
  void pull_draft(const rpc::IncomingCall& call);
  // The other service has executed so many, which count as single calls do.
  void count_writes(uint64_t puts, uint64_t erases) noexcept;

  void on_chain_retired() noexcept override;
  [[nodiscard]] bool keeps_reply(const rpc::Responder& to,
                                 std::span<const std::byte> reply) noexcept override;
  uint64_t sweep_some();  // One step of removing expired entries; returns how many.
  [[nodiscard]] wire::StatReply stat() const noexcept;
  using LogStats = writes::LogStats;
  [[nodiscard]] LogStats log_stats() const noexcept;
  [[nodiscard]] const PullFetcher& pulls() const noexcept { return fetcher_; }

 private:
  static constexpr size_t kGroup = 16;  // Worked on at once: more would only evict what was prefetched.
  using Open = OpenSession;
  struct Prepared {
    const rpc::IncomingCall* call = nullptr;
    Open* session = nullptr;
    wire::Method method{};
    Code code = Code::kOk;  // Another: refuse the call with it.
    KeyedCall keyed;
  };
  using Write = writes::Write;
  using Written = writes::Written;
  [[nodiscard]] Open* find(rpc::SessionId session) noexcept;
  [[nodiscard]] bool is_ours(const Table::HashedKey& key) const noexcept;
  [[nodiscard]] bool put_alone(const rpc::IncomingCall& call) noexcept;
  void handle_in_groups(std::span<const rpc::IncomingCall> calls) noexcept;
  [[nodiscard]] bool is_open(rpc::SessionId session) noexcept override { return find(session) != nullptr; }
  void read(const rpc::IncomingCall& call) noexcept override { handle_in_groups({&call, 1}); }
  void refuse(const rpc::Responder& to) noexcept override { answer(to, Code::kOverloaded); }
  void prepare(const rpc::IncomingCall& call, Prepared& prepared) noexcept;
  void execute(const Prepared& prepared) noexcept;
  void send_meanwhile(const Prepared& next) noexcept;
  void execute_keyed(const Prepared& prepared) noexcept;

  void answer(const rpc::Responder& to, Code code, std::span<const std::byte> head = {},
              std::span<const std::byte> tail = {}) noexcept;
  template <typename Reply>
  void answer(const rpc::Responder& to, const Reply& reply, std::span<const std::byte> tail = {}) noexcept {
    answer(to, Code::kOk, std::as_bytes(std::span(&reply, 1)), tail);
  }
  void answer_when_confirmed(const rpc::Responder& to, Code code,
                             std::span<const std::byte> head = {}) noexcept;
  template <typename Reply>
  void answer_when_confirmed(const rpc::Responder& to, const Reply& reply) noexcept {
    answer_when_confirmed(to, Code::kOk, std::as_bytes(std::span(&reply, 1)));
  }
  void answer_write(const rpc::Responder& to, const Write& write, const Result<Written>& written) noexcept;
  void write_or_wait(const rpc::Responder& to, Open& session, const Write& request);

  [[nodiscard]] Code stage_key(Open& session, std::span<const std::byte> body);
  void get(const rpc::Responder& to, Open& session, const KeyedCall& call);
  void get_many(const rpc::Responder& to, const Open& session, std::span<const std::byte> body);
  void put_many(const rpc::Responder& to, std::span<const std::byte> body);
  void exists(const rpc::Responder& to, const KeyedCall& call);
  [[nodiscard]] bool put_plainly(const rpc::Responder& to, const KeyedCall& call);
  void change(const rpc::Responder& to, Open& session, wire::Method method, const KeyedCall& call);
  [[nodiscard]] Result<Written> write(Open& session, const Write& write);
  [[nodiscard]] Result<Written> begin(Open& session, const Write& write);
  [[nodiscard]] bool make_room_for_upload(uint64_t bytes);
  [[nodiscard]] Result<Written> commit(Open& session, uint64_t upload_id);
  [[nodiscard]] static writes::Repetition attempt_of(const Open& session,
                                                     const wire::Identity& identity) noexcept;
  [[nodiscard]] std::optional<Result<uint64_t>> settled(const Write& write);
  void remember(const Open& session, RequestId request, const Result<uint64_t>& result);
  void put_piece(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void put_commit(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void start_pull(const rpc::Responder& to, const Write& write, uint64_t upload_id);
  void pulled(const PullFetcher::Pull& pull, Code code) noexcept override;
  void drop_pulled(Open& session, const Write& write);
  void put_abandon(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void view_piece(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void view_close(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void scan(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void scan_page(const rpc::Responder& to, Open& session, const wire::ScanRequest& request);
  [[nodiscard]] runtime::Task<> work_on_scans();
  void ping(const rpc::Responder& to, std::span<const std::byte> body);
  [[nodiscard]] bool asks_for_room(uint64_t bytes) noexcept;
  void batch(const rpc::Responder& to, Open& session, std::span<const std::byte> body);
  void batch_or_wait(writes::WaitingBatch& asked, Open& session);
  [[nodiscard]] Code execute(const Open& session, const wire::Identity& identity, BatchCall& call);
  [[nodiscard]] std::optional<Code> settled(BatchCall& call, const writes::Repetition& attempt);
  void answer_batch(const rpc::Responder& to, Open& session, const BatchCall& call, Code code);

  [[nodiscard]] bool may_wait(const Write& write, Code code) const noexcept;
  [[nodiscard]] Code wait(const rpc::Responder& from, const Write& write, Code why);
  void retry_waiting() noexcept;
  [[nodiscard]] bool has_waiting() const noexcept;
  void look_after_memory() noexcept;
  void look_after_time() noexcept;
  void look_after_held() noexcept;
  void sweep_while_needed() noexcept;
  [[nodiscard]] runtime::Task<> sweep_rounds();
  void evict_while_needed() noexcept;
  [[nodiscard]] runtime::Task<> evict_rounds();
  void look_at_uses(size_t calls) noexcept;
  void reclaim_while_needed() noexcept;
  [[nodiscard]] runtime::Task<> reclaim_rounds();

  Parts parts_;
  rpc::Server* server_ = nullptr;
  uint64_t upload_bytes_ = 0;  // Of all sessions, which count them.
  uint64_t started_ns_;
  Outcomes outcomes_;          // Before the sessions, whose uploads it watches.
  uint64_t staged_bytes_ = 0;  // Of batches of all sessions, which count them.
  std::unordered_map<uint64_t, std::unique_ptr<Open>> sessions_;
  rpc::SessionId found_id_;  // Of the last one that was asked for: calls come in groups of one session.
  Open* found_ = nullptr;
  PullFetcher fetcher_;
  std::array<Prepared, kGroup> group_;
  KeyArena arena_;
  std::vector<std::byte> many_room_;  // Of a call of many: keys, then answers.
  std::array<Table::Sought, wire::kKeysPerCall> sought_;
  std::deque<writes::Waiting> waiting_;
  uint64_t waiting_bytes_ = 0;
  writes::WaitingBatches waiting_batches_;
  writes::WaitingBeside* beside_ = nullptr;
  uint64_t ended_seen_ = 0;  // Parts of transactions over several shards.
  FarReads far_reads_;
  HeldAnswers held_answers_;
  uint64_t failed_by_log_ = 0;
  uint64_t read_only_ = 0;
  std::array<uint64_t, wire::kMethods> ops_{};
  runtime::Task<> sweeper_;
  uint64_t sweeper_sleeps_until_ns_ = 0;  // Store time: nothing is due before. 0: it goes round.
  runtime::Task<> reclaimer_;
  runtime::Task<> evictor_;
  uint64_t calls_since_uses_ = 0;        // Since the last look at what readers have written down.
  uint64_t pinned_bytes_ = 0;            // Of retired buffers, when the reclaimer last looked; 0: it has not.
  std::deque<rpc::SessionId> scanning_;  // With scans that wait for their turn; each has one page at a time.
  runtime::Task<> scanner_;
  uint64_t waiting_scans_ = 0;
  bool has_scanned_ = false;  // In this batch.
  size_t executed_ = 0;       // Likewise, since something was sent.
  uint64_t overloaded_ = 0;
  uint64_t repeated_ = 0;
  uint64_t indeterminate_ = 0;
  uint64_t batches_ = 0;
  uint64_t batches_refused_ = 0;
};

}  // namespace refract::kv
