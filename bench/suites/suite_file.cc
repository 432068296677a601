// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>

#include "bench/bars/bars.h"
#include "bench/suite_texts.h"
#include "bench/suites/suite.h"
#include "bench/suites/suite_pulls.h"

#include "refract/documents/toml.h"

namespace refract::bench {
namespace {

using documents::Value;

// Reads the fields of one table and remembers the first thing that is wrong, so that callers look once.
class Fields {
 public:
  Fields(const Value& table, std::string path) : table_(table), path_(std::move(path)) {}

  template <typename T>
  void take(const char* name, T& field, bool is_needed = true) {
    known_.insert(name);
    const Value* node = table_.find(name);
    if (node == nullptr) {
      if (is_needed) refuse(table_, fmt::format("'{}' is missing", name));
      return;
    }
    if (!convert(*node, field)) refuse(*node, fmt::format("'{}' is not what it must be", name));
  }
  template <typename T>
  void may_take(const char* name, T& field) {
    take(name, field, /*is_needed=*/false);
  }
  [[nodiscard]] const Value* table(const char* name, bool is_needed) {
    known_.insert(name);
    const Value* node = table_.find(name);
    const Value* table = node != nullptr && node->is_object() ? node : nullptr;
    if (table == nullptr && (is_needed || node != nullptr))
      refuse(table_, fmt::format("[{}] is missing", name));
    return table;
  }
  // Calls `take_one` with the fields of each [[name]].
  template <typename TakeOne>
  void each(const char* name, TakeOne&& take_one) {
    known_.insert(name);
    const Value* node = table_.find(name);
    if (node == nullptr) return;
    if (!node->is_array()) return refuse(*node, fmt::format("[[{}]] is not a list of tables", name));
    for (const Value& entry : *node) {
      if (!entry.is_object()) return refuse(entry, fmt::format("[[{}]] is not a list of tables", name));
      Fields fields(entry, path_);
      take_one(fields);
      adopt(fields);
    }
  }
  // A misspelt name would silently leave a parameter at zero.
  void adopt(Fields& inner) {
    inner.refuse_unknown();
    if (!wrong_) wrong_ = inner.wrong_;
  }
  void refuse_unknown() {
    for (const auto& [name, node] : table_.members()) {
      if (!known_.contains(name)) {
        refuse(node, fmt::format("'{}' is no word of a suite", name));
      }
    }
  }
  void refuse(const Value& node, const std::string& what) {
    if (wrong_) return;
    wrong_ = Report{Code::kInvalidArgument, fmt::format("{}:{}: {}", path_, node.line(), what), {}};
  }
  void refuse(const std::string& what) { refuse(table_, what); }
  [[nodiscard]] const std::optional<Report>& wrong() const noexcept { return wrong_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] static bool convert(const Value& node, std::string& field) {
    if (node.is_text()) field = node.as_text();
    return node.is_text();
  }
  [[nodiscard]] static bool convert(const Value& node, bool& field) {
    if (node.is_bool()) field = node.as_bool();
    return node.is_bool();
  }
  [[nodiscard]] static bool convert(const Value& node, double& field) {
    const double number = node.is_number() ? node.as_number() : -1;
    if (!(number >= 0) || number > 1e12) return false;
    field = number;
    return true;
  }
  template <std::unsigned_integral T>
  [[nodiscard]] static bool convert(const Value& node, T& field) {
    const int64_t number = node.is_integer() ? node.as_integer() : -1;
    if (number < 0 || static_cast<uint64_t>(number) > std::numeric_limits<T>::max()) return false;
    field = static_cast<T>(number);
    return true;
  }
  template <typename T>
  [[nodiscard]] static bool convert(const Value& node, std::vector<T>& field) {
    if (!node.is_array()) return false;
    for (const Value& entry : node) {
      if (!convert(entry, field.emplace_back())) return false;
    }
    return true;
  }

