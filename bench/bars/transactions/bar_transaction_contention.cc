// SPDX-License-Identifier: Apache-2.0
// Transactions that want the same keys: what a skewed choice of them costs, and how often one is tried.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/load/entry.h"
#include "bench/load/skewed_keys.h"
#include "bench/sides/private_node.h"
#include "bench/sides/rivals.h"

#include "refract/base/prng.h"
#include "refract/client/async_client.h"

namespace refract::bench::bar_transaction_contention {
namespace {

constexpr uint64_t kKeys = 10'000;
constexpr size_t kClients = 16;

struct Load {
  const SkewedKeys& keys;
  Prng prng;
  uint64_t left = 0;
  uint64_t runs = 0;           // Of bodies,
  uint64_t runs_most = 0;      // and of the body of one transaction.
  uint64_t messages_most = 0;  // Of one transaction: attempts that no body runs for are at least one each.
  Code code = Code::kOk;
};
struct Transfer {
  std::array<uint64_t, 2> keys{};
  uint64_t runs = 0;
};

runtime::Task<Result<>> read_and_write(AsyncTransaction& t, Transfer& transfer) {
  ++transfer.runs;
  const Key keys[] = {Key::of(transfer.keys[0]), Key::of(transfer.keys[1])};
  const Value value = Value::of(transfer.runs);
  std::vector<GetItem> items(2);
  for (size_t i = 0; i < items.size(); ++i) items[i].key = keys[i].text();
  co_await t.multi_get(items);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].result) co_return fail(items[i].result.error());
    const Result<> put = t.put(keys[i].text(), value.text());
    if (!put) co_return put;
  }
  co_return Result<>();
}

runtime::Task<> run_client(AsyncClient& client, Load& load) {
  Transfer transfer;
  const AsyncClient::Body body = [&transfer](AsyncTransaction& t) { return read_and_write(t, transfer); };
  while (load.left != 0 && load.code == Code::kOk) {
    --load.left;
    transfer.runs = 0;
    const uint64_t sent = client.messages_sent();
    transfer.keys[0] = load.keys.next(load.prng);
    do {
      transfer.keys[1] = load.keys.next(load.prng);
    } while (transfer.keys[1] == transfer.keys[0]);
    const Result<> done = co_await client.transaction(body);
    if (!done) load.code = done.code();
    load.runs += transfer.runs;
    load.runs_most = std::max(load.runs_most, transfer.runs);
    load.messages_most = std::max(load.messages_most, client.messages_sent() - sent);
  }
}

// A node, and so many clients of it in one thread. One shard has a core of its own; of two, none has.
class Contenders {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<Contenders>> start(const BarRun& run, uint64_t shards) {
    Reported<PrivateNode> node = PrivateNode::start({.program = run.options.node_program,
                                                     .memory_limit_bytes = 256 * kMiB * shards,
                                                     .is_bound = shards == 1,
                                                     .shards = shards});
    if (!node) return report(node.error());
    if (shards == 1) pin_to_core(0);
    if (const Reported<> filled = fill_node(*node, {sizeof(Key), sizeof(Value)}, kKeys); !filled)
      return report(filled.error());
    std::unique_ptr<Contenders> contenders(new Contenders(std::move(*node)));
    for (size_t i = 0; i < kClients; ++i) {
      auto client = block_on(contenders->shard_,
                             AsyncClient::connect(contenders->shard_, contenders->node_.socket_path()));
      if (!client) return report(client.error());
      contenders->clients_.push_back(std::move(*client));
    }
    return contenders;
  }

  // So many transactions of all clients together.
  [[nodiscard]] Reported<Load> run(const SkewedKeys& keys, uint64_t count, uint64_t seed) {
    Load load{.keys = keys, .prng = Prng(seed), .left = count};
    for (const auto& client : clients_) shard_.spawn(run_client(*client, load));
    (void)shard_.run_until([this] { return shard_.gate().count() == 0; });
    if (load.code == Code::kOk) return load;
    return report(load.code, "a transaction did not commit within its 5 s");
  }

