// SPDX-License-Identifier: Apache-2.0
// The objects of a node as their shard hosts them: a table of records, and what owns the objects that they
// name. Nothing of it is on a disk.
//
// Threads: the shard's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "refract/kv/owner/table/table.h"
#include "refract/node/hosted/hosted_store.h"

namespace refract::node {

class HostedObjects final : public HostedStore {
 public:
  explicit HostedObjects(const HostParts& parts);

  [[nodiscard]] Result<> mark_live(const storage::Record* last) override;
  void mark_pinned() override { table_.mark_pinned(recovery_); }
  [[nodiscard]] Result<> finish_recovery() override;
  [[nodiscard]] std::optional<Damage> damage() override;
  [[nodiscard]] uint64_t entry_count() const noexcept override { return table_.stats().entries; }

  void serve(std::vector<HostedMethods>& methods) override;
  void answer_through(rpc::Server* server) noexcept override;

  void add_counters(const observe::AddCounter& add) const override;
  void tell(observe::ShardState& state) const override;

 private:
  const HostParts parts_;
  kv::Table table_;
  kv::Table::Recovery recovery_;
};

// The first row of the shard of objects. Its area is that of a table.
[[nodiscard]] std::unique_ptr<HostedStore> host_objects(const HostParts& parts);
inline constexpr StoreRow kObjectsRow = {
    .name = "objects",
    .make = host_objects,
    .area = {.bytes = kv::Table::store_area_bytes, .format = kv::Table::format}};

}  // namespace refract::node
