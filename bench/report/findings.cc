// SPDX-License-Identifier: Apache-2.0
#include "bench/report/findings.h"

#include <algorithm>
#include <utility>

#include "bench/measure/machine.h"

#include "refract/documents/json.h"

namespace refract::bench {
namespace {

using Json = documents::Value;

constexpr std::string_view kFormat = "refract-findings-1";

// The fields of an object in a file of any origin: an empty value where one is missing or of another type.
std::string text_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_text() ? found->as_text() : std::string();
}

double number_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_number() ? found->as_number() : 0;
}

bool flag_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_bool() && found->as_bool();
}

Json list_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_array() ? *found : Json::array();
}

Json object_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_object() ? *found : Json::object();
}

std::vector<Json> objects_in(const Json& object, const char* name) {
  std::vector<Json> objects;
  for (const Json& each : list_in(object, name)) {
    if (each.is_object()) objects.push_back(each);
  }
  return objects;
}

Json json_of(const Reference& reference) {
  return {{"ping_pong_ns", reference.ping_pong_ns},
          {"tcp_polling_ns", reference.tcp_polling_ns},
          {"tcp_blocking_ns", reference.tcp_blocking_ns},
          {"memcpy_gb_per_s", reference.memcpy_gb_per_s},
          {"load", reference.load},
          {"steal_percent", reference.steal_percent}};
}

Reference read_reference(const Json& json) {
  Reference reference;
  reference.ping_pong_ns = number_in(json, "ping_pong_ns");
  reference.tcp_polling_ns = number_in(json, "tcp_polling_ns");
  reference.tcp_blocking_ns = number_in(json, "tcp_blocking_ns");
  reference.memcpy_gb_per_s = number_in(json, "memcpy_gb_per_s");
  reference.load = number_in(json, "load");
  reference.steal_percent = number_in(json, "steal_percent");
  return reference;
}

Json json_of(const Machine& machine) {
  return {{"commit", machine.commit}, {"compiler", machine.compiler}, {"cpu", machine.cpu},
          {"cores", machine.cores},   {"kernel", machine.kernel},     {"pages", machine.pages},
          {"memory", machine.memory}, {"date", machine.date}};
}

// `write` of each, in their order.
template <typename Each, typename Write>
Json list_of(const std::vector<Each>& all, Write write) {
  Json list = Json::array();
  for (const Each& each : all) list.push_back(write(each));
  return list;
}

Json json_of(const Point& point) {
  const Spread spread = spread_of(point.samples);
  return {{"x", point.x},
          {"place", point.place},
          {"median", spread.median},
          {"min", spread.min},
          {"max", spread.max},
          {"samples", point.samples},
          {"is_disturbed", point.is_disturbed},
          {"note", point.note}};
}

Point read_point(const Json& json) {
  Point point{.x = number_in(json, "x"),
              .place = text_in(json, "place"),
              .samples = {},
              .is_disturbed = flag_in(json, "is_disturbed"),
              .note = text_in(json, "note")};
  for (const Json& sample : list_in(json, "samples")) {
    if (sample.is_number()) point.samples.push_back(sample.as_number());
  }
  return point;
}

Json json_of(const Limit& limit) {
  Json json = {{"text", limit.text}, {"verdict", limit.verdict}};
  if (limit.at_least) json["at_least"] = *limit.at_least;
  if (limit.at_most) json["at_most"] = *limit.at_most;
  return json;
}

Limit read_limit(const Json& json) {
  const auto side = [&json](const char* name) {
    const Json* found = json.find(name);
    return found != nullptr && found->is_number() ? std::optional(found->as_number()) : std::nullopt;
  };
  return {.at_least = side("at_least"),
          .at_most = side("at_most"),
          .text = text_in(json, "text"),
          .verdict = text_in(json, "verdict")};
}

