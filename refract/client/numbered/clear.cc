// SPDX-License-Identifier: Apache-2.0
// Erases all that is older than a moment, at all shards of all nodes, whichever servers end meanwhile:
// docs/design/077-numbered-writes.md, section 6.
#include <algorithm>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/async_calls.h"
#include "refract/kv/calls/clear_call.h"
#include "refract/kv/calls/task_team.h"
#include "refract/kv/layout/scan_cursor.h"

namespace refract::client {

using kv::wire::ClearReply;
using kv::wire::ClearRequest;
using runtime::Task;

namespace {

constexpr uint64_t kClearPause_ns = kMillisecond_ns;
// Each but the first behind the loss of a memory.
constexpr int kRoundsMax = 8;
// The last bucket: a step that finds out whether the memory still is the same, and erases nothing.
constexpr uint64_t kLastCursor = (UINT64_MAX >> kv::kCursorShardBits) & ~kv::kCursorPieceMask;

struct ShardClear {
  uint32_t shard = 0;   // ShardPlace::number().
  ClearRequest next{};  // The step that is due; behind the end the last one's.
  uint64_t erased = 0;  // As far as answers came.
  Code code = Code::kOk;
};

Task<Result<ClearReply>> ask_step(Peers& peers, const ShardClear& job) {
  const auto ask = [clock = &peers.shard(), timeout_ns = peers.settings().options.timeout_ns,
                    request = job.next](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
    // 0: it is the first attempt.
    const uint64_t until_ns = deadline_ns != 0 ? deadline_ns : clock->now_ns() + timeout_ns;
    return kv::clear_some(connection.rpc().session(), request, until_ns);
  };
  return peers.ask<ClearReply>({.key = {}, .shard = job.shard}, ask);
}

// From where it is to the end.
Task<> clear_shard(Peers& peers, ShardClear& job, kv::TaskTeam& team) {
  runtime::Shard& shard = peers.shard();
  uint64_t advanced_ns = shard.refresh_now();
  for (;;) {
    const Result<ClearReply> reply = co_await ask_step(peers, job);
    const bool is_other_memory = reply.code() == Code::kInvalidated;
    const bool may_go_on = reply || is_other_memory || reply.code() == Code::kOverloaded;
    if (!may_go_on) job.code = reply.code();
    if (!may_go_on) break;
    bool has_advanced = false;
    if (reply) {
      has_advanced = reply->erased > 0 || reply->next != job.next.cursor;
      job.erased += reply->erased;
      job.next = {.generation = reply->generation, .stamp = reply->stamp, .cursor = reply->next};
      if (reply->is_over()) break;
    } else if (is_other_memory) {
      has_advanced = job.next.stamp != 0;
      job.next = {};
    }
    if (has_advanced) {
      advanced_ns = shard.now_ns();
      continue;
    }
    // Of a key that stays held, or a log that stays full.
    if (shard.now_ns() > advanced_ns + peers.settings().options.timeout_ns) {
      job.code = Code::kDeadlineExceeded;
      break;
    }
    co_await shard.sleep_for(kClearPause_ns);
  }
  team.leave();
}

// Whether it is at its end still: a memory that was lost since may have come back from an older state.
Task<> look_at_end(Peers& peers, ShardClear& job, kv::TaskTeam& team) {
  runtime::Shard& shard = peers.shard();
  const uint64_t begun_ns = shard.refresh_now();
  job.next.cursor = kLastCursor;
  for (;;) {
    const Result<ClearReply> reply = co_await ask_step(peers, job);
    job.code = reply.code();
    if (job.code != Code::kOverloaded) break;
    if (shard.now_ns() > begun_ns + peers.settings().options.timeout_ns) break;
    co_await shard.sleep_for(kClearPause_ns);
  }
  team.leave();
}

using Work = Task<> (*)(Peers&, ShardClear&, kv::TaskTeam&);

// All at once. The first failure.
Task<Code> run_all(Peers& peers, std::vector<ShardClear>& jobs, Work work) {
  kv::TaskTeam team(peers.shard());
  for (ShardClear& job : jobs) team.add(work(peers, job, team));
  co_await team.run();
  const auto failed = std::ranges::find_if(jobs, [](const auto& job) { return job.code != Code::kOk; });
  co_return failed == jobs.end() ? Code::kOk : failed->code;
}

std::vector<ShardClear> jobs_of(const Peers& peers) {
  std::vector<ShardClear> jobs;
  jobs.reserve(peers.count());
  for (uint32_t index = 0; const auto shard = peers.shard_at(index); ++index) {
    jobs.push_back({.shard = *shard});
  }
  return jobs;
}

}  // namespace

Task<Result<uint64_t>> AsyncCalls::clear() {
  uint64_t erased = 0;
  for (int round = 0;; ++round) {
    const bool is_known = co_await peers_.find_all();
    if (!is_known) co_return fail(Code::kUnavailable);
    std::vector<ShardClear> jobs = jobs_of(peers_);
    Code code = co_await run_all(peers_, jobs, clear_shard);
    for (const ShardClear& job : jobs) erased += job.erased;
    // One that was at its end first may have been lost while others were cleared.
    if (code == Code::kOk && jobs.size() > 1) code = co_await run_all(peers_, jobs, look_at_end);
    if (code == Code::kOk) co_return erased;
    if (code != Code::kInvalidated || round == kRoundsMax) co_return fail(code);
  }
}

}  // namespace refract::client
