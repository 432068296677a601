// SPDX-License-Identifier: Apache-2.0
// PRISM-KV's client: a get is one READ through a slot; a put finds its slot in one round trip and swings it
// to a new item in a second one.
//
// What a put has replaced, or has taken without use, the client reports, some of them at a time and without
// waiting. A put whose swap fails has been overtaken by another write of the same key, which took effect
// meanwhile; it counts as done just before that one.
//
// Threads: used only by its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/designs/design.h"
#include "refract/kv/designs/prism/layout.h"
#include "refract/prism/client.h"

namespace refract::kv::prism_kv {

class PrismKvClient final : public designs::Client, private rpc::ReplyTaker {
 public:
  explicit PrismKvClient(const designs::ClientParts& parts) noexcept
      : parts_(parts), chains_(parts.session) {}

  [[nodiscard]] runtime::Task<Result<>> attach(uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Result<uint64_t>> get(Bytes key, ValueSink& sink,
                                                    uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Result<>> put(Bytes key, Bytes value, uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Result<>> erase(Bytes key, uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Result<>> settle(uint64_t deadline_ns) override;

  struct Counts {
    uint64_t probes = 0;     // Slots that gets looked at.
    uint64_t locates = 0;    // Likewise, of puts and erases.
    uint64_t overtaken = 0;  // Swaps that failed.
    uint64_t reports = 0;    // Calls.
    uint64_t lost_reports = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  // A buffer for one operation's item and chain.
  class Workspace;

  // The slot that belongs to the key, or that no key has come to yet.
  struct Located {
    uint64_t index = 0;
    Slot slot;
    bool is_present = false;  // With a value, not a tombstone.
  };
  enum class Swung : uint8_t { kDone, kOvertaken };

  [[nodiscard]] uint64_t deadline_or_default(uint64_t deadline_ns) const noexcept {
    return deadline_ns != 0 ? deadline_ns : parts_.shard.now_ns() + parts_.timeout_ns;
  }
  [[nodiscard]] RemotePointer at(uint64_t offset) const noexcept { return store_.at(offset); }
  [[nodiscard]] runtime::Task<Result<Located>> locate(Bytes key, Workspace& work, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<Swung>> swing(const Located& located, Bytes item, uint64_t list,
                                                   Workspace& work, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<Swung>> swing_patiently(const Located& located, Bytes item,
                                                             uint64_t list, Workspace& work,
                                                             uint64_t deadline_ns);
  void report_later(RemotePointer buffer);
  void start_report() noexcept;
  void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept override;

  designs::ClientParts parts_;
  prism::Client chains_;
  prism::Attachment store_;
  Root root_{};
  std::vector<std::unique_ptr<std::vector<std::byte>>> workspaces_;  // Free ones.
  std::vector<uint64_t> reports_;                                    // To be told.
  bool reports_under_way_ = false;
  Counts counts_;
};

// The row's entry.
[[nodiscard]] std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts);

}  // namespace refract::kv::prism_kv
