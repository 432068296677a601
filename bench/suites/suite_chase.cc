// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/suite_chase.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "bench/suites/suite.h"
#include "bench/suites/suite_testbed.h"

#include "refract/base/units.h"
#include "refract/fabric/await.h"
#include "refract/prism/client.h"

namespace refract::bench {
namespace {

using runtime::Task;

constexpr uint16_t kRegion = 1;
constexpr uint64_t kPointersAt = 64;
constexpr uint64_t kObjectsAt = kPointersAt + ChaseServer::kObjects * sizeof(uint64_t);
constexpr const char* kStore = "chase";
constexpr uint64_t kChasePatience_ns = 60 * kSecond_ns;

uint64_t object_at(uint64_t index, uint64_t object_bytes) noexcept {
  return kObjectsAt + index * round_up(object_bytes, 8);
}

// One client's memory that answers land in.
struct Landing {
  uint64_t pointer = 0;
  std::vector<std::byte> object;
};

bool is_object(const Landing& landing, uint64_t index) noexcept {
  uint64_t mark = 0;
  std::memcpy(&mark, landing.object.data(), std::min(sizeof(mark), landing.object.size()));
  return mark == index + 1;
}

Task<Code> by_reads(const Chase& chase, rpc::Session& session, runtime::Shard& shard, uint64_t index,
                    Landing& landing) {
  const uint64_t deadline_ns = shard.refresh_now() + kChasePatience_ns;
  const runtime::OpResult pointer = co_await fabric::read(
      session.endpoint(), shard,
      {.address = RemotePointer::at(kRegion, kPointersAt + index * sizeof(uint64_t)), .key = chase.place.key},
      {.data = reinterpret_cast<std::byte*>(&landing.pointer), .bytes = sizeof(landing.pointer)},
      deadline_ns);
  if (pointer.code != Code::kOk) co_return pointer.code;
  const runtime::OpResult object =
      co_await fabric::read(session.endpoint(), shard, {.address = {landing.pointer}, .key = chase.place.key},
                            {.data = landing.object.data(), .bytes = landing.object.size()}, deadline_ns);
  co_return object.code;
}

Task<Code> by_chain(const prism::Attachment& store, prism::Client& client, runtime::Shard& shard,
                    uint64_t index, Landing& landing) {
  std::array<std::byte, prism::Chain::kHeadersBytesMax> buffer;
  prism::Chain chain(buffer, store.form);
  chain
      .read(store.at(kPointersAt + index * sizeof(uint64_t)), store.key,
            static_cast<uint32_t>(landing.object.size()))
      .indirect();
  const Result<prism::Reply> reply = co_await client.run(chain, shard.refresh_now() + kChasePatience_ns);
  if (!reply) co_return reply.error().code;
  const std::span<const std::byte> bytes = reply->bytes(0);
  if (reply->code(0) != Code::kOk || bytes.size() != landing.object.size()) co_return reply->code(0);
  std::ranges::copy(bytes, landing.object.begin());
  co_return Code::kOk;
}

}  // namespace

ChaseServer::ChaseServer(runtime::Shard& shard, fabric::Domain& domain, uint64_t object_bytes)
    : words_(object_at(kObjects, object_bytes) / sizeof(uint64_t)),
      writer_(reinterpret_cast<std::byte*>(words_.data())),
      domain_(domain),
      service_(executor_, shard),
      rpc_server_(service_, shard),
      dispatcher_(domain, shard, &rpc_server_) {
  place_.object_bytes = object_bytes;
}

Reported<> ChaseServer::start() {
  service_.answer_through(&rpc_server_);
  for (uint64_t index = 0; index < kObjects; ++index) {
    const uint64_t at = object_at(index, place_.object_bytes);
    writer_.publish(Offset{at}, index + 1);
    writer_.publish(Offset{kPointersAt + index * sizeof(uint64_t)}, RemotePointer::at(kRegion, at).bits);
  }
  const uint64_t bytes = words_.size() * sizeof(uint64_t);
  const Reported<RemoteKey> key = domain_.register_region(
      {.region = kRegion, .base = writer_.base(), .bytes = bytes, .rights = {.read = true}});
  if (!key) return report(key.error());
  place_.key = *key;
  const Result<> added =
      executor_.add_region({.id = kRegion, .writer = &writer_, .start = Offset{0}, .bytes = bytes});
  const Result<> offered = service_.offer(
      {.store = kStore, .region = kRegion, .rights = {prism::ChainRights::kRead}, .root = kPointersAt});
  if (!added || !offered) return report(Code::kSystem, "the pointers' region cannot be offered to chains");
  return {};
}

Task<> follow(Chase& chase, rpc::Session& session, runtime::Shard& shard) {
  while (session.state() == rpc::Session::State::kOpening) co_await shard.sleep_for(1'000);
  prism::Client client(session);
  const Result<prism::Attachment> store =
      co_await client.attach(kStore, {prism::ChainRights::kRead}, shard.refresh_now() + kChasePatience_ns);
  if (!store) chase.failed = store.error().code;
  Landing landing;
  landing.object.resize(chase.place.object_bytes);
  chase.latencies_ns.reserve(chase.operations);
  const uint64_t now_ns = shard.refresh_now();
  const uint64_t end_ns = chase.run_ns > kForever_ns - now_ns ? kForever_ns : now_ns + chase.run_ns;
  for (uint64_t i = 0; i < chase.operations && chase.failed == Code::kOk; ++i) {
    // At least one, however slow the machine is.
    if (i > 0 && shard.refresh_now() >= end_ns) break;
    const uint64_t index = i % ChaseServer::kObjects;
    const uint64_t began_ns = shard.refresh_now();
    Task<Code> one = chase.by_chain ? by_chain(*store, client, shard, index, landing)
                                    : by_reads(chase, session, shard, index, landing);
    chase.failed = co_await std::move(one);
    if (chase.failed == Code::kOk && !is_object(landing, index)) chase.failed = Code::kCorrupt;
    chase.latencies_ns.push_back(shard.refresh_now() - began_ns);
  }
  chase.is_over = true;
}

Reported<std::vector<Measured>> simulate_chase(const Suite& suite) {
  std::vector<Measured> measured;
  for (const System& system : suite.systems) {
    for (const Place& place : suite.places) {
      // In front of the world, whose tasks use it.
      Chase chase;
      chase.by_chain = system.design == "chain";
      chase.operations = suite.load.operations;
      SimTestbed testbed(suite, system, place.adds_us);
      sim::Host& host = testbed.server();
      auto& server = host.emplace<ChaseServer>(host.shard(), host.domain(), suite.load.value_bytes);
      if (const Reported<> started = server.start(); !started) return report(started.error());
      chase.place = server.place();
      sim::Host& client = *testbed.clients().front();
      client.emplace<fabric::Dispatcher>(client.domain(), client.shard());
      const Reported<fabric::Channel*> channel = client.domain().connect(host.name());
      if (!channel) return report(channel.error());
      auto& session = client.emplace<rpc::Session>(**channel, client.shard());
      testbed.world().spawn(client, follow(chase, session, client.shard()));
      if (!testbed.world().run_until([&chase] { return chase.is_over; }) || chase.failed != Code::kOk) {
        return report(chase.failed,
                      fmt::format("{}, {}: {}", system.name, place.name, refract::text(chase.failed)));
      }
      const uint64_t total_ns =
          std::accumulate(chase.latencies_ns.begin(), chase.latencies_ns.end(), uint64_t{0});
      measured.push_back(
          {.system = system.name,
           .place = place.name,
           .what = "latency",
           .unit = "us",
           .value = static_cast<double>(total_ns) * 1e-3 / static_cast<double>(chase.latencies_ns.size())});
    }
  }
  return measured;
}

}  // namespace refract::bench
