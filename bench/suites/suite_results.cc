// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/suites/suite.h"

namespace refract::bench {
namespace {

bool is_off(const Suite& suite, const Compared& compared) {
  return std::abs(compared.difference) > suite.tolerance;
}

std::string subject_of(const Figure& figure) {
  std::string subject =
      figure.over.empty() ? figure.system : fmt::format("{} / {}", figure.system, figure.over);
  if (!figure.place.empty()) subject += fmt::format(", {}", figure.place);
  return subject;
}

// Of a ratio at least; how much faster another machine is says nothing.
std::string difference_of(const Compared& compared) {
  if (!compared.is_judged && compared.figure->over.empty()) return "-";
  return fmt::format("{:+.1f} %", 100 * compared.difference);
}

std::string_view verdict_of(const Suite& suite, const Compared& compared) {
  if (!compared.is_judged) return compared.figure->over.empty() ? "another machine" : "not judged";
  if (!is_off(suite, compared)) return "within";
  return compared.figure->because.empty() ? "OFF, UNEXPLAINED" : "off, explained";
}

std::string_view label_of(SuiteFabric fabric) {
  constexpr std::array kLabels = {"simulated: the paper's testbed in virtual time, our code",
                                  "real: this machine, shared memory; nothing of the paper's testbed",
                                  "real: this machine, TCP over loopback; nothing of the paper's testbed"};
  return kLabels[static_cast<size_t>(fabric)];
}

Reported<std::vector<Measured>> measure(const Suite& suite, SuiteFabric fabric) {
  const bool is_kv = suite.experiment == Suite::Experiment::kKv;
  if (fabric == SuiteFabric::kSim) return is_kv ? simulate_kv(suite) : simulate_chase(suite);
  return is_kv ? run_real_kv(suite, fabric) : run_real_chase(suite, fabric);
}

Reported<Compared> compare(const Figure& figure, const SuiteResult& result) {
  const Measured* ours = find(result.measured, figure.what, figure.system, figure.place);
  const Measured* over =
      figure.over.empty() ? nullptr : find(result.measured, figure.what, figure.over, figure.place);
  if (ours == nullptr || (over == nullptr && !figure.over.empty()) || (over != nullptr && over->value == 0)) {
    return report(Code::kInvalidArgument,
                  fmt::format("nothing measures '{}' of {}", figure.what, subject_of(figure)));
  }
  Compared compared = {.figure = &figure, .unit = over == nullptr ? ours->unit : "x"};
  compared.ours = over == nullptr ? ours->value : ours->value / over->value;
  compared.difference = compared.ours / figure.paper - 1;
  compared.is_judged = result.fabric == SuiteFabric::kSim;
  return compared;
}

}  // namespace

std::string_view text(SuiteFabric fabric) noexcept {
  constexpr std::array kNames = {"sim", "shm", "tcp"};
  return kNames[static_cast<size_t>(fabric)];
}

const Measured* find(const std::vector<Measured>& measured, std::string_view what, std::string_view system,
                     std::string_view place) {
  const auto found = std::ranges::find_if(measured, [&](const Measured& each) {
    return each.what == what && each.system == system && each.place == place;
  });
  return found == measured.end() ? nullptr : &*found;
}

bool has_unexplained(const Suite& suite, const SuiteResult& result) {
  return std::ranges::any_of(result.compared, [&suite](const Compared& compared) {
    return compared.is_judged && is_off(suite, compared) && compared.figure->because.empty();
  });
}

Reported<SuiteResult> run_suite(const Suite& suite, SuiteFabric fabric) {
  SuiteResult result;
  result.fabric = fabric;
  Reported<std::vector<Measured>> measured = measure(suite, fabric);
  if (!measured) return report(measured.error());
  result.measured = std::move(*measured);
  for (const Figure& figure : suite.figures) {
    const Reported<Compared> compared = compare(figure, result);
    if (!compared) return report(compared.error());
    result.compared.push_back(*compared);
  }
  return result;
}

std::string lines_of(const Suite& suite, const SuiteResult& result) {
  constexpr std::string_view kRow = "{:<16} {:<34} {:>9} {:>9} {:>5} {:>8}  {:<16} {}\n";
  std::string lines = fmt::format("{}\n{}; seed {}\n\n", suite.title, label_of(result.fabric), suite.seed);
  lines += fmt::format(kRow, "what", "of", "ours", "paper", "", "", "", "the paper's figure is from");
  for (const Compared& compared : result.compared) {
    lines += fmt::format(kRow, compared.figure->what, subject_of(*compared.figure),
                         fmt::format("{:.3g}", compared.ours), fmt::format("{:.3g}", compared.figure->paper),
                         compared.unit, difference_of(compared), verdict_of(suite, compared),
                         compared.figure->source);
  }
  lines += "\nmeasured besides\n";
  std::string last;
  for (const Measured& measured : result.measured) {
    const std::string subject =
        measured.place.empty() ? measured.system : fmt::format("{}, {}", measured.system, measured.place);
    if (subject != last) lines += fmt::format("{}  {}:", last.empty() ? "" : "\n", subject);
    last = subject;
    lines += fmt::format(" {} {:.4g}{}{};", measured.what, measured.value, measured.unit.empty() ? "" : " ",
                         measured.unit);
  }
  lines += '\n';
  for (const Compared& compared : result.compared) {
    if (!compared.is_judged || !is_off(suite, compared) || compared.figure->because.empty()) continue;
    lines += fmt::format("\n{} of {}: {}\n", compared.figure->what, subject_of(*compared.figure),
                         compared.figure->because);
  }
  return lines;
}

void add_to(Findings& findings, const Suite& suite, const SuiteResult& result) {
  findings.facts[suite.name] = {
      {"fabric", text(result.fabric)}, {"seed", suite.seed}, {"tolerance", suite.tolerance}};
  Section section{.title = suite.title, .how = std::string(label_of(result.fabric))};
  for (const Compared& compared : result.compared) {
    const Figure& figure = *compared.figure;
    Series& series = section.add(figure.what, subject_of(figure), compared.unit, {compared.ours});
    series.limit = {.at_least = figure.paper * (1 - suite.tolerance),
                    .at_most = figure.paper * (1 + suite.tolerance),
                    .text = fmt::format("the paper: {:g}, {}", figure.paper, figure.source),
                    .verdict = std::string(verdict_of(suite, compared))};
    series.details = {{"paper", figure.paper, compared.unit}, {"off by", 100 * compared.difference, "%"}};
    series.note = figure.because;
  }
  findings.sections.push_back(std::move(section));
  Section rest{.title = suite.name + ": measured besides"};
  for (const Measured& measured : result.measured) {
    rest.add(
        measured.what,
        measured.place.empty() ? measured.system : fmt::format("{}, {}", measured.system, measured.place),
        measured.unit, {measured.value});
  }
  findings.sections.push_back(std::move(rest));
}

}  // namespace refract::bench
