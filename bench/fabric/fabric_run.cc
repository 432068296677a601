// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "bench/measure/beside.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kBirthPatience_ns = 10 * kSecond_ns;
constexpr uint64_t kNapOfRun_ns = 5 * kMillisecond_ns;
// Of a peer, for a size in a turn.
constexpr double kPeerSeconds = 0.05;
constexpr uint64_t kPeerIterationsMin = 20;
constexpr uint64_t kPeerIterationsMax = 100'000;

// The end that serves, as a process of its own.
class ServerProcess {
 public:
  [[nodiscard]] static Reported<ServerProcess> start(const FabricRow& row, const std::string& program) {
    Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
    if (!folder) return report(folder.error());
    const std::string log = folder->path() + "/server.log";
    const std::string listen = row.address.empty() ? folder->path() + "/node.sock" : std::string(row.address);
    std::error_code error;
    const std::string self =
        program.empty() ? std::filesystem::read_symlink("/proc/self/exe", error).string() : program;
    Reported<test::Process> process = start_beside(
        {.arguments = {self, "fabric", "--serve", listen, "--provider", std::string(row.name), "--core", "1"},
         .output_path = log});
    if (!process) return report(process.error());
    // Its first line, whole, says where it is.
    const uint64_t end_ns = now_ns() + kBirthPatience_ns;
    const std::string head = fmt::format("serving {} at ", row.name);
    for (std::string line; process->is_running() && now_ns() < end_ns; sleep_ns(kNapOfRun_ns)) {
      std::ifstream file(log);
      if (std::getline(file, line) && !file.eof() && line.starts_with(head)) {
        return ServerProcess(std::move(*folder), std::move(*process), line.substr(head.size()));
      }
    }
    return report(Code::kUnavailable,
                  fmt::format("the end that serves {} did not start: {}", row.name, test::tail_of(log)));
  }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  ServerProcess(test::TemporaryFolder folder, test::Process process, std::string address) noexcept
      : folder_(std::move(folder)), process_(std::move(process)), address_(std::move(address)) {}

  test::TemporaryFolder folder_;
  test::Process process_;
  std::string address_;
};

bool is_wanted(const FabricOptions& options, std::string_view provider) {
  return options.providers.empty() ||
         std::ranges::find(options.providers, provider) != options.providers.end();
}

// The points of one operation, over all sizes that it has here.
std::vector<FabricPoint> points_of(const FabricOptions& options, const FabricRow& row,
                                   const FabricClient& client, Shape shape, size_t depth) {
  std::vector<FabricPoint> points;
  for (const size_t bytes : options.sizes) {
    if (shape == Shape::kSend && bytes > client.message_bytes_max()) continue;
    const size_t in_flight = std::min(depth, client.depth_max());
    FabricPoint point{.provider = std::string(row.name),
                      .of = {.shape = shape, .bytes = bytes, .depth = in_flight}};
    if (!has_sizes(shape)) {
      point.of.bytes = sizeof(uint64_t);
      return {std::move(point)};
    }
    points.push_back(std::move(point));
  }
  return points;
}

Reported<> measure_ours(FabricClient& client, FabricPoint& point, double seconds) {
  const FabricClient::Case which{.shape = point.of.shape, .bytes = point.of.bytes};
  if (point.of.depth > 0) {
    const Reported<Flow> flow = client.bandwidth(which, point.of.depth, seconds);
    if (!flow) return report(flow.error());
    point.turns.push_back(flow->bytes_per_second);
    return {};
  }
  const Reported<Timing> timing = client.latency(which, seconds);
  if (!timing) return report(timing.error());
  point.turns.push_back(timing->median_ns);
  point.means.push_back(timing->mean_ns);
  point.p99s.push_back(timing->p99_ns);
  point.mins.push_back(timing->min_ns);
  return {};
}

