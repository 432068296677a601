// SPDX-License-Identifier: Apache-2.0
// Entries that expire. In the history each is followed by an erasure of unknown outcome, of a client that
// stands for time, which begins when the entry can first have expired.
#include <algorithm>
#include <array>
#include <string_view>

#include "tests/transactions/transactor.h"

namespace refract::campaign {
namespace {

// As long as a commit takes, more or less.
constexpr uint64_t kTtlMin_ns = 10'000;
constexpr uint64_t kTtlSpan_ns = 200'000;

constexpr std::array<std::string_view, 3> kShortLived{"k0", "k1", "n0"};
constexpr uint64_t kWatchPause_ns = 6'000;

// Over several nodes runs take longer.
uint64_t watch_pause_ns(const TransactionRun& run) {
  if (run.is_long() || run.is_very_long()) return 40 * kWatchPause_ns;
  return run.is_over_nodes && run.mutation != Mutation::kIgnoreExpiry ? 5 * kWatchPause_ns : kWatchPause_ns;
}

bool is_short_lived(std::string_view key) {
  return std::ranges::find(kShortLived, key) != kShortLived.end();
}

}  // namespace

// 0: it stays.
uint64_t Transactor::draw_ttl_ns(const std::string& key) {
  if (!stage_.expires() || !is_short_lived(key) || prng_.chance(0.3)) return 0;
  return kTtlMin_ns + prng_.below(kTtlSpan_ns);
}

// Before it is sent. A sum lives as long as what was added to: 0 says that this is not known.
void Transactor::note_lease(size_t record, size_t operation, uint64_t ttl_ns) {
  serialisability::Recorder& recorder = stage_.recorder;
  const Operation& write = recorder.transaction(record).operations[operation];
  const std::string key = recorder.history().keys[write.key];
  if (!stage_.expires() || !is_short_lived(key)) return;
  Operation erasure{.kind = Kind::kErase, .key = write.key};
  // Sums may be the same.
  if (!is_number(key)) {
    erasure.found = Found::kPresent;
    erasure.found_value = write.value;
  }
  const size_t end = recorder.begin(recorder.client(TransactionStage::kTime), stage_.now_ns() + ttl_ns);
  recorder.add(end, erasure);
  leases_.push_back({.record = record, .operation = operation, .erasure = end});
}

void Transactor::end_leases(size_t record, Outcome outcome) {
  serialisability::Recorder& recorder = stage_.recorder;
  for (const Lease& lease : leases_) {
    if (lease.record != record) continue;
    if (outcome == Outcome::kRefused) {
      recorder.end(lease.erasure, {.outcome = outcome,
                                   .is_validated = false,
                                   .now_ns = recorder.transaction(lease.erasure).began_ns});
      continue;
    }
    ++stage_.outcome.leases;
    const uint64_t version = recorder.transaction(record).operations[lease.operation].version;
    if (version == 0) continue;
    Operation& erasure = recorder.transaction(lease.erasure).operations.front();
    erasure.found = Found::kPresent;
    erasure.found_version = version;
  }
  std::erase_if(leases_, [record](const Lease& lease) { return lease.record == record; });
}

runtime::Task<> Transactor::watch() {
  while (!stage_.is_over() && stage_.operations_left > 0) {
    const bool is_connected = co_await connected();
    if (!is_connected) break;
    const std::string key(kShortLived[prng_.below(kShortLived.size())]);
    const std::optional<Seen> seen = look(key, Way::kDirect);
    if (seen && seen->code == Code::kNotFound) {
      const size_t record = begin();
      note(record, key, *seen);
      end(record, Outcome::kCommitted);
      for (int i = 0; i < 2; ++i) co_await get(any_key(), Way::kDirect);
    }
    co_await host_.shard().sleep_for(1 + prng_.below(watch_pause_ns(stage_.run)));
  }
  is_connecting_ = false;
  finish();
}

}  // namespace refract::campaign
