// SPDX-License-Identifier: Apache-2.0
#include "refract/node/hosted_objects/hosted_objects.h"

#include "refract/node/observe/service.h"

namespace refract::node {
namespace {

// Clients write down every get: of objects there are few beside keys, and eviction takes whole ones.
constexpr uint64_t kReadsPerUse = 1;

}  // namespace

std::unique_ptr<HostedStore> host_objects(const HostParts& parts) {
  return std::make_unique<HostedObjects>(parts);
}

HostedObjects::HostedObjects(const HostParts& parts)
    : parts_(parts), table_(parts.writer, parts.heap, parts.shard.clock()) {
  publish_u64(&parts_.page.reads_per_use, kReadsPerUse);
}

Result<> HostedObjects::mark_live(const storage::Record* /*last*/) {
  return table_.mark_live(nullptr, recovery_);
}

Result<> HostedObjects::finish_recovery() {
  return table_.finish_recovery(nullptr, recovery_);
}

std::optional<HostedStore::Damage> HostedObjects::damage() {
  const auto found = table_.validate();
  if (!found) return std::nullopt;
  return Damage{.at = found->at, .what = found->what};
}

void HostedObjects::serve(std::vector<HostedMethods>& /*methods*/) {}

void HostedObjects::answer_through(rpc::Server* /*server*/) noexcept {}

void HostedObjects::add_counters(const observe::AddCounter& /*add*/) const {}

void HostedObjects::tell(observe::ShardState& state) const {
  observe::tell_table(table_.stats(), state);
}

}  // namespace refract::node
