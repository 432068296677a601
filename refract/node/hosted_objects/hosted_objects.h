// SPDX-License-Identifier: Apache-2.0
// The objects of a node as their shard hosts them: a table of records, the store that owns what they name,
// and the service that clients call. Nothing of it is on a disk.
//
// The table has no other user: none of the key-value store's methods is served here, so no client makes,
// changes or evicts a record but by calls about objects.
//
// Threads: the shard's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "refract/kv/owner/service/domain_windows.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/kv/owner/table/table.h"
#include "refract/node/hosted/hosted_store.h"
#include "refract/object/directory/directory.h"
#include "refract/object/owner/object_service.h"
#include "refract/object/owner/object_store.h"
#include "refract/object/redis/redis_home.h"
#include "refract/object/transfer/transfer_giver.h"

namespace refract::node {

class HostedObjects final : public HostedStore {
 public:
  explicit HostedObjects(const HostParts& parts);

  // No mark_pinned(): what is in use is named by a record, and pins are the word of clients.
  [[nodiscard]] Result<> mark_live(const storage::Record* last) override;
  [[nodiscard]] Result<> finish_recovery() override;
  [[nodiscard]] std::optional<Damage> damage() override;
  [[nodiscard]] uint64_t entry_count() const noexcept override;

  void serve(std::vector<HostedMethods>& methods) override;
  void answer_through(rpc::Server* server) noexcept override;
  void on_memory_added() noexcept override { service_->on_memory_added(); }
  void on_growth_refused() noexcept override { service_->on_growth_refused(); }

  void add_counters(const observe::AddCounter& add) const override;
  void tell(observe::ShardState& state) const override;

 private:
  void add_directory(const observe::AddCounter& add) const;

  const HostParts parts_;
  kv::SessionPins fetches_;
  kv::Table table_;
  kv::Table::Recovery recovery_;
  object::ObjectStore store_;
  std::optional<kv::DomainWindows> windows_;       // Where sessions come over a network.
  std::unique_ptr<object::RedisHome> redis_home_;  // Where the directory is in Redis.
  object::Arrivals arrivals_;
  std::unique_ptr<object::Directory> directory_;  // Where the node shares its objects with others.
  std::unique_ptr<object::ObjectService> service_;
  std::unique_ptr<object::TransferGiver> giver_;  // Likewise the next.
  std::optional<object::PathTeller> path_teller_;
};

// The first row of the shard of objects. Its area is that of a table.
[[nodiscard]] std::unique_ptr<HostedStore> host_objects(const HostParts& parts);
inline constexpr StoreRow kObjectsRow = {
    .name = "objects",
    .make = host_objects,
    .area = {.bytes = kv::Table::store_area_bytes, .format = kv::Table::format}};

}  // namespace refract::node
