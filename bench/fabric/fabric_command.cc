// SPDX-License-Identifier: Apache-2.0
// `refract-bench fabric`.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "bench/fabric/fabric_run.h"
#include "bench/fabric/fabric_server.h"
#include "bench/measure/machine.h"
#include "bench/report/command.h"

namespace refract::bench {
namespace {

struct FabricCommand final : public BenchCommand {
  FabricOptions options;
  std::vector<std::string> shapes;
  std::string serve_at;  // Not empty: this is the end that serves.
  int core = -1;         // Of that end.
  bool has_no_peers = false;
  bool has_no_references = false;
  bool is_small = false;

  FabricCommand()
      : BenchCommand("fabric",
                     "every operation of every provider over sizes, beside UCX, libfabric and perftest") {}
  void describe(arguments::Command& app) override;
  [[nodiscard]] Reported<Found> run(const arguments::Command& app, bool is_shown) override;
} fabric_command;

using arguments::Between;
using arguments::Sign;

Reported<Found> serve(const FabricCommand& command) {
  if (command.options.providers.size() != 1) {
    return report(Code::kInvalidArgument, "--serve needs --provider, once");
  }
  const Reported<const FabricRow*> row = fabric_row(command.options.providers.front());
  if (!row) return report(row.error());
  const Reported<> served = serve_fabric({.row = *row,
                                          .address = command.serve_at,
                                          .core = command.core,
                                          .on_ready = [&](const std::string& address) {
                                            fmt::print("serving {} at {}\n", (*row)->name, address);
                                            std::fflush(stdout);
                                          }});
  if (!served) return report(served.error());
  return Found{};
}

// What the command line says in words, checked.
Reported<> settle(FabricCommand& command) {
  FabricOptions& options = command.options;
  for (const std::string& provider : options.providers) {
    if (const Reported<const FabricRow*> row = fabric_row(provider); !row) return report(row.error());
  }
  for (const std::string& name : command.shapes) {
    const auto* const found =
        std::ranges::find_if(kShapes, [&](Shape shape) { return text(shape) == std::string_view(name); });
    if (found == kShapes.end()) {
      return report(Code::kInvalidArgument, fmt::format("--op {}: there is no such operation", name),
                    "there are read, write, put, swap, add and send");
    }
    options.shapes.push_back(*found);
  }
  for (const size_t bytes : options.sizes) {
    if (bytes >= 8 && bytes % 8 == 0 && bytes <= kFabricBytesMax) continue;
    return report(Code::kInvalidArgument,
                  fmt::format("--sizes {}: expected a multiple of 8, up to 4 MiB", bytes));
  }
  if (!options.address.empty() && options.providers.size() != 1) {
    return report(Code::kInvalidArgument, "--address needs --provider, once");
  }
  options.has_peers = !command.has_no_peers;
  if (command.is_small) {
    options.sizes = {8, 4'096};
    options.seconds = 0.002;
    options.turns = 1;
  }
  return {};
}

void FabricCommand::describe(arguments::Command& app) {
  app.add({.names = "--provider",
           .to = &options.providers,
           .help = "shm, tcp, verbs; repeat it, or leave it out for all"});
  app.add(
      {.names = "--op",
       .to = &shapes,
       .help =
           "read, write, put (writes back and forth), swap, add, send; repeat it, or leave it out for all"});
  app.add({.names = "--sizes",
           .to = &options.sizes,
           .help = "bytes, multiples of 8 up to 4194304",
           .separator = ','});
  app.add({.names = "--depth",
           .to = &options.depth,
           .help = "in flight, for bandwidth; 0: latency alone",
           .limit = Between<int>{0, 64},
           .shows_default = true});
  app.add({.names = "--seconds",
           .to = &options.seconds,
           .help = "of ours, for a size in a turn",
           .limit = Sign::kPositive,
           .shows_default = true});
  app.add({.names = "--turns",
           .to = &options.turns,
           .help = "of each side, alternating",
           .limit = Between<int>{1, 1'000},
           .shows_default = true});
  app.add({.names = "--no-peers", .to = &has_no_peers, .help = "ours alone"});
  app.add({.names = "--address",
           .to = &options.address,
           .help = "measure to the end that serves there (default: one of our own, on core 1)"});
  app.add({.names = "--serve",
           .to = &serve_at,
           .help = "be that end, at this address, until stopped",
           .excludes = "--address"});
  app.add({.names = "--core", .to = &core, .help = "that the end that serves sits on, counted from 0"});
  app.add({.names = "--no-references",
           .to = &has_no_references,
           .help = "do not measure the machine before and after, which takes long where it is busy"});
  app.add({.names = "--smoke", .to = &is_small, .help = "two sizes, shortly: whether everything runs"});
}

Reported<Found> FabricCommand::run(const arguments::Command& /*app*/, bool is_shown) {
  if (const Reported<> settled = settle(*this); !settled) return report(settled.error());
  if (!serve_at.empty()) return serve(*this);
  const Timer timer = Timer::calibrate();
  std::unique_ptr<References> references;
  Reference before;
  if (!has_no_references) {
    // First of all: it forks, and this process is small now.
    Reported<std::unique_ptr<References>> started = References::start(timer);
    if (!started) return report(started.error());
    references = std::move(*started);
    before = references->measure();
  }
  if (is_shown) {
    fmt::print("{}\n{}", line_of(this_machine()), heading_of(options));
    options.on_points = [](std::span<const FabricPoint> points) {
      fmt::print("{}", lines_of(points));
      std::fflush(stdout);
    };
  }
  Reported<FabricResult> result = run_fabric(options, timer);
  if (!result) return report(result.error());
  result->before = before;
  if (references) result->after = references->measure();
  if (is_shown) fmt::print("{}", details_of(*result));
  return Found{.findings = findings_of(options, *result)};
}

}  // namespace

}  // namespace refract::bench
