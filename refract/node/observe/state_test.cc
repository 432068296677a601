// SPDX-License-Identifier: Apache-2.0
// What is said about a shard is understood as it was meant, and nonsense is not understood.
#include "refract/node/observe/state.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "refract/base/prng.h"
#include "refract/node/observe/metrics.h"

namespace refract::observe {
namespace {

ShardState example() {
  ShardState state{
      .identity = {UINT64_MAX, 2},
      .incarnation = 3,
      .shard_index = 1,
      .shard_count = 4,
      .process = 77,
      .now_ns = 1'000,
      .uptime_ns = 900,
      .cpu_ns = 800,
      .sleeps = 7,
      .operations = 6,
      .connections = 5,
      .uploads = 4,
      .views = 3,
      .waiting_for_memory = 2,
      .memory = {.total = 100,
                 .free = 50,
                 .live = 20,
                 .retired = 10,
                 .table = 5,
                 .largest_free_run = 40,
                 .pins = 1},
      .entries = {.count = 9, .expiring = 8, .expired = 7, .buckets = 6, .overflow_lines = 5, .splits = 4},
      .batches = 12,
      .batch_ns = {},
      .batch_calls = {},
      .methods = {},
      .data =
          {.durability = "always",
           .backing = "memfd:",
           .folder = "/srv/r",
           .ring = "memory",
           .log = {.state = "failed",
                   .trouble = "no \"room\"",
                   .unsynced_bytes = 1,
                   .syncs = 2,
                   .last_sync_age_ns = 3,
                   .disk_bytes = 4,
                   .since_snapshot_bytes = 5,
                   .refused_writes = 6},
           .snapshots = {.begun = 11,
                         .ended = 10,
                         .entries_now = 12,
                         .entries_max = 13,
                         .bytes_now = 14,
                         .file = "/srv/r/s",
                         .written_attempt = 9,
                         .entries = 15,
                         .bytes = 16,
                         .took_ns = 17,
                         .age_ns = 18,
                         .failed_attempt = 10,
                         .failed_age_ns = 19,
                         .failed_why = "full",
                         .failed_next = "make room"},
           .recovery = {.source = "disk", .entries = 20, .records = 21, .torn_position = 22, .took_ns = 23}},
      .counters = {{"rpc.calls", 17}}};
  state.batch_ns.record(5'000);
  state.batch_calls.record_n(16, 3);
  state.methods.push_back({.name = "put", .calls = 1'000, .service_ns = {}});
  state.methods[0].service_ns.record_n(300, 999);
  state.methods[0].service_ns.record(70'000);
  return state;
}

TEST(ObserveState, a_shard_s_state_survives_the_trip) {
  const ShardState sent = example();
  const auto got = shard_state_of(to_json(sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->identity, sent.identity);
  EXPECT_EQ(got->incarnation, 3u);
  // Every word of it, through a second trip: what one of the two ways left out would be missing there.
  EXPECT_EQ(to_json(*got), to_json(sent));
  EXPECT_EQ(got->data.log.trouble, "no \"room\"");
  EXPECT_EQ(got->data.log.refused_writes, 6u);
  EXPECT_EQ(got->data.snapshots.written_attempt, 9u);
  EXPECT_EQ(got->data.snapshots.failed_next, "make room");
  EXPECT_EQ(got->data.recovery.took_ns, 23u);
  EXPECT_EQ(got->shard_index, 1u);
  EXPECT_EQ(got->shard_count, 4u);
  EXPECT_EQ(got->process, 77u);
  EXPECT_EQ(got->now_ns, 1'000u);
  EXPECT_EQ(got->uptime_ns, 900u);
  EXPECT_EQ(got->cpu_ns, 800u);
  EXPECT_EQ(got->sleeps, 7u);
  EXPECT_EQ(got->operations, 6u);
  EXPECT_EQ(got->connections, 5u);
  EXPECT_EQ(got->uploads, 4u);
  EXPECT_EQ(got->views, 3u);
  EXPECT_EQ(got->waiting_for_memory, 2u);
  EXPECT_EQ(got->memory.total, 100u);
  EXPECT_EQ(got->memory.free, 50u);
  EXPECT_EQ(got->memory.live, 20u);
  EXPECT_EQ(got->memory.retired, 10u);
  EXPECT_EQ(got->memory.table, 5u);
  EXPECT_EQ(got->memory.largest_free_run, 40u);
  EXPECT_EQ(got->memory.pins, 1u);
  EXPECT_EQ(got->entries.count, 9u);
  EXPECT_EQ(got->entries.splits, 4u);
  EXPECT_EQ(got->batches, 12u);
  EXPECT_EQ(got->batch_ns.count(), 1u);
  EXPECT_EQ(got->batch_calls.quantile(0.5), 16u);
  ASSERT_EQ(got->methods.size(), 1u);
  EXPECT_EQ(got->methods[0].name, "put");
  EXPECT_EQ(got->methods[0].calls, 1'000u);
  EXPECT_EQ(got->methods[0].service_ns.count(), 1'000u);
  EXPECT_EQ(got->methods[0].service_ns.quantile(0.5), sent.methods[0].service_ns.quantile(0.5));
  EXPECT_EQ(got->counters, sent.counters);
}

TEST(ObserveState, connections_survive_the_trip_whatever_their_names) {
  ConnectionPage page{.connections = {}, .next = 9};
  page.connections.push_back({.place = 4,
                              .transport = "tcp",
                              .peer = "\"quoted\" \xff",
                              .reason = "because",
                              .age_ns = 1,
                              .idle_ns = 2,
                              .calls = 3,
                              .received_bytes = 4,
                              .sent_bytes = 5,
                              .in_flight = 6,
                              .waiting_replies = 7});
  const auto got = connection_page_of(to_json(page));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->next, 9u);
  ASSERT_EQ(got->connections.size(), 1u);
  const ConnectionState& one = got->connections[0];
  EXPECT_EQ(one.place, 4u);
  EXPECT_EQ(one.transport, "tcp");
  EXPECT_TRUE(one.peer.starts_with("\"quoted\" "));
  EXPECT_EQ(one.reason, "because");
  EXPECT_EQ(one.age_ns + one.idle_ns + one.calls + one.received_bytes + one.sent_bytes, 15u);
  EXPECT_EQ(one.in_flight, 6u);
  EXPECT_EQ(one.waiting_replies, 7u);
}

TEST(ObserveState, what_another_version_says_less_is_nothing_and_nonsense_is_refused) {
  const auto empty = shard_state_of("{}");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->incarnation, 0u);
  EXPECT_TRUE(empty->methods.empty());
  for (const char* text : {"", "[]", "7", "{\"incarnation\":", "\xff", "null"}) {
    EXPECT_EQ(shard_state_of(text).error().code, Code::kMalformed) << text;
    EXPECT_EQ(connection_page_of(text).error().code, Code::kMalformed) << text;
  }
  const auto odd = shard_state_of(
      R"({"incarnation": -1, "process": "x", "memory": 7, "identity": [1], "methods": [7, {"calls": {}}],
          "batch_ns": [[1], [2, -3], 4, [5, 6]], "counters": {"a": "b", "c": 1}})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->incarnation, 0u);
  EXPECT_EQ(odd->batch_ns.count(), 6u);
  EXPECT_EQ(odd->methods.size(), 1u);
  EXPECT_EQ(odd->counters.size(), 1u);
  EXPECT_FALSE(connection_page_of("{\"next\": 1}"));
}

TEST(ObserveState, damaged_texts_end_in_a_state_or_a_refusal) {
  Prng prng(11);
  const std::string whole = to_json(example());
  int understood = 0;
  for (int round = 0; round < 2'000; ++round) {
    std::string text = whole;
    for (uint64_t i = 1 + prng.below(4); i > 0; --i) {
      text[prng.below(text.size())] = static_cast<char>(prng.next());
    }
    understood += shard_state_of(text).has_value() ? 1 : 0;
    understood += shard_state_of(whole.substr(0, prng.below(whole.size()))).has_value() ? 1 : 0;
  }
  EXPECT_GT(understood, 0);
  EXPECT_LT(understood, 2'000);
}

// When it fails: REFRACT_ACCEPT=1 observe_test --gtest_filter='*metrics_page*' writes the page's section.
TEST(ObserveMetrics, the_metrics_page_is_the_table) {
  const std::string begin = "<!-- metrics -->\n";
  const std::string end = "<!-- end of metrics -->";
  const std::filesystem::path path = std::filesystem::path(REFRACT_SOURCE_DIR) / "docs/formats/observe.md";
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  std::string page = read.str();
  const size_t at = page.find(begin);
  const size_t to = page.find(end);
  ASSERT_NE(at, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::string section = page.substr(at + begin.size(), to - at - begin.size());
  if (std::getenv("REFRACT_ACCEPT") != nullptr) {
    page.replace(at + begin.size(), section.size(), metrics_page());
    std::ofstream(path) << page;
    return;
  }
  EXPECT_EQ(section, metrics_page());
}

template <typename State>
void expect_sound_rows() {
  std::set<std::string_view> names;
  for (const Row<State>& row : rows<State>()) {
    EXPECT_TRUE(names.insert(row.metric.name).second) << row.metric.name << " twice";
    EXPECT_TRUE(row.metric.sentence.ends_with('.')) << row.metric.name;
    const bool says_ns = row.metric.name.ends_with("_ns");
    EXPECT_EQ(says_ns, row.metric.unit == Unit::kNanoseconds) << row.metric.name;
  }
}

TEST(ObserveMetrics, each_row_has_a_name_of_its_own_and_a_sentence) {
  expect_sound_rows<ShardState>();
  expect_sound_rows<MemoryState>();
  expect_sound_rows<EntriesState>();
  expect_sound_rows<DataState>();
  expect_sound_rows<LogStatus>();
  expect_sound_rows<SnapshotStatus>();
  expect_sound_rows<RecoveryStatus>();
  expect_sound_rows<ConnectionState>();
  static_assert(sizeof(MemoryState) == 7 * sizeof(uint64_t) && sizeof(EntriesState) == 6 * sizeof(uint64_t));
  EXPECT_EQ(rows<MemoryState>().size(), 7U);
  EXPECT_EQ(rows<EntriesState>().size(), 6U);
}

TEST(ObserveMetrics, of_several_shards_numbers_are_added_and_the_largest_counts) {
  MemoryState sum = {.total = 1, .live = 2, .largest_free_run = 30};
  add(sum, {.total = 10, .live = 20, .largest_free_run = 3});
  EXPECT_EQ(sum.total, 11U);
  EXPECT_EQ(sum.live, 22U);
  EXPECT_EQ(sum.largest_free_run, 30U);
}

}  // namespace
}  // namespace refract::observe