  const Value& table_;
  std::string path_;
  std::set<std::string> known_;
  std::optional<Report> wrong_;
};

void take_testbed(Fields& fields, Testbed& testbed) {
  fields.take("port_gbit_per_s", testbed.port_gbit_per_s);
  fields.take("read_us", testbed.read_us);
  fields.take("read_bytes", testbed.read_bytes);
  fields.may_take("read_gap_us", testbed.read_gap_us);
  fields.take("packet_bytes_max", testbed.packet_bytes_max);
  fields.take("message_header_bytes", testbed.message_header_bytes);
  fields.take("one_sided_header_bytes", testbed.one_sided_header_bytes);
  fields.take("one_sided_request_bytes", testbed.one_sided_request_bytes);
  fields.take("client_hosts", testbed.client_hosts);
  if (testbed.packet_bytes_max == 0 || testbed.client_hosts == 0 || testbed.client_hosts > 1'000) {
    fields.refuse("packet_bytes_max and client_hosts are at least 1, the latter at most 1000");
  }
  if (testbed.port_gbit_per_s < 0.008) return fields.refuse("port_gbit_per_s is too little");
  const double wire_bytes =
      2.0 * testbed.one_sided_header_bytes + testbed.one_sided_request_bytes + testbed.read_bytes;
  if (testbed.read_us * 1e3 <= wire_bytes * 8 / testbed.port_gbit_per_s) {
    fields.refuse("read_us is less than the bytes of such a READ take on the wire");
  }
}

void take_cost(Fields& fields, const char* name, Cost& cost) {
  const Value* table = fields.table(name, /*is_needed=*/false);
  if (table == nullptr) return;
  Fields inner(*table, fields.path());
  inner.take("core_us", cost.core_us);
  inner.take("delay_us", cost.delay_us);
  fields.adopt(inner);
}

void take_system(Fields& fields, System& system) {
  fields.take("name", system.name);
  fields.take("design", system.design);
  fields.may_take("against", system.against);
  fields.may_take("cores", system.cores);
  fields.may_take("get_check_us", system.get_check_us);
  fields.may_take("skews", system.skews);
  take_cost(fields, "read", system.read);
  take_cost(fields, "chain", system.chain);
  take_cost(fields, "call", system.call);
  if (system.cores == 0) fields.refuse("a server has at least one core");
}

void take_sizes(Fields& fields, Load& load) {
  constexpr uint64_t kSizeMax = uint64_t{1} << 30;
  fields.take("operations", load.operations);
  fields.take("sizes", load.sizes);
  if (load.operations == 0 || load.sizes.empty() || std::ranges::min(load.sizes) == 0 ||
      std::ranges::max(load.sizes) > kSizeMax) {
    fields.refuse("operations are at least 1, and sizes are numbers from 1 to 1 GiB");
  }
}

void take_load(Fields& fields, Suite::Experiment experiment, Load& load) {
  if (experiment == Suite::Experiment::kPulls) return take_sizes(fields, load);
  fields.take("operations", load.operations);
  fields.take("value_bytes", load.value_bytes);
  if (load.operations == 0 || load.value_bytes == 0 || load.value_bytes > 32'768) {
    fields.refuse("operations and value_bytes are at least 1, the latter at most 32768");
  }
  if (experiment == Suite::Experiment::kChase) return;
  fields.take("keys", load.keys);
  fields.take("key_bytes", load.key_bytes);
  fields.take("spare", load.spare);
  fields.take("clients", load.clients);
  fields.take("run_us", load.run_us);
  if (load.keys == 0 || load.keys > 10'000'000 || load.key_bytes < 8 || load.key_bytes > 64 ||
      load.spare < 1 || load.spare > 100) {
    fields.refuse("keys are 1 to 10 million of 8 to 64 bytes, spare is 1 to 100");
  }
  if (load.run_us < 1 || load.clients.empty() || std::ranges::min(load.clients) == 0 ||
      std::ranges::max(load.clients) > 10'000) {
    fields.refuse("run_us is at least 1, and clients are numbers from 1 to 10000");
  }
}

void take_figure(Fields& fields, Figure& figure) {
  fields.take("what", figure.what);
  fields.take("system", figure.system);
  fields.may_take("place", figure.place);
  fields.may_take("over", figure.over);
  fields.take("paper", figure.paper);
  fields.take("source", figure.source);
  fields.may_take("because", figure.because);
  fields.may_take("within_times", figure.within_times);
  fields.may_take("is_at_least", figure.is_at_least);
  if (figure.within_times != 0 && (figure.within_times < 1 || figure.is_at_least)) {
    fields.refuse("within_times is at least 1, and not there with is_at_least");
  }
  if (figure.paper <= 0) fields.refuse("a paper's figure is above 0");
}

template <typename T>
bool is_named(const std::vector<T>& things, const std::string& name) {
  return std::ranges::any_of(things, [&name](const T& thing) { return thing.name == name; });
}

void check_pulls(Fields& fields, const Suite& suite) {
  for (const System& system : suite.systems) {
    if (!pull_design_of(system.design)) fields.refuse(fmt::format("no way to pull is '{}'", system.design));
    if (!system.against.empty() && !is_named(suite.systems, system.against))
      fields.refuse(fmt::format("no system is '{}'", system.against));
  }
  if (const Reported<PullCosts> costs = pull_costs_of(suite); !costs) fields.refuse(costs.error().what);
}

void check_names(Fields& fields, const Suite& suite) {
  if (suite.systems.empty()) fields.refuse("there is no [[system]]");
  if (suite.experiment == Suite::Experiment::kChase && suite.places.empty())
    fields.refuse("there is no [[place]]");
  if (suite.experiment == Suite::Experiment::kPulls) check_pulls(fields, suite);
  for (const Figure& figure : suite.figures) {
    if (!is_named(suite.systems, figure.system))
      fields.refuse(fmt::format("no system is '{}'", figure.system));
    if (!figure.over.empty() && !is_named(suite.systems, figure.over)) {
      fields.refuse(fmt::format("no system is '{}'", figure.over));
    }
    if (!figure.place.empty() && !is_named(suite.places, figure.place)) {
      fields.refuse(fmt::format("no place is '{}'", figure.place));
    }
  }
}

void take_claim(Fields& fields, Suite& suite) {
  suite.experiment = Suite::Experiment::kBars;
  fields.take("claim", suite.claim);
  fields.take("bars", suite.bars);
  fields.may_take("limits", suite.limits);
  if (suite.claim.empty() || suite.bars.empty()) fields.refuse("a claim and its bars are not empty");
  if (!suite.limits.empty() && suite.limits.size() != suite.bars.size()) {
    fields.refuse("limits are as many as bars, or none");
  }
  for (const std::string& name : suite.bars) {
    const bool is_known = std::ranges::find(bars(), name, &Bar::name) != bars().end();
    if (!is_known) fields.refuse(fmt::format("no bar is '{}'; docs/benchmarks.md names them all", name));
  }
  fields.refuse_unknown();
}

void take_suite(Fields& fields, Suite& suite) {
  std::string experiment;
  fields.take("name", suite.name);
  fields.take("title", suite.title);
  fields.take("experiment", experiment);
  if (experiment == "bars") return take_claim(fields, suite);
  fields.take("seed", suite.seed);
  fields.take("tolerance", suite.tolerance);
  fields.may_take("ratio_tolerance", suite.ratio_tolerance);
  if (experiment == "kv") {
    suite.experiment = Suite::Experiment::kKv;
  } else if (experiment == "txn") {
    suite.experiment = Suite::Experiment::kTxn;
  } else if (experiment == "pulls") {
    suite.experiment = Suite::Experiment::kPulls;
  } else if (experiment != "chase") {
    fields.refuse("experiment is 'chase', 'kv', 'txn', 'pulls' or 'bars'");
  }
  if (const Value* table = fields.table("testbed", /*is_needed=*/true)) {
    Fields inner(*table, fields.path());
    take_testbed(inner, suite.testbed);
    fields.adopt(inner);
  }
  if (const Value* table = fields.table("load", /*is_needed=*/true)) {
    Fields inner(*table, fields.path());
    take_load(inner, suite.experiment, suite.load);
    fields.adopt(inner);
  }
  fields.each("system", [&suite](Fields& each) { take_system(each, suite.systems.emplace_back()); });
  fields.each("place", [&suite](Fields& each) {
    Place& place = suite.places.emplace_back();
    each.take("name", place.name);
    each.take("adds_us", place.adds_us);
  });
  fields.each("cost", [&suite](Fields& each) {
    StepCost& cost = suite.costs.emplace_back();
    each.take("name", cost.name);
    each.take("value", cost.value);
    each.take("source", cost.source);
  });
  fields.each("figure", [&suite](Fields& each) { take_figure(each, suite.figures.emplace_back()); });
  check_names(fields, suite);
  fields.refuse_unknown();
}

}  // namespace

Reported<Suite> parse_suite(std::string_view text, const std::string& path) {
  const Reported<documents::Value> parsed = documents::parse_toml(text, path);
  if (!parsed) return report(parsed.error());
  Suite suite;
  Fields fields(*parsed, path);
  take_suite(fields, suite);
  if (fields.wrong()) return report(*fields.wrong());
  return suite;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const SuiteText& suite : kSuiteTexts) names.emplace_back(suite.name);
  return names;
}

