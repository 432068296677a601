// SPDX-License-Identifier: Apache-2.0
// A command of refract-bench: its options, and what it finds. One that stands at namespace scope is known to
// main() by that.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report/findings.h"

#include "refract/arguments/command.h"
#include "refract/base/report.h"

namespace refract::bench {

// What a run came to.
struct Found {
  std::optional<Findings> findings = {};  // What --json writes.
  bool has_failed = false;                // Something that was to be measured could not be.
};

class BenchCommand {
 public:
  BenchCommand(std::string_view name, std::string_view help);
  BenchCommand(const BenchCommand&) = delete;
  BenchCommand& operator=(const BenchCommand&) = delete;
  virtual ~BenchCommand() = default;

  [[nodiscard]] std::string name() const { return std::string(name_); }
  [[nodiscard]] std::string help() const { return std::string(help_); }
  // Options besides --json.
  virtual void describe(arguments::Command& app) = 0;
  // `app` knows which options were given. Prints what it finds if `is_shown`.
  [[nodiscard]] virtual Reported<Found> run(const arguments::Command& app, bool is_shown) = 0;

 private:
  std::string_view name_;
  std::string_view help_;
};

// In the order of their names.
[[nodiscard]] std::vector<BenchCommand*> bench_commands();

// "-" is the standard output.
[[nodiscard]] Reported<> write_file(const std::string& path, const std::string& text);

}  // namespace refract::bench
