// SPDX-License-Identifier: Apache-2.0
// The other nodes as an owner asks them, over sessions of the simulation, which fail and are opened again.
// Now and then a question is not sent, or its answer is lost.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/campaign/mutation.h"

#include "refract/base/prng.h"
#include "refract/fabric/sim/host.h"
#include "refract/kv/owner/transactions/other_nodes.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::campaign {

// What happened between nodes.
struct LineCounts {
  uint64_t looks = 0;     // Answered, without demand;
  uint64_t demands = 0;   // likewise with;
  uint64_t gone = 0;      // likewise of home's questions.
  uint64_t lost = 0;      // Not sent, or without an answer.
  uint64_t reopened = 0;  // Sessions.
  uint64_t open = 0;      // Fates that were told: of these names,
  uint64_t happened = 0;
  uint64_t never = 0;
  uint64_t not_gone = 0;  // and of parts that were there.
};

// Lives in its host (Host::emplace), and outlives what asks through it.
class NodeLines final : public kv::OtherNodes {
 public:
  struct Options {
    uint32_t self = 0;
    uint32_t members = 0;
    Mutation mutation = Mutation::kNone;
    bool is_lossy = true;
    uint64_t seed = 0;
  };
  NodeLines(sim::Host& host, const Options& options, LineCounts& counts);
  NodeLines(const NodeLines&) = delete;
  NodeLines& operator=(const NodeLines&) = delete;
  ~NodeLines() override;

  [[nodiscard]] static uint64_t placement_at(uint32_t member) noexcept { return 1'000 + member; }
  void lose_nothing() noexcept { is_lossy_ = false; }
  // Any one of its sessions.
  void close_one();

  [[nodiscard]] uint32_t self() const noexcept override { return options_.self; }
  [[nodiscard]] uint32_t members() const noexcept override { return options_.members; }
  [[nodiscard]] uint64_t placement_of(uint32_t member) const noexcept override {
    return placement_at(member);
  }
  [[nodiscard]] runtime::Task<Result<std::vector<std::byte>>> ask(kv::wire::FarPlace place,
                                                                  kv::wire::TransactionMethod method,
                                                                  std::span<const std::byte> body,
                                                                  uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<std::optional<uint32_t>> shards_of(uint32_t member,
                                                                 uint64_t deadline_ns) override;

 private:
  struct Line {
    Line(fabric::Channel& channel, runtime::Shard& shard) : session(channel, shard) {}
    rpc::Session session;
    uint64_t callers = 0;
  };
  // Null: it does not come in time.
  [[nodiscard]] runtime::Task<Line*> line_to(uint32_t member, uint64_t deadline_ns);
  // As a mutation, without a question.
  [[nodiscard]] std::optional<std::vector<std::byte>> made_up(kv::wire::TransactionMethod method,
                                                              std::span<const std::byte> body);
  void count(kv::wire::TransactionMethod method, std::span<const std::byte> body,
             std::span<const std::byte> answer) noexcept;

  sim::Host& host_;
  const Options options_;
  LineCounts& counts_;
  bool is_lossy_;
  Prng prng_;
  std::map<uint32_t, std::list<Line>> lines_;  // By their members; the last one is in use.
  // As a mutation, what looks have told.
  std::map<std::string, std::vector<std::byte>> old_looks_;
};

}  // namespace refract::campaign
