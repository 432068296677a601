// SPDX-License-Identifier: Apache-2.0
// What a get over TCP costs by how many connections ask at once, and what memory a connection takes.
#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "bench/bars/loaded_node.h"
#include "bench/growth/growth.h"
#include "bench/sides/redis.h"
#include "bench/sides/socket_crowd.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kEntries = 10'000;       // So few that no miss of theirs bends the curve.
constexpr uint64_t kEntriesRoom = 100'000;  // Memory for buffers of many connections, too.
constexpr uint64_t kDescriptorsBeside = 256;
// Memory comes in pages: below so many connections, a connection's share of one says nothing.
constexpr uint64_t kMemoryFrom = 30;
constexpr uint64_t kRedisLooks_ns = 500 * kMillisecond_ns;  // Redis measures itself ten times a second.

struct Side {
  std::string name;
  std::optional<SocketCrowd> crowd = {};
  double memory_bytes = 0;  // Of all its connections.
};

uint64_t private_bytes(const PrivateNode& node) {
  return test::use_of(node.keeper()).private_bytes + test::use_of(node.server()).private_bytes;
}

Reported<uint16_t> port_of(const PrivateNode& node) {
  // "refract://127.0.0.1:PORT?transport=tcp"
  const std::string& address = node.tcp_address();
  const size_t colon = address.rfind(':');
  uint16_t port = 0;
  const char* end = address.data() + address.size();
  if (colon != std::string::npos &&
      std::from_chars(address.data() + colon + 1, end, port).ec == std::errc()) {
    return port;
  }
  return report(Code::kMalformed, fmt::format("'{}' has no port", address));
}

class ConnectionsPoint {
 public:
  ConnectionsPoint(const GrowthRun& run, uint64_t count) : run_(run), count_(count) {}

  [[nodiscard]] Reported<> start(GrowthCurve& curve);
  [[nodiscard]] Reported<> turn(GrowthPoint& point, uint64_t number);
  void add_memory(GrowthPoint& point) const;

 private:
  [[nodiscard]] Reported<> start_ours();
  [[nodiscard]] Reported<> start_redis();
  [[nodiscard]] Reported<> turn_of(GrowthPoint& point, Side& side, uint64_t number);

  const GrowthRun& run_;
  uint64_t count_;
  std::optional<PrivateNode> node_;
  std::optional<Redis> redis_;
  Side ours_{.name = "refract"};
  Side theirs_{.name = "Redis"};
};

Reported<> ConnectionsPoint::start(GrowthCurve& curve) {
  if (const Reported<> started = start_ours(); !started) return started;
  const Reported<> beside = start_redis();
  if (!beside && beside.error().code != Code::kUnsupported) return beside;
  if (!beside && curve.gaps.empty()) curve.gaps.push_back("Redis: " + beside.error().to_string());
  return {};
}

Reported<> ConnectionsPoint::start_ours() {
  Reported<PrivateNode> node = PrivateNode::start({.program = run_.bars.options.node_program,
                                                   .memory_limit_bytes = node_memory_bytes(kEntriesRoom),
                                                   .listen_address = "127.0.0.1",
                                                   .clients_max = count_ + 16});
  if (!node) return report(node.error());
  node_.emplace(std::move(*node));
  {
    Reported<Client> loader = connect_to(*node_);
    if (!loader) return report(loader.error());
    if (const Reported<> loaded = load_entries(*loader, kEntries); !loaded) return loaded;
  }
  const Reported<uint16_t> port = port_of(*node_);
  if (!port) return report(port.error());
  const uint64_t before = private_bytes(*node_);
  Reported<SocketCrowd> crowd = SocketCrowd::connect(CrowdSide::kRefract, *port, count_, kEntries);
  if (!crowd) return report(crowd.error());
  ours_.crowd.emplace(std::move(*crowd));
  ours_.memory_bytes = static_cast<double>(private_bytes(*node_)) - static_cast<double>(before);
  return {};
}

