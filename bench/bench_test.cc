// SPDX-License-Identifier: Apache-2.0
// The parts of the bench whose errors would make a number wrong without a sign of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/bars/bars_results.h"
#include "bench/load/entry.h"
#include "bench/load/open_addressing.h"
#include "bench/load/zipf.h"
#include "bench/measure/pointer_chase.h"
#include "bench/measure/tcp_echo.h"
#include "bench/report/command.h"
#include "bench/report/findings.h"

namespace refract::bench {
namespace {

const Bar& bar_named(std::string_view name) {
  for (const Bar& bar : bars()) {
    if (bar.name == name) return bar;
  }
  ADD_FAILURE() << "no bar is called " << name;
  return bars()[0];
}

TEST(Spread, is_of_the_samples_whatever_their_order) {
  const Spread odd = spread_of({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(spread_of({}).median, 0);
}

TEST(Samples, quantiles_are_of_what_was_recorded_last) {
  Samples samples(101);
  for (uint64_t i = 0; i < 101; ++i) samples.record(7);
  samples.clear();
  for (uint64_t i = 101; i-- > 0;) samples.record(i);
  samples.record(1'000'000);  // There is no room for it.
  EXPECT_EQ(samples.quantile_ticks(0.5), 50);
  EXPECT_EQ(samples.quantile_ticks(1), 100);
}

TEST(Drift, is_the_larger_of_both_ratios_in_either_direction) {
  Reference calm;
  calm.ping_pong_ns = 100;
  calm.tcp_polling_ns = 8'000;
  calm.tcp_blocking_ns = 60'000;
  calm.memcpy_gb_per_s = 50;
  Reference later = calm;
  EXPECT_EQ(drift(calm, later), 0);
  later.ping_pong_ns = 150;
  EXPECT_DOUBLE_EQ(drift(calm, later), 0.5);
  EXPECT_DOUBLE_EQ(drift(later, calm), 0.5);
  later.memcpy_gb_per_s = 25;
  EXPECT_DOUBLE_EQ(drift(calm, later), 1);
}

TEST(Drift, over_tcp_is_that_of_tcp) {
  Reference calm;
  calm.ping_pong_ns = 100;
  calm.tcp_polling_ns = 8'000;
  Reference later = calm;
  later.ping_pong_ns = 500;
  EXPECT_EQ(drift(calm, later, Over::kTcp), 0);
  later.tcp_polling_ns = 12'000;
  EXPECT_DOUBLE_EQ(drift(calm, later, Over::kTcp), 0.5);
  EXPECT_DOUBLE_EQ(drift(calm, later), 4);
}

TEST(Verdict, follows_the_median_and_the_sense_of_the_bar) {
  Outcome outcome;
  EXPECT_EQ(judge(bar_named("get-throughput"), outcome), Verdict::kNotMeasured);
  outcome.samples = {0.1, 0.55, 0.6};
  EXPECT_EQ(judge(bar_named("get-throughput"), outcome), Verdict::kHolds);
  outcome.is_disturbed = true;
  EXPECT_EQ(judge(bar_named("get-throughput"), outcome), Verdict::kDisturbed);
  outcome.is_disturbed = false;
  outcome.samples = {0.1, 0.2, 0.5};
  EXPECT_EQ(judge(bar_named("get-throughput"), outcome), Verdict::kFallsShort);
  EXPECT_EQ(judge(bar_named("get-latency"), outcome), Verdict::kHolds);
  outcome.samples = {1.4};
  EXPECT_EQ(judge(bar_named("get-latency"), outcome), Verdict::kFallsShort);
  EXPECT_EQ(judge(bar_named("door-mset"), outcome), Verdict::kShown);
}

TEST(Bars, stand_once_each_in_the_order_of_their_files) {
  std::vector<std::string_view> names;
  for (const Bar& bar : bars()) names.push_back(bar.name);
  const auto place = [&names](std::string_view name) {
    return std::ranges::find(names, name) - names.begin();
  };
  EXPECT_LT(place("chain-get"), place("idle"));
  EXPECT_LT(place("idle"), place("sim-prism-get"));
  EXPECT_LT(place("sim-prism-get"), place("view"));
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Turns, have_a_first_that_does_not_count_and_details_that_are_medians) {
  const Timer timer = Timer::calibrate();
  const Reported<std::unique_ptr<References>> references = References::start(timer);
  ASSERT_TRUE(references) << references.error().what;
  BarRun run{.options = {.alternations = 3, .attempts = 1, .node_program = {}},
             .timer = timer,
             .references = **references};
  const auto turn_of = [](uint64_t turn) {
    return ratio_of(
        {.ours = {"ours", 2.0 * static_cast<double>(turn)}, .theirs = {"theirs", 2.0}, .unit = "ns"});
  };
  const Reported<Outcome> warm = in_turns(run, "so", turn_of);
  ASSERT_TRUE(warm) << warm.error().what;
  EXPECT_EQ(warm->samples, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(warm->details.at(0).value, 4);
  EXPECT_EQ(warm->details.at(1).name, "theirs");
  EXPECT_TRUE(warm->note.starts_with("so"));
  const Reported<Outcome> few = in_turns(run, "so", turn_of, {.turns_max = 2, .warms_up = false});
  ASSERT_TRUE(few) << few.error().what;
  EXPECT_EQ(few->samples, (std::vector<double>{0, 1}));
  EXPECT_FALSE(in_turns(run, "so", [](uint64_t) { return Reported<Turn>(report(Code::kCorrupt, "no")); }));
}

TEST(Commands, are_those_of_all_rooms) {
  std::vector<std::string> names;
  for (const BenchCommand* command : bench_commands()) names.push_back(command->name());
  EXPECT_EQ(names, (std::vector<std::string>{"bars", "fabric", "growth", "kv", "object-mpi", "report",
                                             "suite", "txn"}));
}

TEST(OpenAddressing, returns_what_was_put_under_each_key_and_nothing_else) {
  Reported<OpenAddressing> table = OpenAddressing::create(1'000);
  ASSERT_TRUE(table) << table.error().what;
  for (uint64_t i = 0; i < 1'000; ++i) table->put(Key::of(i), Value::of(i));
  for (uint64_t i = 0; i < 2'000; ++i) {
    Value value = Value::of(0);
    EXPECT_EQ(table->get(Key::of(i), value), i < 1'000);
    EXPECT_TRUE(value.is_of(i < 1'000 ? i : 0));
  }
}

TEST(PointerChase, walks_all_lines_before_it_comes_back) {
  const size_t bytes = size_t{2} << 20;
  Reported<PointerChase> chase = PointerChase::create(bytes, Pages::kSmall);
  ASSERT_TRUE(chase) << chase.error().what;
  uint64_t line = chase->next(0);
  size_t steps = 1;
  for (; line != 0 && steps <= bytes / 64; ++steps) line = chase->next(line);
  EXPECT_EQ(steps, bytes / 64);
}

TEST(KeyPicker, prefers_few_keys_under_zipf_and_none_when_uniform) {
  constexpr uint64_t kKeys = 1'000;
  constexpr int kPicks = 200'000;
  for (const double skew : {0.0, 0.99}) {
    KeyPicker picker(kKeys, skew, 5);
    std::vector<int> counts(kKeys);
    for (int i = 0; i < kPicks; ++i) {
      const uint64_t key = picker.next();
      ASSERT_LT(key, kKeys);
      ++counts[key];
    }
    const int most = *std::ranges::max_element(counts);
    // The first rank of Zipf 0.99 over 1000 keys has 13 % of all picks; uniform, each has 0.1 %.
    if (skew > 0) {
      EXPECT_NEAR(most, kPicks * 0.13, kPicks * 0.02);
    } else {
      EXPECT_LT(most, kPicks / 500);
    }
  }
}

TEST(Results, become_json_and_a_page_that_shows_text_as_text) {
  BarResult result{.bar = &bar_named("get-throughput"), .outcome = {}, .verdict = Verdict::kHolds};
  result.outcome.samples = {0.41, 0.43, 0.47};
  result.outcome.note = "<script> & \"quotes\" \xff";
  result.outcome.blocks.push_back({});
  const std::string text = json_of(findings_of({result}));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  const auto& series = json["sections"][0]["series"][0];
  EXPECT_EQ(series["name"], "get-throughput");
  EXPECT_EQ(series["points"][0]["median"], 0.43);
  EXPECT_EQ(series["limit"]["at_least"], result.bar->limit);
  EXPECT_EQ(series["limit"]["verdict"], "holds");

  const Reported<std::string> page = html_of(text);
  ASSERT_TRUE(page) << page.error().what;
  EXPECT_EQ(page->find("<script>"), std::string::npos);
  EXPECT_NE(page->find("&lt;script&gt; &amp; &quot;quotes&quot;"), std::string::npos);
  EXPECT_NE(page->find("<svg"), std::string::npos);
  EXPECT_EQ(page->find("http"), std::string::npos) << "the page needs nothing but itself";
}

TEST(TcpEcho, answers_in_both_modes_one_after_the_other) {
  const Reported<std::unique_ptr<TcpEcho>> echo = TcpEcho::start();
  ASSERT_TRUE(echo) << echo.error().what;
  Samples samples(50);
  for (const TcpEcho::Mode mode :
       {TcpEcho::Mode::kPolling, TcpEcho::Mode::kBlocking, TcpEcho::Mode::kPolling}) {
    ASSERT_TRUE((*echo)->ping_pong(mode, 50, samples));
    EXPECT_EQ(samples.count(), 50u);
    EXPECT_GT(samples.quantile_ticks(0), 0u);
  }
  EXPECT_GT((*echo)->wake_up(), 0u);
}

TEST(Page, refuses_what_is_no_result) {
  for (const char* text : {"", "{", "[]", "{}", R"({"format":"other"})"}) {
    const Reported<std::string> page = html_of(text);
    ASSERT_FALSE(page) << text;
    EXPECT_EQ(page.error().code, Code::kMalformed);
  }
}

// Whatever a field is, where it is another type it counts as empty.
TEST(Page, survives_fields_of_other_types) {
  for (const char* sections :
       {"3", "[1, {}]", R"([{"series":[1,{"points":3,"limit":[],"details":[4]}],"blocks":[5,{"before":6}]}])",
        R"([{"series":[{"points":[7,{"x":"y","samples":"z"}]}],"not_measured":[8,{"what":9}]}])",
        R"([{"series":[{"points":[{"x":1e300,"samples":[1e300]},{"x":-1,"samples":[-1,"a"]}]}]}])",
        R"([{"series":[{"limit":{"at_least":"b","text":1},"points":[{"samples":[0]}]}]}])"}) {
    EXPECT_TRUE(html_of(std::string(R"({"format":"refract-findings-1","machine":[],"facts":2,"sections":)") +
                        sections + "}"))
        << sections;
  }
}

// What is read back is what was written, so a page made from a file is the page of the findings.
TEST(Findings, come_back_from_json_as_they_were) {
  Findings findings = findings_here("kv", "load <here>", {{"keys", 5}});
  Section section{.title = "sizes", .how = "in turns", .axis = "bytes"};
  Series& ours = section.series_of("get", "ours", "ns");
  ours.points.push_back({.x = 64, .place = "64 B", .samples = {100, 300, 200}});
  ours.points.push_back({.x = 128, .place = "128 B", .samples = {400}, .is_disturbed = true, .note = "busy"});
  ours.limit = {.at_least = 1.0, .at_most = 2.0, .text = "one to two", .verdict = "holds"};
  ours.details = {{"trips", 2, "a get"}};
  section.series_of("get", "theirs", "ns").is_reference = true;
  section.blocks.push_back({.of = "64 B", .block = {.before = {.ping_pong_ns = 7}, .after = {}}});
  section.gaps.push_back({.what = "puts", .next = "ask for them"});
  findings.sections.push_back(section);

  const std::string text = json_of(findings);
  const Reported<Findings> read = read_findings(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(json_of(*read).size(), text.size());
  EXPECT_EQ(page_of(*read), *html_of(text));
  const Series& back = read->sections.at(0).series.at(0);
  EXPECT_EQ(back.points.at(0).samples, (std::vector<double>{100, 300, 200}));
  EXPECT_TRUE(back.points.at(1).is_disturbed);
  EXPECT_EQ(back.points.at(1).note, "busy");
  EXPECT_EQ(back.limit.value_or(Limit{}).at_most, 2.0);
  EXPECT_EQ(read->sections[0].blocks.at(0).block.before.ping_pong_ns, 7);
  EXPECT_EQ(read->sections[0].gaps.at(0).next, "ask for them");
  EXPECT_TRUE(read->sections[0].series.at(1).is_reference);
}

TEST(Findings, a_series_is_made_once_and_found_by_quantity_and_name) {
  Section section;
  section.add("get", "ours", "ns", {1});
  section.add("get", "theirs", "ns", {2});
  section.add("get", "ours", "ns", {3});
  ASSERT_EQ(section.series.size(), 2u);
  EXPECT_EQ(section.series[0].points.size(), 2u);
}

TEST(ValueText, has_the_unit_that_people_read) {
  EXPECT_EQ(value_text(1'500, "ns"), "1.5 us");
  EXPECT_EQ(value_text(2e6, "/s"), "2 M/s");
  EXPECT_EQ(value_text(3e9, "B/s"), "3 GB/s");
  EXPECT_EQ(value_text(4'096, "B"), "4 KiB");
  EXPECT_EQ(value_text(0.5, "x"), "0.5 x");
  EXPECT_EQ(spread_text({3, 1, 2}, "x"), "2 x (1 x..3 x)");
  EXPECT_EQ(spread_text({2}, ""), "2");
}

}  // namespace
}  // namespace refract::bench
