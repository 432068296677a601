// SPDX-License-Identifier: Apache-2.0
#include "refract/node/hosted_kv/hosted_kv.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/log.h"
#include "refract/cluster/members.h"
#include "refract/kv/layout/remote_wire.h"
#include "refract/node/observe/service.h"
#include "refract/prism/operation.h"
#include "refract/storage/group.h"

namespace refract::node {

namespace {

constexpr Offset kFloorStampAt{offsetof(SpaceHeader, floor_stamp)};

// Null: all. None, where the list is not there: then no key is taken for this node's.
std::unique_ptr<const cluster::SlotSet> slots_of(const HostParts& parts) {
  if (parts.config.kv_placement == 0) return nullptr;
  if (parts.members == nullptr) return std::make_unique<const cluster::SlotSet>();
  return std::make_unique<const cluster::SlotSet>(
      cluster::slots_of(parts.members->list(), parts.members->self()));
}

// First half of its SHA-256.
kv::SecretDigest digest_of(const kv::wire::SessionSecret& secret) noexcept {
  std::array<unsigned char, EVP_MAX_MD_SIZE> whole{};
  unsigned int bytes = 0;
  REFRACT_CHECK(EVP_Digest(secret.data(), secret.size(), whole.data(), &bytes, EVP_sha256(), nullptr) == 1);
  kv::SecretDigest digest;
  REFRACT_CHECK(bytes >= sizeof(digest));
  std::memcpy(digest.data(), whole.data(), sizeof(digest));
  return digest;
}

}  // namespace

std::unique_ptr<HostedStore> host_kv(const HostParts& parts) {
  return std::make_unique<HostedKv>(parts);
}

HostedKv::HostedKv(const HostParts& parts)
    : parts_(parts),
      slots_(slots_of(parts)),
      routing_{.shards = parts.config.server_shards, .copies = parts.config.kv_copies, .slots = slots_.get()},
      table_(parts.writer, parts.heap, parts.shard.clock()) {
  parts_.pins.add(session_pins_);
  if (parts_.decisions != nullptr) transaction_parts_.emplace(table_, *parts_.decisions);
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
  if (last != nullptr) take_last(*last);
  return table_.mark_live(last_ ? &*last_ : nullptr, recovery_);
}

// Behind what it says of transactions over several shards the table lacks nothing.
void HostedKv::take_last(const storage::Record& last) {
  if (last.kind == storage::RecordKind::kDecided) {
    last_decided_ = {.place = kv::DecisionPlace{last.client}.at_home(), .number = last.sequence};
  }
  if (storage::LogParts::concerns(last)) return;
  if (last.kind != storage::RecordKind::kGroup) {
    last_ = change_of(last);
    return;
  }
  storage::GroupReader changes(last);
  while (const auto change = changes.next()) last_group_.push_back(change->stamp);
  last_ =
      kv::ChangeLog::Change{.kind = kv::ChangeLog::Kind::kGroup, .stamp = last.stamp, .group = last_group_};
}

Result<> HostedKv::finish_recovery() {
  return table_.finish_recovery(last_ ? &*last_ : nullptr, recovery_);
}

void HostedKv::begin_logging() {
  table_.log_to(parts_.log);
  if (transaction_parts_) transaction_parts_->log_to(parts_.log);
}

// What other shards wait for comes first: a client that is answered may tell them.
size_t HostedKv::on_log_progress() noexcept {
  const size_t done = transactions_ ? transactions_->on_log_progress() : 0;
  return done + service_->on_log_progress();
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
  KvSnapshot::Parts parts{
      .table = table_, .heap = parts_.heap, .writer = parts_.writer, .clock = parts_.shard.clock()};
  if (transaction_parts_) {
    parts.prepared = &*transaction_parts_;
    for (const kv::TransactionName& name : transaction_parts_->decisions_to_keep()) {
      parts.decided.add(name.place.bits, name.number);
    }
    if (transactions_) {
      for (const kv::TransactionName& name : transactions_->decided_afar()) {
        parts.decided.add(name.place.bits, name.number);
      }
    }
  }
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
                                                                 .routing = routing_,
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
  if (transaction_parts_) {
    transaction_parts_->take_up(last_decided_);
    transactions_ = std::make_unique<kv::TransactionService>(
        kv::TransactionService::Parts{.table = table_,
                                      .decisions = *parts_.decisions,
                                      .shard = parts_.shard,
                                      .shard_index = parts_.shard_index,
                                      .routing = routing_,
                                      .upkeep = *service_,
                                      .floor_stamp = parts_.writer.load(kFloorStampAt),
                                      .generation = generation(),
                                      .nodes = parts_.nodes});
    service_->far_reads().look_through(transactions_->far());
    methods.push_back({kv::wire::kTransactionMethodsBegin, transactions_.get()});
  }
  table_.sessions().set_ended_max(config.clients_max);
  numbered_ =
      std::make_unique<kv::NumberedService>(kv::NumberedService::Parts{.table = table_,
                                                                       .service = *service_,
                                                                       .shard = parts_.shard,
                                                                       .shard_index = parts_.shard_index,
                                                                       .routing = routing_,
                                                                       .digest = digest_of,
                                                                       .generation = generation()});
  methods.push_back({kv::wire::kNumberedMethodsBegin, numbered_.get()});
  methods.push_back({prism::kMethodsBegin, &chains_->service(), /*is_sampled=*/false});
}

// Its seed is of the memory, and what it was filled from is of this life of it.
uint64_t HostedKv::generation() const noexcept {
  const auto& header = parts_.writer.view<SpaceHeader>({0});
  return std::max<uint64_t>(mix(header.hash_seed ^ mix(header.floor_stamp + 1)), 1);
}

void HostedKv::answer_through(rpc::Server* server) noexcept {
  if (remote_) remote_->answer_through(server);
  if (transactions_) transactions_->answer_through(server);
  numbered_->answer_through(server);
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
  add_transaction_counters(add);
  add_numbered_counters(add);
  if (!remote_) return;
  const kv::PullFetcher::Counts& pulls = service_->pulls().counts();
  add("pulls.values", pulls.values);
  add("pulls.bytes", pulls.bytes);
  add("pulls.failed", pulls.failed);
  add("pulls.reads", pulls.reads);
}

void HostedKv::add_transaction_counters(const observe::AddCounter& add) const {
  if (!transactions_) return;
  const kv::TransactionService::Counts& counts = transactions_->counts();
  add("transactions.prepared", counts.prepared);
  add("transactions.decided", counts.decided);
  add("transactions.conflicts", counts.conflicts);
  add("transactions.refused", counts.refused);
  add("transactions.waited", counts.waited);
  add("transactions.overdue", counts.overdue);
  add("transactions.orphaned", counts.orphaned);
  add("transactions.parts", transaction_parts_->count());
  const kv::FarTalk* const far = transactions_->far();
  if (far == nullptr) return;
  add("transactions.far_prepared", counts.far_prepared);
  add("transactions.far_decided", counts.far_decided);
  add("transactions.far_questions", far->counts().questions);
  add("transactions.far_unanswered", far->counts().unanswered);
  add("transactions.far_confirmations", far->counts().confirmations);
  add("transactions.far_reads", service_->far_reads().count());
}

void HostedKv::add_numbered_counters(const observe::AddCounter& add) const {
  const kv::NumberedService::Counts& counts = numbered_->counts();
  const kv::SessionRecords::Counts kept = numbered_->records().counts();
  add("numbered.sessions", kept.sessions);
  add("numbered.ended_sessions", kept.ended);
  add("numbered.records", kept.records);
  add("numbered.barred", numbered_->barred());
  add("numbered.waiting", numbered_->waiting());
  add("numbered.begun", counts.begun);
  add("numbered.resumed", counts.resumed);
  add("numbered.executed", counts.executed);
  add("numbered.refused", counts.refused);
  add("numbered.waited", counts.waited);
  add("numbered.told_again", counts.told_again);
  add("numbered.withdrawn", counts.withdrawn);
  add("numbered.acknowledged", counts.acknowledged);
  add("numbered.closed", counts.closed);
  add("numbered.clears", counts.clears);
  add("numbered.cleared", counts.cleared);
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
  state.data.log.refused_writes += service_->log_stats().read_only + numbered_->counts().read_only;
}

}  // namespace refract::node
