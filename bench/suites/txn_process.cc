// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/txn_process.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kTxnHouse_ns = 200 * kMicrosecond_ns;  // Between two rounds of housekeeping.
constexpr uint32_t kTxnSessionsMax = 16'384;

}  // namespace

Reported<std::unique_ptr<TxnProcess>> TxnProcess::start(const Spec& spec, runtime::Shard& shard,
                                                        fabric::Domain& domain) {
  auto memory = std::make_unique<Zeroes>(spec.design->memory_bytes(spec.capacity));
  if (memory->bytes().empty()) return report(Code::kNoSpace, "there is not so much memory for a store");
  Reported<std::unique_ptr<txn::designs::Server>> server =
      spec.design->make_server({.shard = shard,
                                .domain = domain,
                                .memory = memory->bytes(),
                                .capacity = spec.capacity,
                                .hash_seed = spec.hash_seed,
                                .patience_ns = spec.patience_ns});
  if (!server) return report(server.error());
  return std::unique_ptr<TxnProcess>(new TxnProcess(std::move(memory), std::move(*server), shard, domain));
}

TxnProcess::TxnProcess(std::unique_ptr<Zeroes> memory, std::unique_ptr<txn::designs::Server> server,
                       runtime::Shard& shard, fabric::Domain& domain)
    : shard_(shard),
      memory_(std::move(memory)),
      server_(std::move(server)),
      rpc_server_(server_->service(), shard, {.sessions_max = kTxnSessionsMax}),
      dispatcher_(domain, shard, &rpc_server_) {
  server_->answer_through(&rpc_server_);
}

runtime::Task<> TxnProcess::keep_house() {
  for (;;) {
    co_await shard_.sleep_for(kTxnHouse_ns);
    server_->keep_house();
  }
}

Reported<const txn::designs::Design*> txn_design_of(std::string_view name) {
  const txn::designs::Design* design = txn::designs::find(name);
  if (design != nullptr) return design;
  std::string names;
  for (const txn::designs::Design& each : txn::designs::all()) names += fmt::format(" {}", each.name);
  return report(Code::kInvalidArgument, fmt::format("no protocol is called '{}'", name),
                fmt::format("there are{}", names));
}

}  // namespace refract::bench
