// SPDX-License-Identifier: Apache-2.0
#include "refract/node/hosted_kv/hosted_kv.h"

#include <span>
#include <utility>

#include "refract/base/log.h"
#include "refract/kv/layout/remote_wire.h"
#include "refract/node/observe/service.h"
#include "refract/prism/operation.h"

namespace refract::node {

std::unique_ptr<HostedStore> host_kv(const HostParts& parts) {
  return std::make_unique<HostedKv>(parts);
}

HostedKv::HostedKv(const HostParts& parts)
    : parts_(parts), table_(parts.writer, parts.heap, parts.shard.clock()) {
  parts_.pins.add(session_pins_);
  make_eviction();
}

void HostedKv::make_eviction() {
  const kv::EvictionPolicy policy = parts_.config.memory_eviction;
  publish_u64(&parts_.page.reads_per_use, kv::reads_per_use(policy));
  if (policy == kv::EvictionPolicy::kNone) return;
  eviction_ = std::make_unique<kv::Eviction>(kv::Eviction::Parts{.table = table_,
                                                                 .heap = parts_.heap,
                                                                 .growth = parts_.growth,
                                                                 .policy = policy,
                                                                 .samples = &parts_.uses});
}

Result<> HostedKv::mark_live(const storage::Record* last) {
  if (last != nullptr) last_ = change_of(*last);
  return table_.mark_live(last_ ? &*last_ : nullptr, recovery_);
}

Result<> HostedKv::finish_recovery() {
  return table_.finish_recovery(last_ ? &*last_ : nullptr, recovery_);
}

std::optional<HostedStore::Damage> HostedKv::damage() {
  const auto found = table_.validate();
  if (!found) return std::nullopt;
  return Damage{.at = found->at, .what = found->what};
}

// For an entry of so many bytes, while no client can notice the loss yet.
bool HostedKv::make_room(uint64_t bytes) {
  constexpr uint64_t kHeaderBytesMax = 128;
  return eviction_ != nullptr && eviction_->make_room_at_once(bytes + kHeaderBytesMax);
}

std::unique_ptr<StoreSnapshot> HostedKv::begin_snapshot(const StoreSnapshot::Options& options) {
  const KvSnapshot::Parts parts{
      .table = table_, .heap = parts_.heap, .writer = parts_.writer, .clock = parts_.shard.clock()};
  return std::make_unique<KvSnapshot>(parts, options);
}

void HostedKv::serve(std::vector<HostedMethods>& methods) {
  const NodeConfig& config = parts_.config;
  if (parts_.network != nullptr) windows_.emplace(*parts_.network);
  service_ =
      std::make_unique<kv::TableService>(kv::TableService::Parts{.table = table_,
                                                                 .heap = parts_.heap,
                                                                 .writer = parts_.writer,
                                                                 .pins = session_pins_,
                                                                 .growth = parts_.growth,
                                                                 .shard = parts_.shard,
                                                                 .sweep_round_ns = config.ttl_sweep_ns,
                                                                 .shard_index = parts_.shard_index,
                                                                 .shard_count = config.server_shards,
                                                                 .windows = windows_ ? &*windows_ : nullptr,
                                                                 .upload_bytes_max = parts_.bytes_max / 2,
                                                                 .eviction = eviction_.get()});
  chains_ = std::make_unique<kv::ChainServer>(kv::ChainServer::Parts{.table = table_,
                                                                     .heap = parts_.heap,
                                                                     .writer = parts_.writer,
                                                                     .shard = parts_.shard,
                                                                     .may_write = config.chains_write,
                                                                     .upkeep = service_.get()});
  methods.push_back({0, service_.get()});
  if (parts_.bypass != nullptr) {
    remote_ = std::make_unique<kv::RemoteServer>(*parts_.bypass, parts_.shard.clock());
    methods.push_back({kv::wire::kRemoteMethodsBegin, remote_.get()});
  }
  methods.push_back({prism::kMethodsBegin, &chains_->service(), /*is_sampled=*/false});
}

void HostedKv::answer_through(rpc::Server* server) noexcept {
  if (remote_) remote_->answer_through(server);
  service_->answer_through(server);
  chains_->answer_through(server);
}

void HostedKv::on_region(Offset start, uint64_t bytes) {
  if (!remote_) return;
  const auto offered =
      remote_->add({.start = start, .bytes = std::span(parts_.writer.base() + start.value, bytes)});
  if (offered) return;
  const Report& why = offered.error();
  log_warn("{}what lies there is read by messages: {}; {}", parts_.name, why.what, why.next);
}

void HostedKv::on_memory_added() noexcept {
  chains_->on_memory_added();
  service_->on_memory_added();
}

void HostedKv::add_counters(const observe::AddCounter& add) const {
  add_chain_counters(add);
  add_log_counters(add);
  add_eviction_counters(add);
  if (!remote_) return;
  const kv::PullFetcher::Counts& pulls = service_->pulls().counts();
  add("pulls.values", pulls.values);
  add("pulls.bytes", pulls.bytes);
  add("pulls.failed", pulls.failed);
  add("pulls.reads", pulls.reads);
}

void HostedKv::add_chain_counters(const observe::AddCounter& add) const {
  const prism::snic::Executor::Counts& executed = chains_->executor().counts();
  const prism::snic::Service::Counts& served = chains_->service().counts();
  add("chains.executed", executed.chains);
  add("chains.malformed", executed.malformed_chains);
  add("chains.operations", executed.all_operations());
  add("chains.failed_operations", executed.failed_operations);
  add("chains.failed_comparisons", executed.failed_comparisons);
  add("chains.bytes_in", executed.bytes_in);
  add("chains.bytes_out", executed.bytes_out);
  add("chains.deferred", served.deferred);
  add("chains.overloaded", served.overloaded);
  // Of some batches: the two say what a chain takes, the server's share of the message included.
  add("chains.timed", served.timed_chains);
  add("chains.timed_ns", served.timed_ns);
  add("chains.installed", chains_->guard().installed_count());
  add("chains.refused", chains_->guard().refused_count());
}

void HostedKv::add_log_counters(const observe::AddCounter& add) const {
  if (parts_.log == nullptr) return;
  const kv::TableService::LogStats waiting = service_->log_stats();
  add("log.held_answers", waiting.held_answers);
  add("log.waiting_writes", waiting.waiting_writes);
  add("log.held_back_bytes", waiting.held_back_bytes);
  add("log.indeterminate", waiting.indeterminate);
  add("log.read_only", waiting.read_only);
}

void HostedKv::add_eviction_counters(const observe::AddCounter& add) const {
  if (!eviction_) return;
  const kv::Table::Stats& table = table_.stats();
  const kv::Eviction::Counters& counters = eviction_->counters();
  add("eviction.entries", table.evicted);
  add("eviction.bytes", table.evicted_bytes);
  add("eviction.samples", counters.samples);
  add("eviction.windows", counters.runs);
  add("eviction.spared", counters.spared);
}

void HostedKv::tell(observe::ShardState& state) const {
  observe::tell_table(table_.stats(), state);
  observe::tell_service(service_->stat(), state);
  state.data.log.refused_writes += service_->log_stats().read_only;
}

}  // namespace refract::node
