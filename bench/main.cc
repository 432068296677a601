// SPDX-License-Identifier: Apache-2.0
// refract-bench: every promise in numbers, measured here; load on a node; a page of what was found.
#include <cstdio>
#include <deque>
#include <optional>
#include <string>

#include "bench/report/command.h"

namespace {

using namespace refract;
using namespace refract::bench;

struct Row {
  BenchCommand* command;
  arguments::Command& app;
  std::string json_path = {};
};

int refuse(const Report& report) {
  std::fprintf(stderr, "refract-bench: %s\n", report.to_string().c_str());
  return 1;
}

int run(const Row& row) {
  const Reported<Found> found = row.command->run(row.app, row.json_path != "-");
  if (!found) return refuse(found.error());
  if (found->findings && !row.json_path.empty()) {
    if (const Reported<> written = write_file(row.json_path, json_of(*found->findings)); !written) {
      return refuse(written.error());
    }
  }
  return found->has_failed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  arguments::Command app(
      "Measures Refract: what it promises, a load of your choice, and a page of the result.",
      {.needs_command = true});
  std::deque<Row> rows;  // Whose places do not change.
  for (BenchCommand* command : bench_commands()) {
    Row& row = rows.emplace_back(Row{command, app.add_command(command->name(), command->help())});
    command->describe(row.app);
    if (command->name() == "report") continue;
    row.app.add({.names = "--json",
                 .to = &row.json_path,
                 .help = "write everything to this file as JSON ('-': standard output)"});
  }
  if (const std::optional<int> code = app.read_or_print(argc, argv)) return *code;
  for (const Row& row : rows) {
    if (row.app.was_named()) return run(row);
  }
  return 1;
}
