// SPDX-License-Identifier: Apache-2.0
// What a table's service does when there is no call: writes that waited for memory or for the log continue,
// entries whose time has come are removed.
#include <algorithm>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/service/service.h"

namespace refract::kv {
namespace {

constexpr uint64_t kSweepPauseMin_ns = 50 * kMillisecond_ns;
// About a millisecond of cache misses.
constexpr uint64_t kSweepLines = 2048;

constexpr uint64_t kReclaimPauseMin_ns = 100 * kMillisecond_ns;
constexpr uint64_t kReclaimPauseMax_ns = 3600 * kSecond_ns;

// To the next step of a round, or to the moment when a round has something to find, which is told. That is a
// moment of store time, which runs while the machine is suspended; so no sleep is longer than a round.
uint64_t pause_before_sweep(const TableService::Parts& parts, uint64_t& sleeps_until_ns) noexcept {
  const Table::Stats& table = parts.table.stats();
  const uint64_t steps = (table.buckets + table.overflow_lines) / kSweepLines + 1;
  const uint64_t step_ns = std::max(parts.sweep_round_ns / steps, kSweepPauseMin_ns);
  const uint64_t now_ns = parts.shard.clock().wall_ns();
  const uint64_t first_ns = table.first_expiry.ns();
  sleeps_until_ns = 0;
  if (first_ns <= now_ns || first_ns - now_ns <= step_ns) return step_ns;
  sleeps_until_ns = first_ns;
  return std::min(first_ns - now_ns, std::max(parts.sweep_round_ns, step_ns));
}

constexpr size_t kWaitingMax = 256;
constexpr size_t kWaitingPerSession = 32;
constexpr uint64_t kWaitingBytesMax = 8 * kMiB;

}  // namespace

Code TableService::wait(const rpc::Responder& from, const Write& write, Code why) {
  if (far_reads_.is_stuck(write.key.hash)) return Code::kOverloaded;
  const size_t key_bytes = write.key.bytes.size();
  const Lengths lengths{.value_bytes = static_cast<uint32_t>(write.value_bytes),
                        .key_bytes = static_cast<uint16_t>(key_bytes),
                        .flags = Lengths::kExpires | Lengths::kIdentified};
  const uint64_t footprint = Heap::footprint(lengths.total_bytes());
  const bool may_grow = why == Code::kNoSpace && parts_.growth.can_grow(footprint);
  const bool will_come = writes::room_will_come(parts_.table, parts_.eviction);
  if (why == Code::kNoSpace && !may_grow && !will_come) return why;
  const size_t bytes = key_bytes + write.value.size();
  if (waiting_.size() == kWaitingMax || waiting_bytes_ + bytes > kWaitingBytesMax) return Code::kOverloaded;
  // One client must not take the places of all.
  const auto its_own = std::ranges::count_if(
      waiting_, [&](const writes::Waiting& waiting) { return waiting.from.session == from.session; });
  if (static_cast<size_t>(its_own) >= kWaitingPerSession) return Code::kOverloaded;
  const bool is_for_log = why == Code::kOverloaded && parts_.table.log() != nullptr;
  writes::Waiting& waiting = waiting_.emplace_back(writes::Waiting{
      .from = from, .write = write, .bytes = std::vector<std::byte>(bytes), .for_log = is_for_log});
  const std::span<std::byte> copy = waiting.bytes;
  std::ranges::copy(write.key.bytes, copy.begin());
  if (!write.value.empty()) copy_possibly_torn(&copy[key_bytes], write.value.data(), write.value.size());
  waiting.write.key.bytes = copy.first(key_bytes);
  waiting.write.value = copy.subspan(key_bytes);
  waiting_bytes_ += bytes;
  outcomes_.watch(write.options.request);
  if (may_grow) parts_.growth.want(footprint);
  return Code::kOk;
}

void TableService::on_memory_added() noexcept {
  retry_waiting();
  look_after_memory();
}

bool TableService::has_waiting() const noexcept {
  return !waiting_.empty() || (beside_ != nullptr && beside_->waiting() > 0);
}

void TableService::retry_waiting() noexcept {
  std::deque<writes::Waiting> waiting = std::exchange(waiting_, {});
  waiting_bytes_ = 0;
  bool log_is_full = false;
  for (writes::Waiting& one : waiting) {
    Open* const session = find(one.from.session);
    if (session == nullptr) {
      outcomes_.unwatch(one.write.options.request);
      continue;
    }
    if (one.for_log && log_is_full) {
      waiting_bytes_ += one.bytes.size();
      waiting_.push_back(std::move(one));
      continue;
    }
    const size_t before = waiting_.size();
    write_or_wait(one.from, *session, one.write);
    outcomes_.unwatch(one.write.options.request);
    log_is_full = log_is_full || (waiting_.size() > before && waiting_.back().for_log);
  }
  if (beside_ != nullptr) beside_->retry_waiting();
}

void TableService::on_far_answer() noexcept {
  far_reads_.on_answer();
  // Writes of keys whose home has been away for too long are refused.
  const auto is_stuck = [this](const writes::Waiting& one) {
    return far_reads_.is_stuck(one.write.key.hash);
  };
  const bool wait_beside = beside_ != nullptr && beside_->waiting() > 0;
  if (wait_beside || std::ranges::any_of(waiting_, is_stuck)) retry_waiting();
}

void TableService::on_settled() noexcept {
  far_reads_.on_answer();
  if (has_waiting()) retry_waiting();
  for (writes::WaitingBatch& one : waiting_batches_.take()) {
    const RequestId request = one.call->batch().request;
    Open* const session = find(one.from.session);
    if (session != nullptr) batch_or_wait(one, *session);
    outcomes_.unwatch(request);
  }
  // What was pending may expire, and what it has replaced is retired.
  look_after_memory();
  look_after_time();
}

// A write that met what was decided has settled that, and others may wait for keys of it.
void TableService::look_after_held() noexcept {
  if (parts_.table.parts() == nullptr) return;
  const uint64_t ended = parts_.table.parts()->ended();
  if (std::exchange(ended_seen_, ended) != ended) on_settled();
}

void TableService::look_after_memory() noexcept {
  if (parts_.heap.wants_growth() && parts_.growth.can_grow(kChunkBytes)) parts_.growth.want(kChunkBytes);
}

uint64_t TableService::sweep_some() {
  const Table::Stats& table = parts_.table.stats();
  return parts_.table.sweep(std::min(table.buckets + table.overflow_lines, kSweepLines));
}

// What becomes due without a call. No timer where there is nothing to wait for.
void TableService::look_after_time() noexcept {
  sweep_while_needed();
  reclaim_while_needed();
  evict_while_needed();
}

// Chains that write are all that some owners ever see: they ask for memory in time, too.
void TableService::on_chain_retired() noexcept {
  look_after_memory();
  reclaim_while_needed();
}

void TableService::sweep_while_needed() noexcept {
  if (parts_.table.stats().expiring_entries == 0) return;
  const bool is_in_time = parts_.table.stats().first_expiry.ns() >= sweeper_sleeps_until_ns_;
  if (sweeper_.valid() && !sweeper_.done() && is_in_time) return;
  sweeper_ = sweep_rounds();
  sweeper_.start();
}

// A table in which nothing is due is not looked through, however many of its entries expire one day.
runtime::Task<> TableService::sweep_rounds() {
  while (parts_.table.stats().expiring_entries > 0) {
    co_await parts_.shard.sleep_for(pause_before_sweep(parts_, sweeper_sleeps_until_ns_));
    if (parts_.table.stats().first_expiry.ns() > parts_.shard.clock().wall_ns()) continue;
    sweep_some();
    reclaim_while_needed();
  }
}

// What is written down is overwritten in time; a look at each client's page costs a miss.
void TableService::look_at_uses(size_t calls) noexcept {
  constexpr uint64_t kCallsPerLook = 64;
  if (parts_.eviction == nullptr) return;
  calls_since_uses_ += calls;
  if (calls_since_uses_ < kCallsPerLook) return;
  calls_since_uses_ = 0;
  parts_.eviction->take_samples();
}

void TableService::count_writes(uint64_t puts, uint64_t erases) noexcept {
  ops_[static_cast<size_t>(wire::Method::kPut)] += puts;
  ops_[static_cast<size_t>(wire::Method::kErase)] += erases;
  look_at_uses(puts + erases);
}

void TableService::evict_while_needed() noexcept {
  if (parts_.eviction == nullptr || !parts_.eviction->is_under_way()) return;
  if (evictor_.valid() && !evictor_.done()) return;
  evictor_ = evict_rounds();
  evictor_.start();
}

// A step a turn, so that no call waits for more than that.
runtime::Task<> TableService::evict_rounds() {
  while (parts_.eviction->is_under_way()) {
    co_await parts_.shard.sleep_for(0);
    parts_.eviction->step(Eviction::kStepEntries);
    if (parts_.eviction->is_under_way()) continue;
    // One of those that waited may need more, and begins again.
    retry_waiting();
    reclaim_while_needed();
  }
}

void TableService::reclaim_while_needed() noexcept {
  const uint64_t retired_bytes = parts_.heap.stats().bytes_retired;
  if (retired_bytes == 0 || retired_bytes == pinned_bytes_) return;
  const bool will_look_soon = reclaimer_.valid() && !reclaimer_.done() && pinned_bytes_ == 0;
  if (will_look_soon) return;
  pinned_bytes_ = 0;
  reclaimer_ = reclaim_rounds();
  reclaimer_.start();
}

// The heap reclaims by itself while it retires; this is about the last few, and about what pins held back.
// The pauses double: a buffer stays for about twice as long as it was pinned, and a view that a client holds
// for an hour costs a dozen looks.
runtime::Task<> TableService::reclaim_rounds() {
  for (uint64_t pause_ns = kReclaimPauseMin_ns; pause_ns < kReclaimPauseMax_ns; pause_ns *= 2) {
    co_await parts_.shard.sleep_for(pause_ns);
    parts_.heap.reclaim();
    pinned_bytes_ = parts_.heap.stats().bytes_retired;
    if (pinned_bytes_ == 0) break;
  }
}

}  // namespace refract::kv
