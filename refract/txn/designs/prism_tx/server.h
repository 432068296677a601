// SPDX-License-Identifier: Apache-2.0
// PRISM-TX's server: an executor of chains, a list of buffers, and the clean-up that the paper leaves open.
//
// It takes no part in transactions. A client that prepared a write and died keeps all others from that key,
// since PW is above C for ever. So the server ends a client whose session closed, or that has kept a key for
// too long, in this order:
//   (C1) its number is revoked: no chain that carries its timestamps changes a slot any more;
//   (C2) chains under way come to their end;
//   (C3) of each slot whose PW is its, C becomes PW. The value stays what it was.
// NOTES.md says what this cannot save.
//
// Threads: used only by the shard that owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "refract/memory/writer.h"
#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/free_lists.h"
#include "refract/prism/snic/guard.h"
#include "refract/prism/snic/service.h"
#include "refract/rpc/service_table.h"
#include "refract/txn/designs/design.h"
#include "refract/txn/designs/prism_tx/layout.h"

namespace refract::txn::prism_tx {

// What the clean-up cannot do without. Tests break it, and find out.
struct ServerRules {
  bool revokes = true;  // (C1), of clients that are only slow.
};

class PrismTxServer final : public designs::Server, private rpc::Service, private prism::snic::Guard {
 public:
  explicit PrismTxServer(const designs::ServerParts& parts, const ServerRules& rules = {});

  [[nodiscard]] rpc::Service& service() noexcept override { return services_; }
  void answer_through(rpc::Server* server) noexcept override;
  [[nodiscard]] Result<> load(designs::Bytes key, designs::Bytes value) override;
  // A step of a walk over all slots.
  void keep_house() noexcept override;
  [[nodiscard]] Facts facts() const override;
  [[nodiscard]] std::optional<std::string> contradiction() const override;

  // For tests, which interleave chains of their own.
  [[nodiscard]] prism::snic::Executor& executor() noexcept { return executor_; }
  [[nodiscard]] prism::snic::FreeLists& lists() noexcept { return lists_; }
  [[nodiscard]] rpc::Service& calls() noexcept { return *this; }
  [[nodiscard]] uint16_t region() const noexcept { return region_; }

  static constexpr prism::ChainRights kRights = {prism::ChainRights::kRead | prism::ChainRights::kAtomic |
                                                 prism::ChainRights::kAllocate};

 private:
  struct Member {
    rpc::SessionId session;
    bool is_revoked = false;
  };
  // A slot that a client keeps others from, and since when it was seen so.
  struct Pending {
    uint64_t writer = 0;
    uint64_t since_ns = 0;
  };
  static constexpr uint64_t kStepsPerCall = 8192;

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;
  [[nodiscard]] Code join(const rpc::IncomingCall& call);
  void revoke(Member& member) noexcept;
  void look_at(uint64_t index, uint64_t now_ns) noexcept;
  [[nodiscard]] bool may_prepare(uint64_t timestamp) const noexcept;
  [[nodiscard]] bool may_become(const Slot& before, const Slot& after,
                                const prism::snic::Swap& swap) const noexcept;
  [[nodiscard]] std::optional<designs::Bytes> key_in(Offset buffer, ItemHeader& header) const noexcept;
  [[nodiscard]] std::optional<std::string> contradiction_at(uint64_t index) const;
  [[nodiscard]] const Slot& slot(uint64_t index) const noexcept {
    return writer_.view<Slot>({slot_at(root_, index)});
  }

  // Chains may change slots and nothing else.
  [[nodiscard]] bool may_write(Offset, uint64_t) noexcept override { return false; }
  [[nodiscard]] Code may_swap(const prism::snic::Swap& swap) noexcept override;
  [[nodiscard]] bool may_allocate_unowned() noexcept override { return false; }

  runtime::Shard& shard_;
  Writer writer_;
  Root root_;
  uint16_t region_;
  uint64_t keys_max_;
  uint64_t patience_ns_;
  ServerRules rules_;
  prism::snic::FreeLists lists_;
  prism::snic::Executor executor_;
  prism::snic::Service chains_;
  rpc::ServiceTable services_;
  rpc::Server* server_ = nullptr;
  std::unordered_map<uint16_t, Member> members_;
  std::unordered_map<uint64_t, uint16_t> clients_;  // By their sessions.
  std::vector<Pending> pending_;                    // Of each slot.
  uint64_t next_slot_ = 0;
  uint64_t keys_ = 0;
  uint64_t freed_keys_ = 0;
  uint64_t ended_clients_ = 0;
};

// The row's entries.
[[nodiscard]] uint64_t memory_bytes(const designs::Capacity& capacity);
[[nodiscard]] Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts);

}  // namespace refract::txn::prism_tx
