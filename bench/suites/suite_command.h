// SPDX-License-Identifier: Apache-2.0
// The command line of `refract-bench suite`.
#pragma once

#include <string>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/suites/suite.h"

#include "refract/arguments/command.h"
#include "refract/base/report.h"

namespace refract::bench {

struct SuiteCommand {
  std::vector<std::string> names;
  SuiteFabric fabric = SuiteFabric::kSim;
  BarOptions bars;  // Of claims.
  std::string json_path;
  bool is_list = false;
  bool is_quick = false;
  bool is_small = false;
};

void describe_suites(arguments::Command& app, SuiteCommand& command);

struct SuiteReport {
  Findings findings;  // Of all suites, their sections one after the other.
  bool has_failed = false;
};
// Runs and prints.
[[nodiscard]] Reported<SuiteReport> run_suite_command(SuiteCommand& command);

}  // namespace refract::bench
