// SPDX-License-Identifier: Apache-2.0
// The command line of `refract-bench fabric`.
#pragma once

#include <string>
#include <vector>

#include "bench/fabric/fabric_run.h"

#include "refract/arguments/command.h"
#include "refract/base/report.h"

namespace refract::bench {

struct FabricCommand {
  FabricOptions options;
  std::vector<std::string> shapes;
  std::string serve_at;  // Not empty: this is the end that serves.
  int core = -1;         // Of that end.
  std::string json_path;
  bool has_no_peers = false;
  bool has_no_references = false;
  bool is_small = false;
};

void describe_fabric(arguments::Command& app, FabricCommand& command);

// Measures and prints, or serves until the process ends. Returns what --json asks for.
[[nodiscard]] Reported<std::string> run_fabric_command(FabricCommand& command);

}  // namespace refract::bench
