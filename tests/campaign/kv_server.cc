// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/kv_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/fabric/sim/world.h"

namespace refract::campaign {
namespace {

class NobodyPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

// The beginning of a space with an empty table: its header and the first buckets.
std::vector<std::byte> empty_table(const Keeper::Options& options) {
  const Heap::Geometry geometry{.chunks_max = options.chunks_max,
                                .store_area_bytes = kv::Table::store_area_bytes(options.chunks_max),
                                .hash_seed = mix(options.seed)};
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
               .seed = mix(options.seed + 1)},
              empty_table(options)),
      regions_{{.base = 0, .bytes = options.chunks * kChunkBytes}} {
  server.attach(&memory_);
}

void Keeper::ask(uint64_t bytes) {
  world_.after(world_.prng().below(200'000), [this, bytes] {
    const uint64_t wanted = round_up(bytes, kChunkBytes) + 2 * kChunkBytes;
    const uint64_t left = options_.chunks_max * kChunkBytes - memory_.bytes();
    if (wanted > left || world_.prng().chance(0.2)) {
      ++refusals_;
      return;
    }
    regions_.push_back({.base = memory_.bytes(), .bytes = wanted});
    memory_.extend(memory_.bytes() + wanted);
  });
}

void ServerProcess::ClientPins::collect(PinSet& pins) noexcept {
  if (keeper_.options_.sabotage == KvRun::Sabotage::kIgnorePins) return;
  if (keeper_.options_.sabotage == KvRun::Sabotage::kForgetPins && recovering_) return;
  for (const PinTable& table : keeper_.pin_tables_) collect_pins(table, pins);
}

void ServerProcess::LateCount::stored(Offset at, std::span<const std::byte> bytes) noexcept {
  uint64_t word = 1;
  if (bytes.size() == sizeof(word)) std::memcpy(&word, bytes.data(), sizeof(word));
  if (word != 0) catch_up();
  if (at == kv::kBucketCountAt) {
    late_ = true;
  } else {
    memory_.stored(at, bytes);
  }
}

void ServerProcess::LateCount::fenced() noexcept {
  catch_up();
  memory_.fenced();
}

void ServerProcess::LateCount::catch_up() noexcept {
  if (!late_) return;
  late_ = false;
  memory_.stored(kv::kBucketCountAt, {memory_.owner() + kv::kBucketCountAt.value, sizeof(uint64_t)});
}

ServerProcess::ServerProcess(sim::Host& host, Keeper& keeper, KvOutcome& tally)
    : host_(host),
      keeper_(keeper),
      tally_(tally),
      late_count_(keeper.memory_),
      writer_(keeper.memory_.owner(), log()),
      client_pins_(keeper),
      heap_(writer_, pins_),
      table_(writer_, heap_, host.clock()),
      refusals_seen_(keeper.refusals_) {
  pins_.add(session_pins_);
  pins_.add(client_pins_);
  for (const Keeper::Region& region : keeper_.regions_) heap_.add({region.base}, region.bytes);
  regions_taken_ = keeper_.regions_.size();
  host_.shard().add(*this);
  recover();
  if (damage_.empty()) serve();
}

ServerProcess::~ServerProcess() {
  host_.shard().remove(*this);
  tally_.splits += table_.stats().splits;
  tally_.expired += table_.stats().expired;
}

StoreLog* ServerProcess::log() noexcept {
  if (keeper_.options_.sabotage == KvRun::Sabotage::kClearBeforeCount) return &late_count_;
  return &keeper_.memory_;
}

void ServerProcess::recover() {
  const Result<> recovered = table_.recover();
  client_pins_.recovery_is_over();
  lines_ = table_.stats().overflow_lines;
  if (!recovered) {
    damage_ = fmt::format("recovery failed: {}", info(recovered.code()).text);
  } else if (const auto damage = table_.validate()) {
    damage_ = fmt::format("after recovery: {} (at {})", damage->what, damage->at.value);
  } else if (heap_.stats().buffers_live < table_.stats().entries) {
    damage_ = "after recovery there are fewer buffers than entries";
  }
}

void ServerProcess::serve() {
  service_.emplace(kv::TableService::Parts{.table = table_,
                                           .heap = heap_,
                                           .writer = writer_,
                                           .pins = session_pins_,
                                           .growth = *this,
                                           .shard = host_.shard()});
  server_.emplace(*service_, host_.shard());
  service_->answer_through(&*server_);
  dispatcher_.emplace(host_.domain(), host_.shard(), &*server_);
}

bool ServerProcess::can_grow() const noexcept {
  return host_.shard().now_ns() >= refused_until_ns_ &&
         heap_.end() < keeper_.options_.chunks_max * kChunkBytes;
}

void ServerProcess::want(uint64_t bytes) noexcept {
  if (asked_) return;
  asked_ = true;
  keeper_.ask(bytes);
}

size_t ServerProcess::poll() noexcept {
  count_lines();
  if (regions_taken_ < keeper_.regions_.size()) {
    const Keeper::Region& region = keeper_.regions_[regions_taken_++];
    heap_.add({region.base}, region.bytes);
    ++tally_.regions;
    asked_ = false;
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
  if (lines > lines_) tally_.lines_linked += lines - lines_;
  if (lines < lines_) tally_.lines_unlinked += lines_ - lines;
  lines_ = lines;
}

}  // namespace refract::campaign
