// SPDX-License-Identifier: Apache-2.0
// Serves the calls of numbered writes (numbered_wire.h, docs/design/077): sessions that outlive their
// connections, operations that are executed once, in the order of their tags, and what became of each.
//
// A call that makes no sense has changed nothing. Each operation of another has an answer of its own; all of
// a call are given together, when the log has confirmed what they tell. One that is refused for now may wait,
// unanswered, as other writes do (TableService), if its call says so.
//
//   rpc::ServiceTable services({{0, &table_service}, {wire::kNumberedMethodsBegin, &numbered}});
//
// Threads: only the shard that owns the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/layout/numbered_wire.h"
#include "refract/kv/layout/routing.h"
#include "refract/kv/layout/session_records.h"
#include "refract/kv/owner/numbered/numbered_turn.h"
#include "refract/kv/owner/numbered/session_records.h"
#include "refract/kv/owner/numbered/tag_bars.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/service/service_writes.h"
#include "refract/kv/owner/table/table.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class NumberedService final : public rpc::Service, private writes::WaitingBeside {
 public:
  // What waits at once, and of one connection.
  static constexpr size_t kWaitingMax = 256;
  static constexpr size_t kWaitingPerConnection = 32;
  static constexpr uint64_t kWaitingBytesMax = 8 * kMiB;

  // All outlive the service.
  struct Parts {
    Table& table;
    TableService& service;  // Of the same table.
    runtime::Shard& shard;
    uint32_t shard_index = 0;
    KeyRouting routing{};
    // Of a secret what the space may have, which every client can read: the secret does not follow from it.
    SecretDigest (*digest)(const wire::SessionSecret& secret) noexcept = nullptr;
    uint64_t generation = 1;  // Of the memory: another one has another. Not 0.
  };
  // REQUIRES: the table is recovered.
  explicit NumberedService(const Parts& parts);
  NumberedService(const NumberedService&) = delete;
  NumberedService& operator=(const NumberedService&) = delete;
  ~NumberedService() override;
  // Before the first session; null: no call is answered any more.
  void answer_through(rpc::Server* server) noexcept { server_ = server; }
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId connection) noexcept override;
  void session_closed(rpc::SessionId connection) noexcept override;

  struct Counts {
    uint64_t begun = 0;         // Sessions,
    uint64_t resumed = 0;       // and those that another connection has since.
    uint64_t executed = 0;      // Operations with an outcome,
    uint64_t read_only = 0;     // among them those for which the log cannot be written;
    uint64_t refused = 0;       // refused for now,
    uint64_t waited = 0;        // that began to wait,
    uint64_t told_again = 0;    // whose record was told,
    uint64_t withdrawn = 0;     // and those that were not executed, and are not any more.
    uint64_t acknowledged = 0;  // Records.
    uint64_t closed = 0;        // Connections, for too many operations in bars.
    uint64_t clears = 0;        // Begun,
    uint64_t cleared = 0;       // and entries that went by them.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  [[nodiscard]] const SessionRecords& records() const noexcept { return parts_.table.sessions(); }
  // Of all connections: operations that stand in front of others.
  [[nodiscard]] size_t barred() const noexcept;
  [[nodiscard]] size_t waiting() const noexcept override { return waiting_.size(); }

 private:
  struct Connection {
    size_t payload_bytes_max = 0;  // Of an answer.
    bool is_over = false;          // Another one has its session: it runs nothing more.
    TagBars bars;
  };
  // An operation out of the sender's reach, but for the bytes of a put's value.
  struct Asked {
    wire::Operation operation{};
    TableKey key = {};
    std::span<const std::byte> value = {};
    uint64_t expires_wall_ns = 0;
    bool is_complete = true;        // False: its key was to be staged, and is not.
    std::vector<std::byte> staged;  // The key, where it was.
  };
  struct Waiting {
    rpc::Responder from;
    Asked asked;
    std::vector<std::byte> bytes;  // Key and value.
    bool for_log = false;
    bool for_record = false;
  };
  // Answers as they grow.
  struct Answers {
    std::array<std::byte,
               wire::kOperationsPerCall * (sizeof(wire::OperationAnswer) + wire::kOperationAnswerBytesMax)>
        room;
    size_t used = 0;
    bool tells_of_table = false;  // A crash of the host could make it untrue.
  };

  [[nodiscard]] SessionRecords& sessions() noexcept { return parts_.table.sessions(); }
  [[nodiscard]] Connection* find(rpc::SessionId connection) noexcept;
  void execute(const rpc::IncomingCall& call, Connection& connection);
  void answer(const rpc::Responder& to, Code code, std::span<const std::byte> text = {}) noexcept;

  // Sessions: numbered_sessions.cc.
  void begin(const rpc::Responder& to, const Connection& connection, std::span<const std::byte> body);
  void resume(const rpc::Responder& to, const Connection& connection, std::span<const std::byte> body);
  void answer_session(const rpc::Responder& to, uint64_t id, const wire::SessionSecret& secret) noexcept;
  void drop_waiting(rpc::SessionId connection);
  void look_after_ended() noexcept;
  [[nodiscard]] runtime::Task<> drop_in_time();

  // Operations.
  [[nodiscard]] static constexpr bool needs_session(const wire::Operation& operation) noexcept {
    return operation.number != 0 || operation.tag != 0;
  }
  void operations(const rpc::Responder& to, Connection& connection, std::span<const std::byte> body);
  [[nodiscard]] bool take(std::span<const std::byte> body, std::span<Asked> asked);
  void fetch(const rpc::Responder& to, std::span<Asked> asked);
  void acknowledge(rpc::SessionId of, NumberedSession& session,
                   std::span<const wire::Acknowledged> acknowledged);
  [[nodiscard]] static bool bar(Connection& connection, const wire::Operation& operation);
  void close(const rpc::Responder& to) noexcept;
  // What became of it. kOverloaded: refused for now.
  [[nodiscard]] NumberedOutcome look_at(const rpc::Responder& to, Connection& connection,
                                        NumberedSession* session, const Asked& asked);
  [[nodiscard]] Code sense_of(const Asked& asked) const noexcept;
  [[nodiscard]] NumberedOutcome run(NumberedSession* session, const Asked& asked, const TableDraft& draft);
  [[nodiscard]] NumberedOutcome commit(const rpc::Responder& to, NumberedSession* session,
                                       const Asked& asked);
  [[nodiscard]] NumberedOutcome withdraw(const rpc::Responder& to, Connection& connection,
                                         const NumberedSession& session, const wire::Operation& operation);
  static void add(Answers& answers, const wire::Operation& operation,
                  const NumberedOutcome& outcome) noexcept;
  void give(const rpc::Responder& to, const Answers& answers) noexcept;
  void give_one(const rpc::Responder& to, const wire::Operation& operation,
                const NumberedOutcome& outcome) noexcept;

  // clear_service.cc.
  void clear(const rpc::Responder& to, const Connection& connection, std::span<const std::byte> body);

  // What waits: numbered_waiting.cc.
  [[nodiscard]] bool wait(const rpc::Responder& from, NumberedSession* session, const Asked& asked,
                          const NumberedOutcome& refused);
  void end_wait(rpc::SessionId of, uint64_t number);
  void retry_waiting() noexcept override;
  [[nodiscard]] size_t waiting_for_log() const noexcept override;
  [[nodiscard]] bool has_room_in_log() const noexcept override;
  void look_after_held() noexcept;

  Parts parts_;
  rpc::Server* server_ = nullptr;
  Table::NumberedTurn turn_;
  std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::array<Asked, wire::kOperationsPerCall> asked_;
  std::array<Table::Sought, wire::kOperationsPerCall> sought_;
  std::vector<std::byte> room_;  // Of a call: keys, and what is looked at twice.
  std::deque<Waiting> waiting_;
  uint64_t waiting_bytes_ = 0;
  size_t executed_ = 0;       // In this batch, since something was sent.
  bool has_cleared_ = false;  // Likewise, one step.
  uint64_t ended_seen_ = 0;   // Parts of transactions over several shards.
  runtime::Task<> dropper_;
  Counts counts_;
};

}  // namespace refract::kv