Reported<> ConnectionsPoint::start_redis() {
  Reported<Redis> redis =
      Redis::start({.over_tcp = true, .cpu = core_count() > 1 ? core_number(1) : -1, .append_fsync = {}});
  if (!redis) return report(redis.error());
  redis_.emplace(std::move(*redis));
  if (const Reported<> loaded = redis_->load(kEntries); !loaded) return loaded;
  sleep_ns(kRedisLooks_ns);
  const Reported<uint64_t> before = redis_->info("used_memory_rss");
  if (!before) return report(before.error());
  Reported<SocketCrowd> crowd = SocketCrowd::connect(CrowdSide::kRedis, redis_->port(), count_, kEntries);
  if (!crowd) return report(crowd.error());
  theirs_.crowd.emplace(std::move(*crowd));
  sleep_ns(kRedisLooks_ns);
  const Reported<uint64_t> after = redis_->info("used_memory_rss");
  if (!after) return report(after.error());
  theirs_.memory_bytes = static_cast<double>(*after) - static_cast<double>(*before);
  return {};
}

Reported<> ConnectionsPoint::turn_of(GrowthPoint& point, Side& side, uint64_t number) {
  const bool is_ours = &side == &ours_;
  const uint64_t cpu_ns = is_ours ? test::use_of(node_->server()).cpu_ns : 0;
  const Reported<CrowdTurn> turn =
      side.crowd->run(run_.bars.timer, run_.bars.options.slice_seconds, number + 1);
  if (!turn) return report(turn.error().code, fmt::format("{}: {}", side.name, turn.error().what));
  const std::string over = is_ours ? theirs_.name : "";
  const auto operations = static_cast<double>(turn->operations);
  point.add({"gets a second", side.name, "/s", over, {}}, operations / turn->seconds);
  point.add({"get", side.name, "ns", over, {}}, static_cast<double>(turn->latency_ns.quantile(0.5)));
  point.add({"get, 99th percentile", side.name, "ns", over, {}},
            static_cast<double>(turn->latency_ns.quantile(0.99)));
  // What a server answers together costs it fewer system calls.
  point.add({"answers that came together", side.name, "", "", {}},
            operations / static_cast<double>(std::max<uint64_t>(turn->rounds, 1)));
  if (!is_ours) return {};
  const auto used_ns = static_cast<double>(test::use_of(node_->server()).cpu_ns - cpu_ns);
  point.add({"server's time a get", side.name, "ns", "", {}}, used_ns / operations);
  return {};
}

Reported<> ConnectionsPoint::turn(GrowthPoint& point, uint64_t number) {
  if (const Reported<> done = turn_of(point, ours_, number); !done) return done;
  return theirs_.crowd ? turn_of(point, theirs_, number) : Reported<>{};
}

void ConnectionsPoint::add_memory(GrowthPoint& point) const {
  if (count_ < kMemoryFrom) return;
  for (const Side* side : {&ours_, &theirs_}) {
    if (!side->crowd) continue;
    point.add({"memory a connection", side->name, "B", side == &ours_ ? theirs_.name : "", {}},
              side->memory_bytes / static_cast<double>(count_));
  }
}

}  // namespace

Reported<GrowthCurve> measure_growth_by_connections(const GrowthRun& run) {
  GrowthCurve curve = {.axis = GrowthAxis::kConnections, .title = "Connections: TCP on loopback"};
  curve.how = fmt::format(
      "One get in flight on each connection; {} entries of 16 + 64 B, uniform. One client thread on core 0 "
      "holds all connections by epoll and never sleeps, the same code for both sides; both servers sit on "
      "core 1, ours with its default waiting, Redis with one thread and no persistence, which sleeps "
      "whenever it has nothing to do. Memory: growth of what the server's processes have resident, each "
      "connection having had one answer; the kernel's buffers are not in it. The server's time has its "
      "looking for requests in it.",
      kEntries);
  for (const uint64_t count : run.places(1, run.options.connections_max)) {
    GrowthPoint point = {.x = static_cast<double>(count)};
    // Both sides' crowds are held at once, and servers inherit the limit.
    if (const Reported<> allowed = allow_descriptors(2 * count + kDescriptorsBeside); !allowed) {
      curve.gaps.push_back(fmt::format("{} connections: {}", count, allowed.error().to_string()));
      continue;
    }
    ConnectionsPoint measured(run, count);
    if (const Reported<> started = measured.start(curve); !started) return report(started.error());
    const Reported<> done = measure_turns(
        run, point, [&](GrowthPoint& figures, uint64_t number) { return measured.turn(figures, number); },
        Over::kTcp);
    if (!done) return report(done.error());
    measured.add_memory(point);
    if (run.options.on_point) run.options.on_point(curve.axis, point);
    curve.points.push_back(std::move(point));
  }
  return curve;
}

}  // namespace refract::bench
