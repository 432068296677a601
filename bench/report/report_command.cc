// SPDX-License-Identifier: Apache-2.0
// `refract-bench report`.
#include <fmt/core.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "bench/report/command.h"

namespace refract::bench {
namespace {

struct ReportCommand final : public BenchCommand {
  std::string from;
  std::string to = "report.html";

  ReportCommand() : BenchCommand("report", "a page with plots from what --json wrote") {}

  void describe(arguments::Command& app) override {
    app.add({.names = "json",
             .to = &from,
             .help = "what 'bars', 'kv', 'fabric', 'growth' or 'suite' wrote by --json",
             .is_required = true});
    app.add({.names = "-o,--output", .to = &to, .help = "the page", .shows_default = true});
  }

  [[nodiscard]] Reported<Found> run(const arguments::Command& /*app*/, bool /*is_shown*/) override {
    const std::ifstream file(from);
    if (!file) return report(Code::kSystem, fmt::format("cannot read {}: {}", from, errno_text(errno)));
    std::ostringstream json;
    json << file.rdbuf();
    const Reported<std::string> page = html_of(json.str());
    if (!page) return report(page.error().code, from + ": " + page.error().what, page.error().next);
    if (const Reported<> written = write_file(to, *page); !written) return report(written.error());
    return Found{};
  }
} report_command;

}  // namespace
}  // namespace refract::bench
