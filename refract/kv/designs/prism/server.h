// SPDX-License-Identifier: Apache-2.0
// PRISM-KV's server: an executor of chains, the free lists, and the daemon that gives buffers back to them.
//
// It takes no part in gets and puts. Clients report buffers that they have replaced, or that a put of theirs
// took without use; what they cannot report, because they died, a sweep finds. A buffer goes back only while
// no chain is under way and no slot leads to it, so a report that is false, doubled or late does no harm to
// other items.
//
// Threads: used only by the shard that owns the memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/kv/designs/design.h"
#include "refract/kv/designs/prism/layout.h"
#include "refract/memory/writer.h"
#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/free_lists.h"
#include "refract/prism/snic/guard.h"
#include "refract/prism/snic/service.h"
#include "refract/rpc/service_table.h"

namespace refract::kv::prism_kv {

class PrismKvServer final : public designs::Server, private rpc::Service, private prism::snic::Guard {
 public:
  explicit PrismKvServer(const designs::ServerParts& parts);

  [[nodiscard]] rpc::Service& service() noexcept override { return services_; }
  void answer_through(rpc::Server* server) noexcept override;
  // A step of the sweep. The index and the buffers have been gone through once after pass_count() grew.
  void keep_house() noexcept override;
  [[nodiscard]] Facts facts() const override;
  [[nodiscard]] std::optional<std::string> contradiction() const override;

  struct Counts {
    uint64_t reported = 0;  // Buffers given back because a client said so.
    uint64_t refused = 0;   // Reports of what is free, or of what a slot leads to.
    uint64_t swept = 0;     // Buffers that no client reported.
    uint64_t passes = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  // For tests, which interleave chains of their own.
  [[nodiscard]] prism::snic::Executor& executor() noexcept { return executor_; }
  [[nodiscard]] prism::snic::FreeLists& lists() noexcept { return lists_; }
  [[nodiscard]] rpc::Service& daemon() noexcept { return *this; }
  [[nodiscard]] uint16_t region() const noexcept { return region_; }

  static constexpr prism::ChainRights kRights = {prism::ChainRights::kRead | prism::ChainRights::kAtomic |
                                                 prism::ChainRights::kAllocate};

 private:
  using Bytes = std::span<const std::byte>;

  // What the sweep knows of a buffer.
  struct Mark {
    bool is_met = false;  // A slot led to it in this pass.
    uint8_t missed = 0;   // In how many whole passes none did.
  };
  struct Buffer {
    uint64_t list = 0;
    uint64_t number = 0;
  };
  static constexpr uint64_t kStepsPerCall = 8192;

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  [[nodiscard]] Code take_reports(const rpc::IncomingCall& call);
  void work_on_reports() noexcept;
  [[nodiscard]] bool is_reachable(Offset buffer) const noexcept;
  void give_back(Offset buffer) noexcept;
  void meet_slots(uint64_t& steps) noexcept;
  void sweep_buffers(uint64_t& steps) noexcept;
  [[nodiscard]] Mark& mark_of(Offset buffer) noexcept;
  [[nodiscard]] std::optional<Bytes> key_in(Offset buffer, ItemHeader& header) const noexcept;
  [[nodiscard]] std::optional<std::string> contradiction_at(uint64_t index) const;
  [[nodiscard]] const Slot& slot(uint64_t index) const noexcept {
    return writer_.view<Slot>({slot_at(root_, index)});
  }

  // Chains may change slots and nothing else, and have them lead to buffers that are out.
  [[nodiscard]] bool may_write(Offset, uint64_t) noexcept override { return false; }
  [[nodiscard]] Code may_swap(const prism::snic::Swap& swap) noexcept override;

  Writer writer_;
  Root root_;
  uint16_t region_;
  prism::snic::FreeLists lists_;
  prism::snic::Executor executor_;
  prism::snic::Service chains_;
  rpc::ServiceTable services_;
  rpc::Server* server_ = nullptr;
  std::vector<Offset> reported_;  // Wait until no chain is under way.
  std::array<std::vector<Mark>, kListsMax> marks_;
  uint64_t next_slot_ = 0;  // Of the pass.
  Buffer next_buffer_;
  Counts counts_;
};

// The row's entries.
[[nodiscard]] uint64_t memory_bytes(const designs::Capacity& capacity);
[[nodiscard]] Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts);

}  // namespace refract::kv::prism_kv
