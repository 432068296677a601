// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "bench/suites/suite.h"

namespace refract::bench {
namespace {

bool is_off(const Suite& suite, const Compared& compared) {
  return bench::is_off(suite, *compared.figure, compared.ours);
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

// A row for each cost and factor, a column for each figure that is no order; the orders share one.
std::string lines_of_varied(const Suite& suite, const SuiteResult& result) {
  std::string lines = "\nthe same with one cost changed (! is off)\n";
  lines += fmt::format("{:<16}{:>10}{:>6}", "cost", "", "times");
  for (const Compared& compared : result.compared) {
    if (compared.figure->is_at_least) continue;
    lines +=
        fmt::format("  {:<26}", fmt::format("{} {}", compared.figure->what, subject_of(*compared.figure)));
  }
  lines += "  orders\n";
  for (const Varied& varied : result.varied) {
    lines += fmt::format("{:<16}{:>10.4g}{:>6}", varied.cost->name, varied.cost->value, varied.times);
    bool has_order = true;
    for (size_t i = 0; i < varied.ours.size(); ++i) {
      const Figure& figure = *result.compared[i].figure;
      const bool is_bad = is_off(suite, figure, varied.ours[i]);
      if (figure.is_at_least) {
        has_order = has_order && !is_bad;
        continue;
      }
      lines += fmt::format("  {:<26}", fmt::format("{:.3g}{}", varied.ours[i], is_bad ? " !" : ""));
    }
    lines += has_order ? "  as the paper's\n" : "  others !\n";
  }
  return lines;
}

Section section_of_varied(const Suite& suite, const SuiteResult& result) {
  Section section{.title = suite.name + ": with one cost changed"};
  for (const Varied& varied : result.varied) {
    for (size_t i = 0; i < varied.ours.size(); ++i) {
      const Compared& compared = result.compared[i];
      section.add(fmt::format("{} of {}", compared.figure->what, subject_of(*compared.figure)),
                  fmt::format("{} x {:g}", varied.cost->name, varied.times), compared.unit, {varied.ours[i]});
    }
  }
  return section;
}

Reported<std::vector<Measured>> measure(const Suite& suite, SuiteFabric fabric) {
  if (suite.experiment == Suite::Experiment::kPulls) {
    if (fabric == SuiteFabric::kSim) return simulate_pulls(suite);
    return report(Code::kInvalidArgument,
                  fmt::format("{} has a testbed's costs, and runs on sim", suite.name),
                  "refract-bench bars --only object-pull-auto measures pulls here");
  }
  if (suite.experiment == Suite::Experiment::kTxn) {
    if (fabric == SuiteFabric::kSim) return simulate_txn(suite);
    return report(Code::kInvalidArgument, fmt::format("{} runs on sim alone", suite.name));
  }
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

Allowed allowed(const Suite& suite, const Figure& figure) noexcept {
  const double paper = figure.paper;
  if (figure.is_at_least) return {.at_least = paper, .at_most = std::numeric_limits<double>::infinity()};
  if (figure.within_times > 0)
    return {.at_least = paper / figure.within_times, .at_most = paper * figure.within_times};
  const bool is_ratio = !figure.over.empty() && suite.ratio_tolerance > 0;
  const double off = is_ratio ? suite.ratio_tolerance : paper * suite.tolerance;
  return {.at_least = paper - off, .at_most = paper + off};
}

bool is_off(const Suite& suite, const Figure& figure, double ours) noexcept {
  const Allowed range = allowed(suite, figure);
  return ours < range.at_least || ours > range.at_most;
}

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
    lines += fmt::format(
        kRow, compared.figure->what, subject_of(*compared.figure), fmt::format("{:.3g}", compared.ours),
        fmt::format("{}{:.3g}", compared.figure->is_at_least ? ">= " : "", compared.figure->paper),
        compared.unit, difference_of(compared), verdict_of(suite, compared), compared.figure->source);
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
  if (!result.varied.empty()) lines += lines_of_varied(suite, result);
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
  if (suite.ratio_tolerance > 0) {
    findings.facts[suite.name].append_member("ratio_tolerance", suite.ratio_tolerance);
  }
  Section section{.title = suite.title, .how = std::string(label_of(result.fabric))};
  for (const Compared& compared : result.compared) {
    const Figure& figure = *compared.figure;
    Series& series = section.add(figure.what, subject_of(figure), compared.unit, {compared.ours});
    const Allowed range = allowed(suite, figure);
    series.limit = {.at_least = range.at_least,
                    .text = fmt::format("the paper: {:g}, {}", figure.paper, figure.source),
                    .verdict = std::string(verdict_of(suite, compared))};
    if (!figure.is_at_least) series.limit->at_most = range.at_most;
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
  if (!result.varied.empty()) findings.sections.push_back(section_of_varied(suite, result));
}

}  // namespace refract::bench
