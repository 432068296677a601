// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "bench/fabric/fabric_server.h"
#include "bench/measure/machine.h"

namespace refract::bench {
namespace {

Reported<std::string> serve(const FabricCommand& command) {
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
  return {};
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

}  // namespace

void describe_fabric(CLI::App& app, FabricCommand& command) {
  FabricOptions& options = command.options;
  app.add_option("--provider", options.providers, "shm, tcp, verbs; repeat it, or leave it out for all");
  app.add_option(
      "--op", command.shapes,
      "read, write, put (writes back and forth), swap, add, send; repeat it, or leave it out for all");
  app.add_option("--sizes", options.sizes, "bytes, multiples of 8 up to 4194304")->delimiter(',');
  app.add_option("--depth", options.depth, "in flight, for bandwidth; 0: latency alone")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "of ours, for a size in a turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--turns", options.turns, "of each side, alternating")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  app.add_flag("--no-peers", command.has_no_peers, "ours alone");
  CLI::Option* address =
      app.add_option("--address", options.address,
                     "measure to the end that serves there (default: one of our own, on core 1)");
  app.add_option("--serve", command.serve_at, "be that end, at this address, until stopped")
      ->excludes(address);
  app.add_option("--core", command.core, "that the end that serves sits on, counted from 0");
  app.add_flag("--no-references", command.has_no_references,
               "do not measure the machine before and after, which takes long where it is busy");
  app.add_flag("--smoke", command.is_small, "two sizes, shortly: whether everything runs");
  app.add_option("--json", command.json_path, "write everything to this file as JSON ('-': standard output)");
}

Reported<std::string> run_fabric_command(FabricCommand& command) {
  if (const Reported<> settled = settle(command); !settled) return report(settled.error());
  if (!command.serve_at.empty()) return serve(command);
  const Timer timer = Timer::calibrate();
  std::unique_ptr<References> references;
  Reference before;
  if (!command.has_no_references) {
    // First of all: it forks, and this process is small now.
    Reported<std::unique_ptr<References>> started = References::start(timer);
    if (!started) return report(started.error());
    references = std::move(*started);
    before = references->measure();
  }
  const bool is_shown = command.json_path != "-";
  if (is_shown) {
    const Machine machine = this_machine();
    fmt::print("refract-bench {} ({}), {} x {}, Linux {}\n{}", machine.commit, machine.compiler,
               machine.cores, machine.cpu, machine.kernel, heading_of(command.options));
    command.options.on_points = [](std::span<const FabricPoint> points) {
      fmt::print("{}", lines_of(points));
      std::fflush(stdout);
    };
  }
  Reported<FabricResult> result = run_fabric(command.options, timer);
  if (!result) return report(result.error());
  result->before = before;
  if (references) result->after = references->measure();
  if (is_shown) fmt::print("{}", details_of(*result));
  return json_of(command.options, *result);
}

}  // namespace refract::bench