Json json_of(const Series& series) {
  Json json = {{"what", series.what},
               {"name", series.name},
               {"unit", series.unit},
               {"is_reference", series.is_reference},
               {"points", list_of(series.points, [](const Point& point) { return json_of(point); })}};
  if (series.limit) json["limit"] = json_of(*series.limit);
  json["details"] = list_of(series.details, [](const Detail& detail) {
    return Json{{"name", detail.name}, {"value", detail.value}, {"unit", detail.unit}};
  });
  json["note"] = series.note;
  return json;
}

Series read_series(const Json& json) {
  Series series{.what = text_in(json, "what"),
                .name = text_in(json, "name"),
                .unit = text_in(json, "unit"),
                .is_reference = flag_in(json, "is_reference"),
                .note = text_in(json, "note")};
  for (const Json& point : objects_in(json, "points")) series.points.push_back(read_point(point));
  if (const Json limit = object_in(json, "limit"); !limit.empty()) series.limit = read_limit(limit);
  for (const Json& detail : objects_in(json, "details")) {
    series.details.push_back({text_in(detail, "name"), number_in(detail, "value"), text_in(detail, "unit")});
  }
  return series;
}

Json json_of(const Section& section) {
  return {{"title", section.title},
          {"how", section.how},
          {"axis", section.axis},
          {"series", list_of(section.series, [](const Series& series) { return json_of(series); })},
          {"blocks", list_of(section.blocks,
                             [](const NamedBlock& named) {
                               return Json{{"of", named.of},
                                           {"accepted", named.block.accepted},
                                           {"before", json_of(named.block.before)},
                                           {"after", json_of(named.block.after)}};
                             })},
          {"not_measured", list_of(section.gaps, [](const Gap& gap) {
             return Json{{"what", gap.what}, {"next", gap.next}};
           })}};
}

Section read_section(const Json& json) {
  Section section{
      .title = text_in(json, "title"), .how = text_in(json, "how"), .axis = text_in(json, "axis")};
  for (const Json& series : objects_in(json, "series")) section.series.push_back(read_series(series));
  for (const Json& named : objects_in(json, "blocks")) {
    section.blocks.push_back({.of = text_in(named, "of"),
                              .block = {.before = read_reference(object_in(named, "before")),
                                        .after = read_reference(object_in(named, "after")),
                                        .accepted = flag_in(named, "accepted")}});
  }
  for (const Json& gap : objects_in(json, "not_measured")) {
    section.gaps.push_back({text_in(gap, "what"), text_in(gap, "next")});
  }
  return section;
}

}  // namespace

Series& Section::series_of(std::string_view what, std::string_view name, std::string_view unit) {
  const auto found = std::ranges::find_if(
      series, [&](const Series& each) { return each.what == what && each.name == name; });
  if (found != series.end()) return *found;
  return series.emplace_back(
      Series{.what = std::string(what), .name = std::string(name), .unit = std::string(unit)});
}

Series& Section::add(std::string_view what, std::string_view name, std::string_view unit,
                     std::vector<double> samples) {
  Series& added = series_of(what, name, unit);
  added.points.push_back({.samples = std::move(samples)});
  return added;
}

Findings findings_here(std::string command, std::string title, Json facts) {
  return {.command = std::move(command),
          .title = std::move(title),
          .machine = json_of(this_machine()),
          .facts = std::move(facts)};
}

std::string json_of(const Findings& findings) {
  return documents::to_json_page(
      {{"format", kFormat},
       {"command", findings.command},
       {"title", findings.title},
       {"machine", findings.machine},
       {"facts", findings.facts},
       {"sections", list_of(findings.sections, [](const Section& each) { return json_of(each); })}});
}

Reported<Findings> read_findings(const std::string& json) {
  const Json run = documents::parse_json(json).value_or(Json());
  if (!run.is_object() || text_in(run, "format") != kFormat) {
    return report(Code::kMalformed, "this is not what a command of refract-bench writes with --json");
  }
  Findings findings{.command = text_in(run, "command"),
                    .title = text_in(run, "title"),
                    .machine = object_in(run, "machine"),
                    .facts = object_in(run, "facts")};
  for (const Json& section : objects_in(run, "sections")) findings.sections.push_back(read_section(section));
  return findings;
}

}  // namespace refract::bench
