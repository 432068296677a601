// SPDX-License-Identifier: Apache-2.0
#include "refract/node/hosted_objects/hosted_objects.h"

#include <string>

#include "refract/base/prng.h"
#include "refract/node/observe/service.h"
#include "refract/object/directory/directory_wire.h"
#include "refract/object/layout/object_wire.h"

namespace refract::node {
namespace {

// Clients write down every get: of objects there are few beside keys, and eviction takes whole ones.
constexpr uint64_t kReadsPerUse = 1;

}  // namespace

std::unique_ptr<HostedStore> host_objects(const HostParts& parts) {
  return std::make_unique<HostedObjects>(parts);
}

HostedObjects::HostedObjects(const HostParts& parts)
    : parts_(parts),
      table_(parts.writer, parts.heap, parts.shard.clock()),
      store_({.writer = parts.writer,
              .heap = parts.heap,
              .table = table_,
              .uses = &parts.uses,
              .limit = parts.config.objects_limit_bytes,
              .growth = &parts.growth}) {
  parts_.pins.add(fetches_);
  const uint64_t shared = parts_.peers != nullptr ? fabric::shm::kObjectsAreShared : 0;
  publish_u64(&parts_.page.reads_per_use, kReadsPerUse | shared);
}

Result<> HostedObjects::mark_live(const storage::Record* /*last*/) {
  if (auto marked = table_.mark_live(nullptr, recovery_); !marked) return marked;
  return store_.mark_live();
}

Result<> HostedObjects::finish_recovery() {
  if (auto finished = table_.finish_recovery(nullptr, recovery_); !finished) return finished;
  return store_.finish_recovery();
}

std::optional<HostedStore::Damage> HostedObjects::damage() {
  if (const auto found = table_.validate()) return Damage{.at = found->at, .what = found->what};
  if (const auto found = store_.damage()) return Damage{.at = found->at, .what = found->what};
  return std::nullopt;
}

uint64_t HostedObjects::entry_count() const noexcept {
  const object::ObjectAccounts& accounts = store_.accounts();
  return accounts.objects + accounts.creations + accounts.departed;
}

void HostedObjects::serve(std::vector<HostedMethods>& methods) {
  if (parts_.network != nullptr) windows_.emplace(*parts_.network);
  if (parts_.redis != nullptr) {
    redis_home_ = std::make_unique<object::RedisHome>(
        object::RedisHome::Parts{.line = *parts_.redis, .shard = parts_.shard, .seed = secure_random_u64()});
  }
  if (parts_.peers != nullptr) {
    directory_ = std::make_unique<object::Directory>(
        object::Directory::Parts{.store = store_,
                                 .shard = parts_.shard,
                                 .peers = *parts_.peers,
                                 .growth = parts_.growth,
                                 .pins = &fetches_,
                                 .is_node = parts_.is_node,
                                 .identity = {parts_.page.identity[0], parts_.page.identity[1]},
                                 .outside = redis_home_.get(),
                                 .arrivals = &arrivals_});
  }
  service_ = std::make_unique<object::ObjectService>(
      object::ObjectService::Parts{.store = store_,
                                   .heap = parts_.heap,
                                   .writer = parts_.writer,
                                   .pins = fetches_,
                                   .growth = parts_.growth,
                                   .shard = parts_.shard,
                                   .windows = windows_ ? &*windows_ : nullptr,
                                   .elsewhere = directory_.get()});
  methods.push_back({object::wire::kMethodsBegin, service_.get()});
  if (directory_ == nullptr) return;
  giver_ = std::make_unique<object::TransferGiver>(
      object::TransferGiver::Parts{.store = store_,
                                   .writer = parts_.writer,
                                   .pins = fetches_,
                                   .shard = parts_.shard,
                                   .elsewhere = *directory_,
                                   .windows = windows_ ? &*windows_ : nullptr,
                                   .has_let_go = [this] { service_->on_store_changed(); },
                                   .arrivals = &arrivals_});
  path_teller_.emplace(*directory_);
  methods.push_back({object::wire::kPathMethodsBegin, &*path_teller_});
  // Calls of nodes wait for what other nodes do, and are no measure of this one.
  methods.push_back({object::wire::kDirectoryMethodsBegin, directory_.get(), /*is_sampled=*/false});
  methods.push_back({object::wire::kTransferMethodsBegin, giver_.get(), /*is_sampled=*/false});
}

void HostedObjects::answer_through(rpc::Server* server) noexcept {
  service_->answer_through(server);
  if (!directory_) return;
  directory_->answer_through(server);
  giver_->answer_through(server);
  path_teller_->answer_through(server);
  parts_.members->call_on_change([this](const cluster::Members& members) { directory_->follow(members); });
  directory_->follow(*parts_.members);
}

void HostedObjects::add_counters(const observe::AddCounter& add) const {
  const object::ObjectAccounts& accounts = store_.accounts();
  add("objects.limit", accounts.limit);
  add("objects.used", accounts.used());
  add("objects.sealed", accounts.objects);
  add("objects.sealed_bytes", accounts.sealed_bytes);
  add("objects.creations", accounts.creations);
  add("objects.creation_bytes", accounts.creation_bytes);
  add("objects.departed", accounts.departed);
  add("objects.departed_bytes", accounts.departed_bytes);
  add("objects.kept_bytes", accounts.kept_bytes);
  add("objects.sealed_ever", accounts.sealed_ever);
  add("objects.deleted_ever", accounts.deleted_ever);
  add("objects.evicted_ever", accounts.evicted_ever);
  add("objects.evicted_bytes_ever", accounts.evicted_bytes_ever);
  add("objects.aborted_ever", accounts.aborted_ever);
  const object::ObjectService::Counts counts = service_->counts();
  add("objects.no_space", counts.no_space);
  add("objects.overloaded", counts.overloaded);
  add("objects.given_up", counts.given_up);
  add("objects.claimed", counts.claimed);
  add("objects.unclaimed", counts.unclaimed);
  add("objects.waiting_for_room", counts.waiting_for_room);
  add("objects.waiting_for_objects", counts.waiting_for_objects);
  add("objects.waiting_for_notices", counts.waiting_for_notices);
  add("objects.fetches", counts.fetches);
  add("objects.notices", counts.notices);
  add("objects.notices_lost", counts.lost);
  add("objects.replays", counts.replays);
  if (directory_) add_directory(add);
  const kv::PullFetcher::Counts& pulls = service_->pulls().counts();
  add("pulls.values", pulls.values);
  add("pulls.bytes", pulls.bytes);
  add("pulls.failed", pulls.failed);
  add("pulls.reads", pulls.reads);
}

void HostedObjects::add_directory(const observe::AddCounter& add) const {
  const object::Directory::Counts counts = directory_->counts();
  add("directory.complete", counts.is_complete ? 1 : 0);
  add("directory.ids", counts.home.ids);
  add("directory.lingering", counts.home.lingering);
  add("directory.tombstones", counts.tombstones);
  add("directory.streams", counts.streams);
  add("directory.look_ups", counts.look_ups);
  add("directory.asked_all", counts.asked_all);
  add("directory.claims", counts.claims);
  add("directory.claims_refused", counts.claims_refused);
  add("directory.conflicts", counts.conflicts);
  add("directory.dropped", counts.dropped);
  if (redis_home_) {
    const object::OutsideHome::Counts outside = redis_home_->counts();
    add("directory.redis", redis_home_->trouble().code == Code::kOk ? 1 : 0);
    add("directory.redis_repeated", outside.repeated);
    add("directory.redis_streams_ended", outside.streams_ended);
  }
  add("directory.pulls", counts.pulls);
  add("directory.pulled_bytes", counts.pulled_bytes);
  add("directory.pulls_failed", counts.pulls_failed);
  add("transfer.from_several", counts.pulls_from_several);
  add("transfer.givers_left", counts.givers_left);
  add("transfer.calls", counts.transfer_calls);
  add("transfer.reads", counts.transfer_reads);
  add("transfer.read_bytes", counts.read_bytes);
  add("transfer.message_bytes", counts.message_bytes);
  add("transfer.room_waits", counts.room.waits);
  add("transfer.room_fails", counts.room.fails);
  const object::TransferGiver::Counts given = giver_->counts();
  add("transfer.given", given.transfers);
  add("transfer.given_windows", given.windows);
  add("transfer.given_bytes", given.message_bytes);
  add("transfer.given_idle", given.idle);
  add("transfer.giving", given.open);
}

void HostedObjects::tell(observe::ShardState& state) const {
  observe::tell_table(table_.stats(), state);
  const object::ObjectService::Counts counts = service_->counts();
  state.views = counts.fetches;
  state.waiting_for_memory = counts.waiting_for_room;
}

}  // namespace refract::node
