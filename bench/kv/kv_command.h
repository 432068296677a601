// SPDX-License-Identifier: Apache-2.0
// The command line of `refract-bench kv`.
#pragma once

#include <string>
#include <vector>

#include "bench/kv/kv_load.h"

#include "refract/arguments/command.h"
#include "refract/base/report.h"

namespace refract::bench {

struct KvCommand {
  KvLoad load;
  std::string mix = "get";
  std::string ycsb;
  std::vector<std::string> designs;
  std::string path;
  arguments::Given sweep;  // Of rates, where nothing is said.
  std::string json_path;
};

void describe_kv(arguments::Command& app, KvCommand& command);

// Measures and prints. Returns what --json asks for. `app` knows which options were given.
[[nodiscard]] Reported<std::string> run_kv_command(const arguments::Command& app, KvCommand& command);

}  // namespace refract::bench