// As many as the peer does in the time, once that is known; a peer may be a hundred times slower than ours.
uint64_t iterations_for(const FabricPoint& point, double peer_figure) {
  if (peer_figure <= 0) return kPeerIterationsMin;
  const double operation_s =
      point.of.depth > 0 ? static_cast<double>(point.of.bytes) / peer_figure : peer_figure * 1e-9;
  const double wanted = std::min(kPeerSeconds / operation_s, 1e9);
  return std::clamp<uint64_t>(static_cast<uint64_t>(wanted), kPeerIterationsMin, kPeerIterationsMax);
}

// One turn of one peer, over the points that it has a counterpart for.
Reported<> measure_peer(const Peer& peer, std::vector<FabricPoint>& points) {
  std::vector<PeerCase> cases;
  std::vector<FabricPoint*> counterparts;
  for (FabricPoint& point : points) {
    if (!peer.has(point.of)) continue;
    const auto found = std::ranges::find(point.peers, &peer, &PeerFigures::peer);
    const double last = found == point.peers.end() ? 0 : found->turns.back();
    cases.push_back({.of = point.of, .iterations = iterations_for(point, last)});
    counterparts.push_back(&point);
  }
  if (cases.empty()) return {};
  const Reported<std::vector<double>> figures = peer.run(cases);
  if (!figures) return report(figures.error());
  for (size_t i = 0; i < cases.size(); ++i) {
    FabricPoint& point = *counterparts[i];
    auto found = std::ranges::find(point.peers, &peer, &PeerFigures::peer);
    if (found == point.peers.end())
      found = point.peers.insert(found, {.peer = &peer, .turns = {}, .ratios = {}});
    const bool is_mean = peer.statistic == Statistic::kMean && !point.means.empty();
    found->turns.push_back((*figures)[i]);
    found->ratios.push_back((is_mean ? point.means.back() : point.turns.back()) / (*figures)[i]);
  }
  return {};
}

// The peers of a provider that can be measured here; the others become gaps.
std::vector<const Peer*> peers_for(const FabricOptions& options, const FabricRow& row, FabricResult& result) {
  std::vector<const Peer*> peers;
  if (!options.has_peers) return peers;
  for (const Peer& peer : fabric_peers()) {
    if (peer.provider != row.name || (!options.peer.empty() && peer.name != options.peer)) continue;
    const std::string what(peer.what);
    if (!options.address.empty()) {
      result.gaps.push_back({std::string(row.name),
                             fmt::format("{} ({}): the other end is elsewhere", peer.name, what),
                             fmt::format("run {} by hand at both ends", peer.program)});
    } else if (!is_installed(peer)) {
      result.gaps.push_back({std::string(row.name), fmt::format("{} ({}): not installed", peer.name, what),
                             std::string(peer.install)});
    } else if (const std::string obstacle = obstacle_of(peer); !obstacle.empty()) {
      result.gaps.push_back(
          {std::string(row.name), fmt::format("{} ({}): {}", peer.name, what, obstacle), ""});
    } else {
      peers.push_back(&peer);
      result.peers.push_back(fmt::format("{}: {} {}, {}", row.name, peer.name, version_of(peer), what));
    }
  }
  return peers;
}

// The peers' figures stay until the next turn has taken its iterations from them.
void drop_first_turn(std::vector<FabricPoint>& points) {
  for (FabricPoint& point : points) {
    for (std::vector<double>* figures : {&point.turns, &point.means, &point.p99s, &point.mins})
      figures->clear();
    for (PeerFigures& peer : point.peers) peer.ratios.clear();
  }
}

