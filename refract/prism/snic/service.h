// SPDX-License-Identifier: Apache-2.0
// Serves chains to remote callers: attaches sessions to the stores that are offered, and runs their chains on
// an executor.
//
// A batch is worked on at once, up to a budget; the chains beyond it wait, with copies of their bytes, and
// are run in later turns, one of each session in turn, so that no session waits for more than a budget of
// others. A session's own chains stay in their order. Beyond a bound on what waits the answer is kOverloaded.
//
// A session's keys, and its scratch, end with it. Threads: used only by the executor's shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refract/base/result.h"
#include "refract/prism/operation.h"
#include "refract/prism/snic/executor.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::prism::snic {

// What sessions may attach to by name.
struct Offer {
  std::string store;  // At most kStoreNameBytesMax.
  uint16_t region = 0;
  ChainRights rights = {};  // At most these.
  uint64_t root = 0;        // Offset in the region.
};

// Asked before a chain is answered, for a store that must not tell yet what the chain has done.
class ReplyGate {
 public:
  virtual ~ReplyGate() = default;
  // True: it has copied the reply, and answers by itself.
  [[nodiscard]] virtual bool keeps_reply(const rpc::Responder& to,
                                         std::span<const std::byte> reply) noexcept = 0;
};

struct ServiceOptions {
  // What may be executed between two turns of the shard's other work: one for each operation, and one for
  // each KiB of chain and reply.
  uint64_t budget = 512;
  uint64_t waiting_bytes_max = 16 << 20;  // Of all sessions' waiting chains.
  // Keys follow from it, for simulated runs that must be repeatable. 0: the kernel draws them.
  uint64_t key_seed = 0;
};

class Service final : public rpc::Service {
 public:
  // Executor and shard outlive the service.
  Service(Executor& executor, runtime::Shard& shard, const ServiceOptions& options = {});
  ~Service() override;

  // What carries the answers. Before the first session opens; null: sessions have ended.
  void answer_through(rpc::Server* server) noexcept { server_ = server; }
  // Null, as at first: every chain is answered at once. The gate outlives the service or is taken away.
  void set_reply_gate(ReplyGate* gate) noexcept { gate_ = gate; }

  // Control path. kExists: the name is offered already. kTooLarge: it is too long.
  [[nodiscard]] Result<> offer(const Offer& offer);
  // No further session attaches; those that have keep their keys as long as the region is there.
  void withdraw(std::string_view store) noexcept;

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;

  struct Counts {
    uint64_t chains = 0;      // Answered with kOk.
    uint64_t refused = 0;     // Answered with another code, kOverloaded too.
    uint64_t overloaded = 0;  // Among them.
    uint64_t deferred = 0;    // Had to wait for a later turn.
    uint64_t attached = 0;
    // Of every kTimedBatches-th batch, so that the clock costs the others nothing.
    uint64_t timed_batches = 0;
    uint64_t timed_chains = 0;
    uint64_t timed_ns = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  [[nodiscard]] size_t waiting() const noexcept { return waiting_; }

  static constexpr uint64_t kTimedBatches = 32;

 private:
  struct Waiting {
    rpc::Responder from;
    std::vector<std::byte> chain;
  };
  struct Open {
    Connection connection;
    std::deque<Waiting> chains;
  };

  [[nodiscard]] Open* find(rpc::SessionId session) noexcept;
  void take(Open& open, const rpc::IncomingCall& call) noexcept;
  void execute(Open& open, const rpc::Responder& from, std::span<const std::byte> chain) noexcept;
  void wait(Open& open, const rpc::IncomingCall& call);
  void attach(Open& open, const rpc::IncomingCall& call) noexcept;
  void refuse(const rpc::Responder& to, Code code) noexcept;
  [[nodiscard]] runtime::Task<> work_on_waiting();
  void work_within_budget();

  Executor& executor_;
  runtime::Shard& shard_;
  ServiceOptions options_;
  rpc::Server* server_ = nullptr;
  ReplyGate* gate_ = nullptr;
  std::vector<Offer> offers_;
  std::unordered_map<uint64_t, std::unique_ptr<Open>> sessions_;
  std::vector<std::byte> reply_;
  uint64_t budget_ = 0;  // Left of this batch or turn.
  uint64_t batches_ = 0;
  std::deque<rpc::SessionId> turns_;  // Sessions with chains that wait, each once.
  size_t waiting_ = 0;
  uint64_t waiting_bytes_ = 0;
  runtime::Task<> worker_;
  Counts counts_;
};

}  // namespace refract::prism::snic
