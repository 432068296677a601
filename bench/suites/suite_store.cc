// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/suite_store.h"

#include <fmt/core.h>

#include <utility>

#include "refract/base/prng.h"
#include "refract/base/units.h"

namespace refract::bench {

using runtime::Task;

namespace {

constexpr uint64_t kStoreHouse_ns = 200'000;             // Between two rounds of housekeeping.
constexpr uint64_t kStorePatience_ns = 60 * kSecond_ns;  // No queue of a closed loop is so long.
constexpr uint32_t kSessionsMax = 16'384;

}  // namespace

Zeroes::Zeroes(uint64_t bytes) : bytes_(round_up(bytes, kLineBytes)) {
  block_.reset(static_cast<std::byte*>(std::calloc(bytes_ + kLineBytes, 1)));
}

std::span<std::byte> Zeroes::bytes() noexcept {
  if (block_ == nullptr) return {};
  const uint64_t skew = reinterpret_cast<uintptr_t>(block_.get()) % kLineBytes;
  return {block_.get() + (kLineBytes - skew), bytes_};
}

Reported<const kv::designs::Design*> design_of(const System& system) {
  const kv::designs::Design* design = kv::designs::find(system.design);
  if (design != nullptr) return design;
  std::string names;
  for (const kv::designs::Design& each : kv::designs::all()) names += fmt::format(" {}", each.name);
  return report(Code::kInvalidArgument,
                fmt::format("system {}: no design is called '{}'", system.name, system.design),
                fmt::format("there are{}", names));
}

Reported<StoreSpec> spec_of(const Suite& suite, const System& system) {
  const Reported<const kv::designs::Design*> design = design_of(system);
  if (!design) return report(design.error());
  const Load& load = suite.load;
  return StoreSpec{
      .design = *design,
      .capacity = {.keys_max = static_cast<uint64_t>(static_cast<double>(load.keys) * load.spare),
                   .key_bytes_max = static_cast<uint32_t>(load.key_bytes),
                   .value_bytes_max = static_cast<uint32_t>(load.value_bytes)},
      .hash_seed = suite.seed};
}

Reported<std::unique_ptr<StoreProcess>> StoreProcess::start(const StoreSpec& spec, runtime::Shard& shard,
                                                            fabric::Domain& domain) {
  auto memory = std::make_unique<Zeroes>(spec.design->memory_bytes(spec.capacity));
  if (memory->bytes().empty()) return report(Code::kNoSpace, "there is not so much memory for a store");
  Reported<std::unique_ptr<kv::designs::Server>> server =
      spec.design->make_server({.shard = shard,
                                .domain = domain,
                                .memory = memory->bytes(),
                                .capacity = spec.capacity,
                                .hash_seed = spec.hash_seed});
  if (!server) return report(server.error());
  return std::unique_ptr<StoreProcess>(
      new StoreProcess(std::move(memory), std::move(*server), shard, domain));
}

StoreProcess::StoreProcess(std::unique_ptr<Zeroes> memory, std::unique_ptr<kv::designs::Server> server,
                           runtime::Shard& shard, fabric::Domain& domain)
    : shard_(shard),
      memory_(std::move(memory)),
      server_(std::move(server)),
      rpc_server_(server_->service(), shard, {.sessions_max = kSessionsMax}),
      dispatcher_(domain, shard, &rpc_server_) {
  server_->answer_through(&rpc_server_);
}

Task<> StoreProcess::keep_house() {
  for (;;) {
    co_await shard_.sleep_for(kStoreHouse_ns);
    server_->keep_house();
  }
}

Run make_run(const Suite& suite, double get_share) {
  Run run{.contents = Contents(suite.load.key_bytes, suite.load.value_bytes)};
  run.keys = suite.load.keys;
  run.get_share = get_share;
  run.seed = suite.seed;
  return run;
}

// What one caller's operations are made of and end in.
struct Caller::Room {
  explicit Room(const Contents& contents) : key(contents.key_bytes()), value(contents.value_bytes()) {
    contents.prepare_value(value.data());
  }
  std::vector<std::byte> key;
  std::vector<std::byte> value;
};

Caller::Caller(runtime::Shard& shard, fabric::Channel& channel, const kv::designs::Design& design)
    : shard_(shard), session_(channel, shard) {
  client_ = design.make_client({.session = session_, .shard = shard});
}

uint64_t Caller::deadline() noexcept {
  return shard_.refresh_now() + kStorePatience_ns;
}

Task<Code> Caller::get(Run& run, uint64_t index, Room& room) {
  ValueRoom sink(room.value);
  run.contents.write_key(index, room.key.data());
  const Result<uint64_t> got = co_await client_->get(room.key, sink, deadline());
  if (!got) co_return got.error().code;
  if (*got != room.value.size() || !run.contents.take_value(index, room.value.data()))
    co_return Code::kCorrupt;
  // A design's own check takes no virtual time; this is what the testbed's processors took.
  if (run.check_ns > 0) co_await shard_.sleep_until(shard_.refresh_now() + run.check_ns);
  co_return Code::kOk;
}

Task<Code> Caller::put(Run& run, uint64_t index, Room& room) {
  run.contents.write_key(index, room.key.data());
  run.contents.make_value(index, room.value.data());
  const Result<> put = co_await client_->put(room.key, room.value, deadline());
  co_return put.code();
}

Task<Result<>> attach_when_open(kv::designs::Client& client, rpc::Session& session, runtime::Shard& shard,
                                uint64_t deadline_ns) {
  while (session.state() == rpc::Session::State::kOpening) co_await shard.sleep_for(kMicrosecond_ns);
  const Result<> attached = co_await client.attach(deadline_ns);
  co_return attached;
}

Task<> Caller::attach(Run& run) {
  const Result<> attached = co_await attach_when_open(*client_, session_, shard_, deadline());
  if (!attached) run.failed = attached.error().code;
  --run.at_work;
}

Task<> Caller::fill(Run& run, uint64_t first, uint64_t step) {
  Room room(run.contents);
  for (uint64_t index = first; index < run.keys && run.failed == Code::kOk; index += step) {
    const Code code = co_await put(run, index, room);
    if (code != Code::kOk) run.failed = code;
  }
  --run.at_work;
}

Task<> Caller::work(Run& run, uint64_t number) {
  Prng prng(run.seed * 1'000'003 + number);
  Room room(run.contents);
  uint64_t now_ns = shard_.refresh_now();
  for (uint64_t i = 0; i < run.operations_max && now_ns < run.end_ns && run.failed == Code::kOk; ++i) {
    const uint64_t began_ns = now_ns;
    const uint64_t index = prng.below(run.keys);
    const bool is_get = prng.chance(run.get_share);
    Task<Code> operation = is_get ? get(run, index, room) : put(run, index, room);
    const Code code = co_await std::move(operation);
    now_ns = shard_.refresh_now();
    if (code != Code::kOk) run.failed = code;
    // A machine so slow that none ends in time still has something to say.
    const bool is_in_time = now_ns <= run.end_ns || run.latencies_ns.empty();
    if (began_ns >= run.begin_ns && is_in_time) run.latencies_ns.push_back(now_ns - began_ns);
  }
  --run.at_work;
}

}  // namespace refract::bench