Reported<> measure_shape(const FabricOptions& options, FabricClient& client, std::vector<const Peer*>& peers,
                         std::vector<FabricPoint>& points, FabricResult& result) {
  // The first turn warms up, tells how fast the peers are, and is dropped.
  for (int turn = 0; turn <= options.turns; ++turn) {
    for (FabricPoint& point : points) {
      if (const Reported<> done = measure_ours(client, point, options.seconds); !done) {
        return report(done.error().code, fmt::format("{}: {}", text(point.of), done.error().what),
                      done.error().next);
      }
    }
    if (!peers.empty()) {
      if (const Reported<> resting = client.rest(); !resting) return resting;
    }
    // A peer that fails once is not asked again; what it has said stays.
    std::erase_if(peers, [&](const Peer* peer) {
      const Reported<> done = measure_peer(*peer, points);
      if (!done) {
        result.gaps.push_back(
            {std::string(peer->provider),
             fmt::format("{} at {}: {}", peer->name, text(points.front().of), done.error().what),
             done.error().next});
      }
      return !done;
    });
    if (turn == 0) drop_first_turn(points);
  }
  return {};
}

Reported<> measure_provider(const FabricOptions& options, const FabricRow& row, const Timer& timer,
                            FabricResult& result) {
  std::optional<ServerProcess> server;
  std::string address = options.address;
  if (address.empty()) {
    Reported<ServerProcess> started = ServerProcess::start(row, options.program);
    if (!started) return report(started.error());
    server.emplace(std::move(*started));
    address = server->address();
  }
  const Reported<std::unique_ptr<FabricClient>> client = FabricClient::connect(row, address, timer);
  if (!client) return report(client.error());
  if (const Reported<> verified = (*client)->verify(); !verified) return verified;
  const std::vector<const Peer*> available = peers_for(options, row, result);
  const std::vector<Shape> shapes =
      options.shapes.empty() ? std::vector<Shape>(kShapes.begin(), kShapes.end()) : options.shapes;
  std::vector<size_t> depths;
  if (options.has_latency) depths.push_back(0);
  if (options.depth > 0) depths.push_back(options.depth);
  for (const size_t depth : depths) {
    for (const Shape shape : shapes) {
      if (depth > 0 && !has_bandwidth(shape)) continue;
      std::vector<FabricPoint> points = points_of(options, row, **client, shape, depth);
      std::vector<const Peer*> peers = available;
      if (const Reported<> done = measure_shape(options, **client, peers, points, result); !done) return done;
      // The first turn's only said how fast the peer is.
      for (FabricPoint& point : points) {
        for (PeerFigures& peer : point.peers) peer.turns.erase(peer.turns.begin());
        std::erase_if(point.peers, [](const PeerFigures& peer) { return peer.turns.empty(); });
      }
      if (options.on_points) options.on_points(points);
      std::ranges::move(points, std::back_inserter(result.points));
    }
  }
  return {};
}

}  // namespace

std::string text(const FabricCase& of) {
  const std::string size = of.bytes >= kMiB && of.bytes % kMiB == 0   ? fmt::format("{} MiB", of.bytes / kMiB)
                           : of.bytes >= kKiB && of.bytes % kKiB == 0 ? fmt::format("{} KiB", of.bytes / kKiB)
                                                                      : fmt::format("{} B", of.bytes);
  const std::string_view name = text(of.shape);
  return of.depth > 0 ? fmt::format("{} {}, {} in flight", name, size, of.depth)
                      : fmt::format("{} {}", name, size);
}

Reported<FabricResult> run_fabric(const FabricOptions& options, const Timer& timer) {
  FabricResult result;
  result.placement =
      core_count() > 1
          ? "two processes that poll: the one that measures on core 0, the one that serves on core 1"
          : "two processes that poll, both on the only core: nothing but a trial";
  if (!options.address.empty()) result.placement = "this end on core 0, the other at " + options.address;
  pin_to_core(0);
  for (const FabricRow& row : fabric_rows()) {
    if (!is_wanted(options, row.name)) continue;
    // What was not asked for by name, and this host cannot do, is named and left out.
    if (const Reported<ClientEnd> end = row.connect(); options.providers.empty() && !end) {
      result.gaps.push_back({std::string(row.name), end.error().what, end.error().next});
      continue;
    }
    if (const Reported<> done = measure_provider(options, row, timer, result); !done) {
      return report(done.error().code, fmt::format("{}: {}", row.name, done.error().what), done.error().next);
    }
  }
  return result;
}

}  // namespace refract::bench
