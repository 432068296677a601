// SPDX-License-Identifier: Apache-2.0
// What a recording says when it is printed, and what a get's looks at the node's memory say.
#include "apps/refract/top/trace_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/layout/wire.h"
#include "refract/kv/testing/test_space.h"

namespace refract::cli {
namespace {

using observe::wire::TraceKind;
using observe::wire::TraceRecord;

constexpr auto kPut = static_cast<uint16_t>(kv::wire::Method::kPut);

TraceRecord record(uint64_t ns, TraceKind kind, uint64_t call, uint16_t method = 0) {
  return {.ns = ns,
          .session = 5,
          .call = call,
          .bytes = 100,
          .method = method,
          .kind = static_cast<uint8_t>(kind),
          .code = 0};
}

// Two puts in one batch, the second of them answered only in the next; and a reader that looks.
ShardRecording example() {
  ShardRecording one{.shard = 1, .recording = {}};
  one.recording.header = {.started_ns = 1'000'000, .ended_ns = 2'000'000, .records = 9, .lost = 4};
  one.recording.records = {record(1'001'000, TraceKind::kBatch, 2),
                           record(1'001'000, TraceKind::kCall, 10, kPut),
                           record(1'001'000, TraceKind::kCall, 11, kPut),
                           record(1'001'500, TraceKind::kReply, 10, kPut),
                           record(1'002'000, TraceKind::kWorked, 2),
                           record(1'500'000, TraceKind::kBatch, 1),
                           record(1'500'000, TraceKind::kCall, 12, observe::wire::kMethodsBegin),
                           record(1'600'000, TraceKind::kReply, 11, kPut),
                           record(1'700'000, TraceKind::kWorked, 1)};
  one.recording.records[7].code = static_cast<uint8_t>(Code::kNoSpace);
  return one;
}

TEST(TraceText, each_call_is_a_line_from_its_arrival_to_its_answer) {
  const ShardRecording one = example();
  const std::vector<observe::Event> events = {{.ns = 999'999, .text = "before"},
                                              {.ns = 1'400'000, .text = "thread 1: shard sleeps"}};
  const std::string text = trace_lines({&one, 1}, events);
  for (const char* wanted :
       {"0.000001 s  shard 1  put", "answered in   500 ns  ok", "answered in 599.0 us  no_space",
        "batch of 2", "thread 1: shard sleeps", "2 calls in 1 batches", "4 older records"}) {
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  }
  EXPECT_EQ(text.find("observe"), std::string::npos) << "who looks is not shown";
  EXPECT_EQ(text.find("before"), std::string::npos);
}

TEST(TraceText, a_call_without_an_answer_is_said_to_have_none) {
  ShardRecording one = example();
  one.recording.records.resize(3);
  const std::string text = trace_lines({&one, 1}, {});
  EXPECT_NE(text.find("not answered while this was recorded"), std::string::npos);
  EXPECT_NE(text.find("2 of them not answered yet"), std::string::npos);
  EXPECT_NE(trace_lines({}, {}).find("0 calls"), std::string::npos);
}

TEST(TraceText, the_viewer_s_form_has_a_row_a_shard_and_a_span_a_batch_and_a_call) {
  const ShardRecording one = example();
  const std::vector<observe::Event> events = {{.ns = 1'400'000, .text = "thread 1: \"quoted\""}};
  const auto json = nlohmann::json::parse(trace_for_viewer({&one, 1}, events));
  const auto& rows = json["traceEvents"];
  const auto count = [&](const char* phase, const char* category) {
    return std::count_if(rows.begin(), rows.end(), [&](const nlohmann::json& row) {
      return row["ph"] == phase && row.value("cat", "") == category;
    });
  };
  EXPECT_EQ(count("M", ""), 1);
  EXPECT_EQ(count("X", "batch"), 1);
  EXPECT_EQ(count("X", "call"), 2);
  EXPECT_EQ(count("i", "event"), 1);
  for (const auto& row : rows) {
    if (row["ph"] != "X") continue;
    EXPECT_EQ(row["tid"], 1);
    EXPECT_GE(row["ts"], 0.0);
    EXPECT_GE(row["dur"], 0.0);
  }
}

TEST(TraceText, a_get_s_looks_say_what_it_learnt_from_each) {
  kv::test::Space space;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        space.table().put(kv::test::bytes_of("key" + std::to_string(i)), kv::test::bytes_of("value"), {}));
  }
  GetTrace trace;
  TracingMemory memory(space.base(), space.bytes(), trace.looks);
  kv::DirectReader<TracingMemory> reader(memory, system_clock());
  const kv::TableView<TracingMemory> table(memory);
  trace.directory = table.directory();
  trace.directory_words = table.directory_words();
  const auto key = kv::test::bytes_of("key42");
  trace.hash = reader.hash(key);
  std::string value;
  const auto sink = [&](uint64_t bytes) {
    value.resize(bytes);
    return reinterpret_cast<std::byte*>(value.data());
  };
  trace.looks.clear();
  trace.begun_ns = system_clock().now_ns();
  ASSERT_EQ(reader.get(key, trace.hash, sink).code, Code::kOk);
  EXPECT_EQ(value, "value");
  const std::string text = look_lines(trace);
  for (const char* wanted :
       {"buckets: the key's is number", "has the fingerprint", "slot ", "buffer at 0x", "the buffer's stamp",
        "key 5, value 5", "the key is the one asked for", "the value is copied",
        "the stamp is still the same", "the slot still names it"}) {
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  }
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(text, '\n')), trace.looks.size());
  trace.looks.clear();
  ASSERT_EQ(reader.get(kv::test::bytes_of("absent"), reader.hash(kv::test::bytes_of("absent")), sink).code,
            Code::kNotFound);
  EXPECT_FALSE(look_lines(trace).empty());
}

TEST(TraceText, times_and_methods_are_named_for_people) {
  EXPECT_EQ(span_text(999), "999 ns");
  EXPECT_EQ(span_text(1'500), "1.5 us");
  EXPECT_EQ(span_text(2'000'000), "2.0 ms");
  EXPECT_EQ(span_text(3'250'000'000), "3.25 s");
  EXPECT_EQ(method_text(kPut), "put");
  EXPECT_EQ(method_text(observe::wire::kMethodsBegin), "observe");
  EXPECT_EQ(method_text(0xfff), "method 4095");
}

}  // namespace
}  // namespace refract::cli