Reported<Suite> read_suite(const std::string& name_or_path) {
  if (name_or_path.find_first_of("./") == std::string::npos) {
    std::string names;
    for (const SuiteText& suite : kSuiteTexts) {
      if (suite.name == name_or_path) return parse_suite(suite.text, name_or_path);
      names += fmt::format(" {}", suite.name);
    }
    return report(Code::kInvalidArgument, fmt::format("no suite is called '{}'", name_or_path),
                  fmt::format("there are{}; or name a file such as ./mine.toml", names));
  }
  const std::ifstream file(name_or_path);
  if (!file) {
    return report(Code::kInvalidArgument,
                  fmt::format("cannot read the suite {}: {}", name_or_path, errno_text(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_suite(text.str(), name_or_path);
}

void make_small(Suite& suite) noexcept {
  Load& load = suite.load;
  load.operations = std::min<uint64_t>(load.operations, 50);
  load.keys = std::min<uint64_t>(load.keys, 500);
  load.run_us = std::min(load.run_us, 40.0);
  std::erase_if(load.sizes, [&load](uint64_t bytes) {
    return bytes > (uint64_t{4} << 20) && bytes != load.sizes.front();
  });
  if (!load.clients.empty()) load.clients = {std::min<uint32_t>(load.clients.back(), 40)};
}

}  // namespace refract::bench
