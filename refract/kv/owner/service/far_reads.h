// SPDX-License-Identifier: Apache-2.0
// Reads that meet what transactions of other nodes have prepared here (docs/design/070): they wait until the
// home has been looked at.
//
// Threads: the owner's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/waiting_reads.h"
#include "refract/kv/owner/table/table.h"
#include "refract/runtime/shard.h"

namespace refract::kv {

class FarReads {
 public:
  class Host {
   public:
    [[nodiscard]] virtual bool is_open(rpc::SessionId session) noexcept = 0;
    virtual void read(const rpc::IncomingCall& call) noexcept = 0;
    virtual void refuse(const rpc::Responder& to) noexcept = 0;  // kOverloaded.

   protected:
    ~Host() = default;
  };
  // All outlive it.
  FarReads(Table& table, runtime::Shard& shard, Host& host) : table_(table), shard_(shard), host_(host) {}

  // Before the first session. Null: this node knows of no other.
  void look_through(FarLooks* looks) noexcept { looks_ = looks; }
  // Whether a read may have to wait.
  [[nodiscard]] bool has_any() const noexcept { return looks_ != nullptr && table_.parts()->has_far(); }
  // Those that need not wait; the others do from now on.
  [[nodiscard]] std::vector<rpc::IncomingCall> others(std::span<const rpc::IncomingCall> calls);
  // A home has been looked at, or parts have ended.
  void on_answer() noexcept;
  void drop(rpc::SessionId session) { reads_.drop(session); }
  // Whether a write of the key is to be refused, since a node that is away decides about it.
  [[nodiscard]] bool is_stuck(uint64_t hash) const noexcept {
    return has_any() && table_.parts()->is_stuck(hash);
  }
  [[nodiscard]] uint64_t count() const noexcept { return count_; }

 private:
  [[nodiscard]] std::optional<std::optional<uint64_t>> key_read(const rpc::IncomingCall& call) const;
  [[nodiscard]] bool waits(const rpc::IncomingCall& call);

  Table& table_;
  runtime::Shard& shard_;
  Host& host_;
  FarLooks* looks_ = nullptr;
  WaitingReads reads_;
  uint64_t count_ = 0;  // That have waited.
};

}  // namespace refract::kv
