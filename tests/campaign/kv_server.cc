// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/kv_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/fabric/sim/world.h"
#include "refract/prism/operation.h"

namespace refract::campaign {
namespace {

constexpr Offset kFloorStampAt{offsetof(SpaceHeader, floor_stamp)};

class NobodyPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

// The beginning of a space with an empty table: its header and the first buckets.
std::vector<std::byte> empty_table(const Keeper::Options& options) {
  const Heap::Geometry geometry{.chunks_max = options.chunks_max,
                                .store_area_bytes = kv::Table::store_area_bytes(options.chunks_max),
                                .hash_seed = Keeper::hash_seed(options),
                                .shard_index = options.shard_index,
                                .shard_count = options.shard_count};
  const uint64_t bytes = Heap::format_bytes(geometry) + 2 * kChunkBytes;
  std::vector<std::byte> image(bytes);
  Writer writer(image.data());
  Heap::format(writer, geometry);
  NobodyPins pins;
  Heap heap(writer, pins);
  heap.add({0}, bytes);
  REFRACT_CHECK(kv::Table::format(writer, heap).has_value());
  return image;
}

}  // namespace

Keeper::Keeper(sim::World& world, sim::Host& server, const Options& options)
    : world_(world),
      options_(options),
      memory_({.bytes = options.chunks * kChunkBytes,
               .bytes_max = options.chunks_max * kChunkBytes,
               .seed = mix(options.seed + 1 + options.shard_index)},
              empty_table(options)),
      regions_{{.base = 0, .bytes = options.chunks * kChunkBytes}} {
  server.attach(&memory_);
}

void Keeper::forget_stamps() noexcept {
  constexpr uint64_t kFirst = 1;
  std::memcpy(memory_.owner() + offsetof(SpaceHeader, stamp_limit), &kFirst, sizeof(kFirst));
}

void Keeper::ask(uint64_t bytes) {
  world_.after(world_.prng().below(200'000), [this, bytes] {
    const uint64_t wanted = round_up(bytes, kChunkBytes) + 2 * kChunkBytes;
    const uint64_t left = options_.chunks_max * kChunkBytes - memory_.bytes();
    if (wanted > left || world_.prng().chance(0.2)) {
      ++refusals_;
      return;
    }
    add_region(wanted);
  });
}

void Keeper::add_region(uint64_t bytes) {
  regions_.push_back({.base = memory_.bytes(), .bytes = bytes});
  memory_.extend(memory_.bytes() + bytes);
}

void ServerProcess::ClientPins::collect(PinSet& pins) noexcept {
  if (keeper_.options_.mutation == Mutation::kIgnorePins) return;
  if (keeper_.options_.mutation == Mutation::kForgetPins && recovering_) return;
  for (const PinTable& table : keeper_.pin_tables_) collect_pins(table, pins);
}

void ServerProcess::AnyUses::collect_uses(std::vector<uint64_t>& hashes) {
  for (uint64_t count = prng_.below(20); count > 0; --count) hashes.push_back(prng_.next());
}

ServerProcess::ServerProcess(sim::Host& host, Keeper& keeper, KvOutcome& tally)
    : host_(host),
      keeper_(keeper),
      tally_(tally),
      mutated_log_(keeper.memory_, keeper.options_.mutation),
      writer_(keeper.memory_.owner(), log()),
      client_pins_(keeper),
      heap_(writer_, pins_),
      table_(writer_, heap_, host.clock()),
      uses_(mix(keeper.options_.seed + host.crash_count())),
      refusals_seen_(keeper.refusals_) {
  if (mutation() != Mutation::kReuseAtOnce) pins_.add(session_pins_);
  pins_.add(client_pins_);
  for (const Keeper::Region& region : keeper_.regions_) heap_.add({region.base}, region.bytes);
  regions_taken_ = keeper_.regions_.size();
  host_.shard().add(*this);
  if (keeper.options_.process != nullptr) {
    decisions_ = &keeper.options_.process->begin();
    parts_.emplace(table_, *decisions_);
  }
  if (keeper.options_.log != nullptr) keeper.options_.log->server_restarted(keeper.memory_);
  // What comes back from a log is compared with it: nothing of that goes.
  if (keeper.options_.log == nullptr) begin_eviction();
  recover();
  if (damage_.empty() && keeper.options_.log != nullptr) {
    take_log();
    begin_eviction();
  }
  if (damage_.empty()) serve();
}

ServerProcess::~ServerProcess() {
  host_.shard().remove(*this);
  tally_.splits += table_.stats().splits;
  tally_.expired += table_.stats().expired;
  tally_.evicted += table_.stats().evicted;
  if (eviction_) tally_.spared += eviction_->counters().spared;
  if (!service_) return;
  tally_.pulled += service_->pulls().counts().values;
  tally_.unpulled += service_->pulls().counts().failed;
}

void ServerProcess::begin_eviction() {
  const kv::EvictionPolicy policy = keeper_.options_.eviction;
  if (policy == kv::EvictionPolicy::kNone) return;
  eviction_.emplace(kv::Eviction::Parts{
      .table = table_, .heap = heap_, .growth = *this, .policy = policy, .samples = &uses_});
  if (keeper_.options_.evictions == nullptr) return;
  witness_.emplace(table_, writer_, keeper_.memory_, *keeper_.options_.evictions);
}

StoreLog* ServerProcess::log() noexcept {
  const bool is_of_log = mutation() == Mutation::kClearBeforeCount ||
                         mutation() == Mutation::kCountBeforeCopies ||
                         mutation() == Mutation::kAcknowledgeEarly || mutation() == Mutation::kDecideLate ||
                         mutation() == Mutation::kWordFirst;
  if (is_of_log) return &mutated_log_;
  return &keeper_.memory_;
}

// As a mutation, one bucket looks empty meanwhile.
Result<> ServerProcess::recover_table() {
  if (keeper_.options_.process != nullptr)
    return keeper_.options_.process->recover(keeper_.options_.shard_index, table_);
  if (mutation() != Mutation::kForgetBucket) {
    ModelLog* const log = keeper_.options_.log;
    const bool has_log = log != nullptr && keeper_.is_filled_;
    const kv::ChangeLog::Change* const last = has_log ? log->last_change() : nullptr;
    if (last != nullptr) log->count_redone(table_.find(last->key).value_or(kv::Table::Entry{}).version);
    return table_.recover(last);
  }
  kv::TableRoot root{};
  std::memcpy(&root, writer_.at(kv::kRootAt), sizeof(root));
  Offset forgotten;
  for (uint64_t index = 0; index < root.bucket_count; ++index) {
    const Offset chunk{writer_.load(Offset{root.directory + index / kv::kBucketsPerChunk * 8})};
    forgotten = chunk.plus(index % kv::kBucketsPerChunk * kLineBytes);
    if (writer_.load(forgotten) != 0) break;
  }
  std::array<std::byte, kLineBytes> bucket{};
  std::byte* const at = writer_.base() + forgotten.value;
  std::memcpy(bucket.data(), at, bucket.size());
  std::memset(at, 0, bucket.size());
  Result<> recovered = table_.recover();
  std::memcpy(at, bucket.data(), bucket.size());
  return recovered;
}

void ServerProcess::recover() {
  const Result<> recovered = recover_table();
  client_pins_.recovery_is_over();
  lines_ = table_.stats().overflow_lines;
  if (mutation() == Mutation::kForgetBucket) return;
  if (!recovered) {
    damage_ = fmt::format("recovery failed: {}", info(recovered.code()).text);
  } else if (const auto damage = table_.validate()) {
    damage_ = fmt::format("after recovery: {} (at {})", damage->what, damage->at.value);
  } else if (heap_.stats().buffers_live < table_.stats().entries) {
    damage_ = "after recovery there are fewer buffers than entries";
  }
}

// What the table holds and what its log says is the same, whether the memory survived or not.
void ServerProcess::take_log() {
  ModelLog& log = *keeper_.options_.log;
  if (!keeper_.is_filled_) fill_from_log();
  const std::string difference = log.compare(table_, host_.clock());
  if (!difference.empty()) damage_ = fmt::format("after a restart {}", difference);
  table_.log_to(&log);
}

void ServerProcess::fill_from_log() {
  // A server that dies here begins again; the real keeper would see to that.
  host_.allow_faults(false);
  while (!keeper_.options_.log->replay_into(table_, heap_)) {
    const uint64_t left = keeper_.options_.chunks_max * kChunkBytes - keeper_.memory_.bytes();
    if (left == 0) {
      damage_ = "what was in the log does not fit the memory";
      return;
    }
    keeper_.add_region(left);
    heap_.add({keeper_.regions_.back().base}, left);
    regions_taken_ = keeper_.regions_.size();
  }
  keeper_.memory_.make_visible(keeper_.memory_.position());
  keeper_.is_filled_ = true;
  host_.allow_faults(true);
  if (const auto damage = table_.validate()) damage_ = fmt::format("after the replay: {}", damage->what);
}

void ServerProcess::serve() {
  service_.emplace(kv::TableService::Parts{.table = table_,
                                           .heap = heap_,
                                           .writer = writer_,
                                           .pins = session_pins_,
                                           .growth = *this,
                                           .shard = host_.shard(),
                                           .shard_index = keeper_.options_.shard_index,
                                           .routing = {.shards = keeper_.options_.shard_count},
                                           .pull_piece_bytes = kKiB,
                                           .eviction = eviction_ ? &*eviction_ : nullptr});
  const bool compares_put_early = mutation() == Mutation::kCompareBeforeRoom;
  early_compare_.emplace(*service_, table_,
                         compares_put_early ? kv::wire::Method::kPut : kv::wire::Method::kPutBegin);
  rpc::Service* service = &*service_;
  if (compares_put_early || mutation() == Mutation::kEarlyCompare) service = &*early_compare_;
  if (mutation() == Mutation::kNoOutcomes) service = &forgetful_.emplace(*service_);
  if (parts_) service = &keeper_.options_.process->round_table(shared_shard(), *service);
  chains_.emplace(
      kv::ChainServer::Parts{.table = table_,
                             .heap = heap_,
                             .writer = writer_,
                             .shard = host_.shard(),
                             .upkeep = table_.log() != nullptr ? &*service_ : nullptr,
                             .service = {.key_seed = mix(keeper_.options_.seed + host_.crash_count()) | 1}});
  remote_.emplace(host_.domain(), host_.clock());
  for (const Keeper::Region& region : keeper_.regions_) offer(region);
  std::vector<rpc::ServiceTable::Row> rows{{0, service}, {kv::wire::kRemoteMethodsBegin, &*remote_}};
  if (parts_) rows.push_back({kv::wire::kTransactionMethodsBegin, &serve_transactions()});
  rows.push_back({prism::kMethodsBegin, &chains_->service()});
  services_.emplace(std::span<const rpc::ServiceTable::Row>(rows));
  server_.emplace(*services_, host_.shard());
  if (parts_) {
    transactions_->answer_through(&*server_);
    keeper_.options_.process->answer_through(keeper_.options_.shard_index, *server_);
  }
  service_->answer_through(&*server_);
  chains_->answer_through(&*server_);
  remote_->answer_through(&*server_);
  fabric::Domain* domain = &host_.domain();
  if (mutation() == Mutation::kEarlyReads) domain = &early_reads_.emplace(*domain);
  dispatcher_.emplace(*domain, host_.shard(), &*server_);
}

SharedProcess::Shard ServerProcess::shared_shard() noexcept {
  return {
      .index = keeper_.options_.shard_index, .table = table_, .log = mutated_log_, .clock = host_.clock()};
}

rpc::Service& ServerProcess::serve_transactions() {
  SharedProcess& process = *keeper_.options_.process;
  transactions_.emplace(kv::TransactionService::Parts{.table = table_,
                                                      .decisions = *decisions_,
                                                      .shard = host_.shard(),
                                                      .shard_index = keeper_.options_.shard_index,
                                                      .routing = {.shards = keeper_.options_.shard_count},
                                                      .upkeep = *service_,
                                                      .floor_stamp = writer_.load(kFloorStampAt),
                                                      .generation = process.generation(),
                                                      .nodes = process.other_nodes()});
  service_->far_reads().look_through(transactions_->far());
  return process.round_transactions(shared_shard(), *transactions_);
}

void ServerProcess::offer(const Keeper::Region& region) {
  REFRACT_CHECK(remote_->add({.start = {region.base}, .bytes = {writer_.base() + region.base, region.bytes}})
                    .has_value());
}

bool ServerProcess::can_grow(uint64_t /*bytes*/) const noexcept {
  return host_.shard().now_ns() >= refused_until_ns_ &&
         heap_.end() < keeper_.options_.chunks_max * kChunkBytes;
}

void ServerProcess::want(uint64_t bytes) noexcept {
  if (asked_) return;
  asked_ = true;
  keeper_.ask(bytes);
}

// Reuse as soon as it is allowed, and the same 16 bits again: what a slot says comes back while it is read.
void ServerProcess::recycle_stamps() noexcept {
  if (heap_.stats().stamps_given == stamps_seen_) return;
  heap_.reclaim();
  while (heap_.next_stamp() % 65'536 != 0) {
  }
  stamps_seen_ = heap_.stats().stamps_given;
}

// What other shards wait for comes first.
size_t ServerProcess::on_log_progress() noexcept {
  if (!transactions_) return service_->on_log_progress();
  if (!keeper_.options_.process->has_progressed(keeper_.options_.shard_index)) return 0;
  const size_t done = transactions_->on_log_progress();
  return done + service_->on_log_progress();
}

size_t ServerProcess::poll() noexcept {
  count_lines();
  if (witness_) witness_->poll();
  if (service_ && on_log_progress() > 0) return 1;
  if (keeper_.options_.short_stamps) recycle_stamps();
  // What is free is used again at once: the sooner the log misses it.
  if (mutation() == Mutation::kReuseAtOnce || keeper_.options_.log != nullptr) heap_.reclaim();
  if (regions_taken_ < keeper_.regions_.size()) {
    const Keeper::Region& region = keeper_.regions_[regions_taken_++];
    heap_.add({region.base}, region.bytes);
    ++tally_.regions;
    asked_ = false;
    offer(region);
    chains_->on_memory_added();
    service_->on_memory_added();
    return 1;
  }
  if (refusals_seen_ < keeper_.refusals_) {
    refusals_seen_ = keeper_.refusals_;
    refused_until_ns_ = host_.shard().now_ns() + kMillisecond_ns;
    asked_ = false;
    service_->on_growth_refused();
    return 1;
  }
  return 0;
}

void ServerProcess::count_lines() noexcept {
  const uint64_t lines = table_.stats().overflow_lines;
  if (table_.crowds() != nullptr && table_.crowds()->count() > 0) ++tally_.crowded;
  if (lines > lines_) tally_.lines_linked += lines - lines_;
  if (lines < lines_) tally_.lines_unlinked += lines_ - lines;
  lines_ = lines;
}

}  // namespace refract::campaign
