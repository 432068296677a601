// SPDX-License-Identifier: Apache-2.0
// What a command of refract-bench found, in the one form that all of them write with --json and that the page
// is made from: sections of series, each a quantity of one side with its unit and its points.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/references.h"

#include "refract/base/report.h"
#include "refract/documents/value.h"

namespace refract::bench {

struct Point {
  double x = 0;                 // On the axis of the section; 0 where it has none.
  std::string place = {};       // x in words.
  std::vector<double> samples;  // One a turn.
  bool is_disturbed = false;    // It is no result then: in the tables, marked, and in no plot.
  std::string note = {};
};

// What a series is held against: its median is good from `at_least` to `at_most`.
struct Limit {
  std::optional<double> at_least = {};
  std::optional<double> at_most = {};
  std::string text = {};  // In words.
  std::string verdict = {};
};

struct Series {
  std::string what;           // "get", "operations a second": series of one name are in one plot.
  std::string name;           // "refract", "redis", "refract / redis".
  std::string unit = {};      // "ns", "/s", "B", "B/s", "x", ... or "".
  bool is_reference = false;  // Others are held against it, so its curve is dashed.
  std::vector<Point> points = {};
  std::optional<Limit> limit = {};
  std::vector<Detail> details = {};  // Single numbers beside the points.
  std::string note = {};
};

// References round a block, and which point or series they belong to.
struct NamedBlock {
  std::string of;
  Block block;
};

struct Gap {
  std::string what;       // That was not measured.
  std::string next = {};  // What would change that.
};

struct Section {
  std::string title = {};
  std::string how = {};   // What one must know to read the numbers.
  std::string axis = {};  // What x counts. It is logarithmic.
  std::vector<Series> series = {};
  std::vector<NamedBlock> blocks = {};
  std::vector<Gap> gaps = {};

  // That series, which is made when it is asked for first. Valid until the next is made.
  [[nodiscard]] Series& series_of(std::string_view what, std::string_view name, std::string_view unit);
  // A point without a place.
  Series& add(std::string_view what, std::string_view name, std::string_view unit,
              std::vector<double> samples);
};

struct Findings {
  std::string command;  // Of refract-bench.
  std::string title;
  documents::Value machine;  // Facts, each a member; likewise `facts`.
  documents::Value facts;    // What was asked for.
  std::vector<Section> sections = {};
};

// With the facts of this machine.
[[nodiscard]] Findings findings_here(std::string command, std::string title, documents::Value facts);

// docs/benchmarks.md explains the fields.
[[nodiscard]] std::string json_of(const Findings& findings);
// Fields that are missing or of another type are empty. Refuses what is no such JSON.
[[nodiscard]] Reported<Findings> read_findings(const std::string& json);

// A page that needs nothing but itself. Text stays text, whatever the findings hold.
[[nodiscard]] std::string page_of(const Findings& findings);
// Of what json_of wrote.
[[nodiscard]] Reported<std::string> html_of(const std::string& json);

// "1.2 us", "3 M/s", "0.5 x".
[[nodiscard]] std::string value_text(double value, std::string_view unit);
// "2 us (1 us..3 us)": median, lowest, highest.
[[nodiscard]] std::string spread_text(const std::vector<double>& samples, std::string_view unit);
// "512 B", "4 KiB", "1 MiB".
[[nodiscard]] std::string bytes_text(double bytes);

}  // namespace refract::bench
