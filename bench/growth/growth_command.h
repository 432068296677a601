// SPDX-License-Identifier: Apache-2.0
// The command line of `refract-bench growth`.
#pragma once

#include <string>
#include <vector>

#include "bench/growth/growth.h"

#include "refract/arguments/command.h"
#include "refract/base/report.h"

namespace refract::bench {

struct GrowthCommand {
  GrowthOptions options;
  BarOptions bars;
  std::string json_path;
  bool is_quick = false;
  bool is_small = false;
};

void describe_growth(arguments::Command& app, GrowthCommand& command);

// Measures and prints. Returns what --json asks for.
[[nodiscard]] Reported<std::string> run_growth_command(GrowthCommand& command);

}  // namespace refract::bench