 private:
  explicit Contenders(PrivateNode node) : node_(std::move(node)) {}

  PrivateNode node_;
  runtime::Shard shard_{system_clock()};
  std::vector<std::unique_ptr<AsyncClient>> clients_;
};

uint64_t count_of(const BarRun& run) noexcept {
  return std::max<uint64_t>(run.options.operations / 100, 100);
}

Reported<Outcome> measure_skew(BarRun& run, uint64_t shards) {
  Reported<std::unique_ptr<Contenders>> contenders = Contenders::start(run, shards);
  if (!contenders) return report(contenders.error());
  const SkewedKeys skewed(kKeys, 0.99);
  const SkewedKeys uniform(kKeys, 0);
  const uint64_t count = count_of(run);
  return in_turns(
      run,
      fmt::format(
          "{} clients in one thread by shared memory, each transaction reads and writes two of {} keys; {}",
          kClients, kKeys,
          shards == 1 ? "one shard, on core 1, the clients on core 0" : "two shards, no thread bound"),
      [&](uint64_t turn) -> Reported<Turn> {
        std::array<double, 2> rates{};
        std::array<double, 2> runs{};
        for (size_t i = 0; i < rates.size(); ++i) {
          const uint64_t begun = ticks_before();
          const Reported<Load> load = (*contenders)->run(i == 0 ? skewed : uniform, count, turn + 1);
          if (!load) return report(load.error());
          rates[i] = static_cast<double>(count) * 1e6 / run.timer.ns(ticks_after() - begun);
          runs[i] = static_cast<double>(load->runs) / static_cast<double>(count);
        }
        return Turn{rates[0] / rates[1],
                    {{"Zipf 0.99", rates[0], "k/s"},
                     {"uniform", rates[1], "k/s"},
                     {"runs of a body, Zipf", runs[0], ""},
                     {"uniform", runs[1], ""}}};
      });
}

Reported<Outcome> measure_attempts(BarRun& run) {
  constexpr uint64_t kShards = 2;
  Reported<std::unique_ptr<Contenders>> contenders = Contenders::start(run, kShards);
  if (!contenders) return report(contenders.error());
  const SkewedKeys keys(kKeys, 1.2);
  const uint64_t count = count_of(run);
  return in_turns(
      run,
      fmt::format("{} clients in one thread by shared memory, a node of {} shards; none was told conflict. A "
                  "commit over shards that meets another is repeated without its body: an attempt that is "
                  "not counted as a run, and at least a message",
                  kClients, kShards),
      [&](uint64_t turn) -> Reported<Turn> {
        const uint64_t begun = ticks_before();
        const Reported<Load> load = (*contenders)->run(keys, count, turn + 1);
        if (!load) return report(load.error());
        const double rate = static_cast<double>(count) * 1e6 / run.timer.ns(ticks_after() - begun);
        return Turn{static_cast<double>(load->runs_most),
                    {{"transactions", rate, "k/s"},
                     {"runs of a body", static_cast<double>(load->runs) / static_cast<double>(count), ""},
                     {"messages of one, the most", static_cast<double>(load->messages_most), ""}}};
      });
}

const BarRows kRows = {
    {"txn-zipf", "transactions of 16 clients, keys by Zipf 0.99 / uniform", "at least 0.5", Sense::kAtLeast,
     0.5, "x", [](BarRun& run) { return measure_skew(run, 1); }},
    {"txn-zipf-shards", "the same of a node of two shards", "at least 0.3", Sense::kAtLeast, 0.3, "x",
     [](BarRun& run) { return measure_skew(run, 2); }},
    {"txn-zipf-attempts", "the most runs of one transaction's body, 16 clients, Zipf 1.2", "under 100",
     Sense::kAtMost, 99, "", measure_attempts},
};

}  // namespace
}  // namespace refract::bench::bar_transaction_contention
