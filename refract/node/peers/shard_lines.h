// SPDX-License-Identifier: Apache-2.0
// The other nodes as an owner of keys asks them (docs/design/070): a session to each shard that was ever
// asked. None is connected to before.
//
// Threads: used only by its shard.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/cluster/members.h"
#include "refract/kv/owner/transactions/other_nodes.h"
#include "refract/node/peers/node_peers.h"

namespace refract::node {

class ShardLines final : public kv::OtherNodes {
 public:
  // All outlive it.
  ShardLines(runtime::Shard& shard, const fabric::tcp::Secret& cluster_secret,
             const cluster::Members& members);
  ShardLines(const ShardLines&) = delete;
  ShardLines& operator=(const ShardLines&) = delete;
  ~ShardLines() override;

  [[nodiscard]] uint32_t self() const noexcept override { return static_cast<uint32_t>(members_.self()); }
  [[nodiscard]] uint32_t members() const noexcept override {
    return static_cast<uint32_t>(members_.list().members.size());
  }
  [[nodiscard]] uint64_t placement_of(uint32_t member) const noexcept override { return placements_[member]; }
  [[nodiscard]] runtime::Task<Result<std::vector<std::byte>>> ask(kv::wire::FarPlace place,
                                                                  kv::wire::TransactionMethod method,
                                                                  std::span<const std::byte> body,
                                                                  uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<std::optional<uint32_t>> shards_of(uint32_t member,
                                                                 uint64_t deadline_ns) override;

 private:
  class Line;
  [[nodiscard]] Line& line_to(uint32_t shard);
  // Null: it does not come in time.
  [[nodiscard]] runtime::Task<rpc::Session*> session_to(kv::wire::FarPlace place, uint64_t deadline_ns);

  runtime::Shard& shard_;
  const fabric::tcp::Secret& secret_;
  const cluster::Members& members_;
  std::vector<uint64_t> placements_;                 // Names never change, and nothing else is in it.
  std::map<uint32_t, std::unique_ptr<Line>> lines_;  // By the shard that they lead to.
};

}  // namespace refract::node
