// SPDX-License-Identifier: Apache-2.0
// `refract-bench object-mpi`.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/measure/measure.h"
#include "bench/ranks/broadcast_ranks.h"
#include "bench/ranks/object_ranks.h"
#include "bench/report/command.h"
#include "bench/sides/private_node.h"

namespace refract::bench {
namespace {

using arguments::Between;

constexpr int kRanksMax = 16;

struct ObjectMpiCommand final : public BenchCommand {
  RanksOptions options;
  int ranks = 0;  // Forks; 0: those of MPI.
  bool is_small = false;
  bool is_broadcast = false;

  ObjectMpiCommand()
      : BenchCommand("object-mpi", "pulls of objects between nodes, one of each rank of an MPI program") {}
  void describe(arguments::Command& app) override;
  [[nodiscard]] Reported<Found> run(const arguments::Command& app, bool is_shown) override;
} object_mpi_command;

void ObjectMpiCommand::describe(arguments::Command& app) {
  app.add({.names = "--sizes",
           .to = &options.sizes,
           .help = "bytes of the objects, with commas (default: 1 KiB, 4 KiB and so on to 64 MiB)",
           .limit = Between<uint64_t>{1, kGiB},
           .separator = ','});
  app.add({.names = "--turns",
           .to = &options.turns,
           .help = "that each way has at each size",
           .limit = Between<int>{1, 1000},
           .shows_default = true});
  app.add({.names = "--ranks",
           .to = &ranks,
           .help = "so many processes of this host instead of those that mpirun starts; needs no MPI",
           .limit = Between<int>{2, kRanksMax}});
  app.add({.names = "--apart",
           .to = &options.is_apart,
           .help =
               "two forks, at the two ends of a path of 0.1 ms there and back through a network namespace; "
               "needs root"});
  app.add({.names = "--spin",
           .to = &options.spin,
           .help = "the knob server.spin of the nodes, such as 0ns where there are more of them than cores"});
  app.add({.names = "--broadcast",
           .to = &is_broadcast,
           .help = "rank 0 gives one object to all others, beside MPI_Bcast and one pull"});
  app.add({.names = "--smoke", .to = &is_small, .help = "two sizes and one turn: whether everything runs"});
  app.add({.names = "--node-program",
           .to = &options.node_program,
           .help = "refractd (default: beside this program)"});
}

Reported<> settle(ObjectMpiCommand& command) {
  RanksOptions& options = command.options;
  if (options.is_apart && command.ranks != 2)
    return report(Code::kInvalidArgument, "--apart is for two forks", "give --ranks 2");
  if (options.is_apart && command.is_broadcast)
    return report(Code::kInvalidArgument, "--apart is for pulls",
                  "leave one of --apart and --broadcast away");
  if (options.sizes.empty()) options.sizes = times((command.is_broadcast ? 64 : 1) * kKiB, 64 * kMiB, 4);
  if (options.node_program.empty()) options.node_program = default_node_program();
  if (!command.is_small) return {};
  options.sizes = {kKiB, 256 * kKiB};
  options.turns = 1;
  options.turn_bytes = kMiB;
  return {};
}

std::string size_text(uint64_t bytes) {
  if (bytes % kMiB == 0) return fmt::format("{} MiB", bytes / kMiB);
  return bytes % kKiB == 0 ? fmt::format("{} KiB", bytes / kKiB) : fmt::format("{} B", bytes);
}

double median_of(const RanksPoint& point, PullWay way) {
  return spread_of(point.rates[static_cast<size_t>(way)]).median;
}

// Auto by the better of the two that it chooses from.
double share_of_auto(const RanksPoint& point) {
  return median_of(point, PullWay::kAuto) /
         std::max(median_of(point, PullWay::kSend), median_of(point, PullWay::kRead));
}

std::string lines_of(const std::vector<RanksPoint>& points, const Ranks& ranks) {
  std::string lines = fmt::format(
      "{} ranks{}; rank 0 pulls what the others hold, one object after the other; MB/s, the median of the "
      "turns and their range\nsend, read, auto: from look-up to seal; {}: the bytes alone\n\n{:<9}",
      ranks.count(), ranks.has_messages() ? " of MPI" : ", forks",
      ranks.has_messages() ? "socket, MPI_Recv" : "socket", "object");
  for (const PullWay way : kPullWays) {
    if (!points.front().rates[static_cast<size_t>(way)].empty()) lines += fmt::format("  {:<22}", text(way));
  }
  lines += "  auto / better of both\n";
  for (const RanksPoint& point : points) {
    lines += fmt::format("{:<9}", size_text(point.bytes));
    for (const std::vector<double>& rates : point.rates) {
      if (rates.empty()) continue;
      const Spread spread = spread_of(rates);
      lines += fmt::format("  {:<22}", fmt::format("{:.4g} ({:.4g}..{:.4g})", spread.median / 1e6,
                                                   spread.min / 1e6, spread.max / 1e6));
    }
    lines += fmt::format("  {:.2f}\n", share_of_auto(point));
  }
  return lines;
}

Findings findings_of(const std::vector<RanksPoint>& points, const Ranks& ranks) {
  Findings findings = findings_here("object-mpi", "pulls between the nodes of ranks",
                                    {{"ranks", ranks.count()}, {"mpi", ranks.has_messages()}});
  Section section{.title = "pulls of objects",
                  .how = "send, read and auto from look-up to seal; socket and MPI_Recv the bytes alone",
                  .axis = "bytes of an object"};
  for (const PullWay way : kPullWays) {
    for (const RanksPoint& point : points) {
      const std::vector<double>& rates = point.rates[static_cast<size_t>(way)];
      if (rates.empty()) continue;
      Series& series = section.series_of("bytes a second", text(way), "B/s");
      series.is_reference = way == PullWay::kSocket || way == PullWay::kMpi;
      series.points.push_back(
          {.x = static_cast<double>(point.bytes), .place = size_text(point.bytes), .samples = rates});
    }
  }
  findings.sections.push_back(std::move(section));
  return findings;
}

// --- Broadcasts ---

double median_of(const BroadcastPoint& point, BroadcastWay way) {
  return spread_of(point.seconds[static_cast<size_t>(way)]).median;
}

// Ours by another way, where that was measured.
std::string share_text(const BroadcastPoint& point, BroadcastWay way) {
  if (point.seconds[static_cast<size_t>(way)].empty()) return "";
  return fmt::format("  {:.2f} of {}", median_of(point, BroadcastWay::kObjects) / median_of(point, way),
                     text(way));
}

std::string lines_of(const std::vector<BroadcastPoint>& points, const Ranks& ranks) {
  std::string lines = fmt::format(
      "{} ranks{}; rank 0 gives one object to all others; ms, the median of the turns and their range\n"
      "broadcast: until all have a sealed copy; MPI_Bcast: the bytes alone, until all have said that they "
      "are there\n\n"
      "{:<9}",
      ranks.count(), ranks.has_messages() ? " of MPI" : ", forks", "object");
  for (const BroadcastWay way : kBroadcastWays) {
    if (!points.front().seconds[static_cast<size_t>(way)].empty())
      lines += fmt::format("  {:<22}", text(way));
  }
  lines += "  broadcast\n";
  for (const BroadcastPoint& point : points) {
    lines += fmt::format("{:<9}", size_text(point.bytes));
    for (const std::vector<double>& seconds : point.seconds) {
      if (seconds.empty()) continue;
      const Spread spread = spread_of(seconds);
      lines += fmt::format("  {:<22}", fmt::format("{:.4g} ({:.4g}..{:.4g})", spread.median * 1e3,
                                                   spread.min * 1e3, spread.max * 1e3));
    }
    lines += share_text(point, BroadcastWay::kMpi) + share_text(point, BroadcastWay::kPull) + "\n";
  }
  return lines;
}

Findings findings_of(const std::vector<BroadcastPoint>& points, const Ranks& ranks) {
  Findings findings = findings_here("object-mpi", "broadcasts to the nodes of ranks",
                                    {{"ranks", ranks.count()}, {"mpi", ranks.has_messages()}});
  Section section{
      .title = "broadcasts of objects",
      .how = "broadcast until all have a sealed copy, MPI_Bcast the bytes alone, one pull by rank 1",
      .axis = "bytes of an object"};
  for (const BroadcastWay way : kBroadcastWays) {
    for (const BroadcastPoint& point : points) {
      const std::vector<double>& seconds = point.seconds[static_cast<size_t>(way)];
      if (seconds.empty()) continue;
      Series& series = section.series_of("time", text(way), "s");
      series.is_reference = way != BroadcastWay::kObjects;
      series.points.push_back(
          {.x = static_cast<double>(point.bytes), .place = size_text(point.bytes), .samples = seconds});
    }
  }
  findings.sections.push_back(std::move(section));
  return findings;
}

// --- Ranks ---

Reported<> follow_rank_0(const ObjectMpiCommand& command, Ranks& ranks) {
  return command.is_broadcast ? take_broadcasts(ranks, command.options)
                              : hold_objects(ranks, command.options);
}

template <typename Point>
Reported<Found> found_of(const Reported<std::vector<Point>>& points, Ranks& ranks, bool is_shown) {
  if (!points) {
    std::fprintf(stderr, "rank 0: %s\n", points.error().to_string().c_str());
    ranks.give_up();
    return report(points.error());
  }
  if (is_shown) fmt::print("{}\n", lines_of(*points, ranks));
  Found found;
  found.findings = findings_of(*points, ranks);
  return found;
}

Reported<std::unique_ptr<Ranks>> ranks_of(const ObjectMpiCommand& command) {
  if (command.ranks == 0) return join_mpi();
  return fork_ranks(static_cast<size_t>(command.ranks), [&command](Ranks& ranks) {
    const Reported<> held = follow_rank_0(command, ranks);
    if (!held) std::fprintf(stderr, "rank %zu: %s\n", ranks.index(), held.error().to_string().c_str());
    return held ? 0 : 1;
  });
}

Reported<Found> ObjectMpiCommand::run(const arguments::Command& /*app*/, bool is_shown) {
  if (const Reported<> settled = settle(*this); !settled) return report(settled.error());
  const Reported<std::unique_ptr<Ranks>> joined = ranks_of(*this);
  if (!joined) return report(joined.error());
  Ranks& all = **joined;
  if (all.count() < 2) {
    return report(Code::kInvalidArgument, "one rank has no other to pull from", "mpirun -np 2 or more");
  }
  if (all.index() != 0) {
    const Reported<> held = follow_rank_0(*this, all);
    if (held) return Found{};
    // Giving up may end this process before it says why.
    std::fprintf(stderr, "rank %zu: %s\n", all.index(), held.error().to_string().c_str());
    all.give_up();
    return report(held.error());
  }
  if (is_broadcast) return found_of(measure_broadcasts(all, options), all, is_shown);
  return found_of(measure_pulls(all, options), all, is_shown);
}

}  // namespace
}  // namespace refract::bench
