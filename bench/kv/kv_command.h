// SPDX-License-Identifier: Apache-2.0
// The command line of `refract-bench kv`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/kv/kv_load.h"

#include "refract/base/report.h"

namespace refract::bench {

struct KvCommand {
  KvLoad load;
  std::string mix = "get";
  std::string ycsb;
  std::vector<std::string> designs;
  std::string path;
  std::string json_path;
};

void describe_kv(CLI::App& app, KvCommand& command);

// Measures and prints. Returns what --json asks for. `app` knows which options were given.
[[nodiscard]] Reported<std::string> run_kv_command(const CLI::App& app, KvCommand& command);

}  // namespace refract::bench
