// SPDX-License-Identifier: Apache-2.0
#include "bench/txn/txn_side.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace refract::bench {

using runtime::Task;

namespace {

constexpr double kTxnWarmUp = 0.1;  // Of a turn, before it counts.

// What the clients of one turn share.
struct TurnRun {
  const TxnPlans& plans;
  uint64_t patience_ns = 0;
  uint64_t begin_ns = 0;  // Transactions count that end in here.
  uint64_t end_ns = 0;
  uint64_t seed = 1;
  TxnTurn turn = {};
  size_t at_work = 0;
  Code failed = Code::kOk;
};

void count(TurnRun& run, const TxnAnswer& answer, uint64_t began_ns, uint64_t now_ns) {
  TxnTurn& turn = run.turn;
  if (answer.code == Code::kConflict || answer.code == Code::kDeadlineExceeded) {
    ++turn.uncommitted;
    return;
  }
  if (answer.code != Code::kOk) {
    run.failed = answer.code;
    return;
  }
  turn.gained += answer.effect.gained;
  if (now_ns < run.begin_ns || now_ns > run.end_ns) return;
  turn.attempts += answer.attempts;
  turn.attempts_most = std::max(turn.attempts_most, answer.attempts);
  if (answer.effect.is_refused) {
    ++turn.refused;
    return;
  }
  ++turn.committed;
  turn.latency_ns.record(now_ns - began_ns);
}

Task<> work(TxnClient& client, runtime::Shard& shard, TurnRun& run, uint64_t number) {
  Prng prng(run.seed * 1'000'003 + number);
  uint64_t now_ns = shard.refresh_now();
  while (now_ns < run.end_ns && run.failed == Code::kOk) {
    const TxnPlan plan = run.plans.next(prng);
    const uint64_t began_ns = now_ns;
    const TxnAnswer answer = co_await client.execute(plan, run.patience_ns);
    now_ns = shard.refresh_now();
    count(run, answer, began_ns, now_ns);
  }
  --run.at_work;
}

struct Summing {
  uint64_t entries = 0;
  int64_t sum = 0;
  size_t at_work = 0;
  Code failed = Code::kOk;
};

// Every `step`-th piece of them.
Task<> add_up(TxnClient& client, Summing& summing, uint64_t first, uint64_t step) {
  const uint64_t piece = client.read_max();
  std::vector<uint64_t> entries(piece);
  std::vector<int64_t> amounts(piece);
  for (uint64_t at = first * piece; at < summing.entries && summing.failed == Code::kOk; at += step * piece) {
    const uint64_t count = std::min(piece, summing.entries - at);
    for (uint64_t i = 0; i < count; ++i) entries[i] = at + i;
    const Code code = co_await client.read(std::span(entries).first(count), std::span(amounts).first(count));
    if (code != Code::kOk) summing.failed = code;
    for (uint64_t i = 0; i < count; ++i) summing.sum += amounts[i];
  }
  --summing.at_work;
}

}  // namespace

Task<TxnAnswer> TryingTxnClient::execute(const TxnPlan& plan, uint64_t patience_ns) {
  TxnAnswer answer;
  Try tried;
  tried.effort.begun_ns = shard_.refresh_now();
  txn::Attempts attempts(tried.effort.begun_ns, patience_ns, seeds_.next());
  tried.deadline_ns = attempts.deadline_ns();
  for (;;) {
    ++answer.attempts;
    answer.effect = {};
    answer.code = co_await attempt(plan, tried, answer.effect);
    if (answer.code != Code::kConflict) co_return answer;
    const std::optional<uint64_t> pause_ns = attempts.pause(shard_.refresh_now());
    if (!pause_ns) co_return answer;
    co_await shard_.sleep_for(*pause_ns);
  }
}

std::unexpected<Report> TxnSide::failed(std::string_view doing, Code code) const {
  return report(code, fmt::format("{}: {}: {}", name_, doing, info(code).sentence));
}

Reported<TxnTurn> TxnSide::take_turn(const TxnPlans& plans, uint64_t seed) {
  const auto turn_ns = static_cast<uint64_t>(load_.seconds * 1e9);
  const uint64_t now_ns = shard_of(0).refresh_now();
  const auto warm_ns = static_cast<uint64_t>(static_cast<double>(turn_ns) * kTxnWarmUp);
  TurnRun run{.plans = plans,
              .patience_ns = load_.patience_ns,
              .begin_ns = now_ns + warm_ns,
              .end_ns = now_ns + warm_ns + turn_ns,
              .seed = seed,
              .at_work = clients()};
  for (size_t i = 0; i < clients(); ++i) spawn(i, work(client(i), shard_of(i), run, i));
  if (!run_until([&run] { return run.at_work == 0; })) return failed("a turn never ends", Code::kSystem);
  if (run.failed != Code::kOk) return failed("a transaction", run.failed);
  run.turn.seconds = static_cast<double>(turn_ns) * 1e-9;
  return std::move(run.turn);
}

Reported<int64_t> TxnSide::sum() {
  Summing summing{.entries = load_.mix.entries(), .at_work = clients()};
  for (size_t i = 0; i < clients(); ++i) spawn(i, add_up(client(i), summing, i, clients()));
  if (!run_until([&summing] { return summing.at_work == 0; })) {
    return failed("the sum is never known", Code::kSystem);
  }
  if (summing.failed != Code::kOk) return failed("adding up its entries", summing.failed);
  return summing.sum;
}

}  // namespace refract::bench
