// SPDX-License-Identifier: Apache-2.0
// The load that two stores are compared under: what it asks for, how it counts, and how Redis's answers are
// read.
#include "bench/kv/kv_load.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/kv/kv_results.h"
#include "bench/kv/kv_sides.h"
#include "bench/load/resp_reader.h"
#include "bench/report/findings.h"

namespace refract::bench {
namespace {

const Timer& timer() {
  static const Timer calibrated = Timer::calibrate();
  return calibrated;
}

TEST(Contents, tell_entries_apart_whatever_the_lengths) {
  for (const size_t key_bytes : {kKeyBytesMin, size_t{9}, size_t{16}, size_t{17}, kKeyBytesMax}) {
    const Contents contents(key_bytes, 8);
    std::set<std::string> keys;
    std::string key(key_bytes, '\0');
    for (uint64_t i = 0; i < 1'000; ++i) {
      contents.write_key(i, reinterpret_cast<std::byte*>(key.data()));
      keys.insert(key);
    }
    EXPECT_EQ(keys.size(), 1'000u) << key_bytes;
  }
  for (const size_t value_bytes : {size_t{2}, size_t{8}, size_t{11}, size_t{64}, size_t{4096}}) {
    const Contents contents(16, value_bytes);
    std::vector<std::byte> value(value_bytes);
    contents.prepare_value(value.data());
    contents.make_value(7, value.data());
    std::vector<std::byte> torn = value;
    torn.back() = ~torn.back();
    EXPECT_FALSE(contents.take_value(7, torn.data())) << value_bytes;
    std::vector<std::byte> other = value;
    EXPECT_FALSE(contents.take_value(8, other.data())) << value_bytes;
    EXPECT_TRUE(contents.take_value(7, value.data())) << value_bytes;
    EXPECT_FALSE(contents.take_value(7, value.data())) << "an answer that never came would pass for this one";
  }
}

TEST(Workload, gives_the_same_operations_for_the_same_seed) {
  const WorkloadOptions options{.keys = 100, .get_share = 0.5, .skew = 0.5, .seconds = 60, .operations = 500};
  Workload one(options, timer());
  Workload two(options, timer());
  one.begin();
  two.begin();
  Operation first;
  Operation second;
  int gets = 0;
  int count = 0;
  for (; one.next(first); ++count) {
    ASSERT_TRUE(two.next(second));
    EXPECT_EQ(first.index, second.index);
    EXPECT_EQ(first.is_get(), second.is_get());
    ASSERT_LT(first.index, 100u);
    gets += first.is_get() ? 1 : 0;
  }
  EXPECT_EQ(count, 500);
  EXPECT_NEAR(gets, 250, 60);
}

TEST(Workload, in_order_gives_each_key_once) {
  Workload workload({.keys = 100, .get_share = 0, .in_order = true, .seconds = 60}, timer());
  workload.begin();
  Operation operation;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(workload.next(operation));
    EXPECT_EQ(operation.index, i);
    EXPECT_FALSE(operation.is_get());
  }
  EXPECT_FALSE(workload.next(operation));
}

TEST(Workload, counts_each_outcome_as_what_it_is) {
  Workload workload({.keys = 10, .seconds = 60, .operations = 5}, timer());
  workload.begin();
  Operation operation;
  for (const Code code :
       {Code::kOk, Code::kNotFound, Code::kCorrupt, Code::kOverloaded, Code::kDeadlineExceeded}) {
    EXPECT_TRUE(Workload::is_counted(code));
    ASSERT_TRUE(workload.next(operation));
    workload.finished(operation, code);
  }
  EXPECT_FALSE(workload.next(operation));
  EXPECT_FALSE(Workload::is_counted(Code::kUnavailable));
  const WorkloadResult& result = workload.end();
  EXPECT_EQ(result.operations, 5u);
  EXPECT_EQ(result.missing, 1u);
  EXPECT_EQ(result.wrong, 1u);
  EXPECT_EQ(result.overloaded, 2u);
  EXPECT_EQ(result.latency_ns.count(), 5u);
}

// A store that answers at once and then not at all: what fell due meanwhile was late, though no request was
// sent.
TEST(Workload, charges_a_pause_to_all_that_fell_due_in_it) {
  constexpr uint64_t kPause_ns = 100'000'000;
  Workload workload({.keys = 10, .seconds = 0.05, .rate = 10'000}, timer());
  workload.begin();
  Operation operation;
  ASSERT_TRUE(workload.next(operation));
  sleep_ns(kPause_ns);
  do {
    EXPECT_EQ(workload.ns_until(operation), 0u);
    workload.finished(operation, Code::kOk);
  } while (workload.next(operation));
  const WorkloadResult& result = workload.end();
  // Poisson: 500 of them, give or take 22. A machine that makes the pause longer than three turns ends the
  // load before they are served, and they are told apart then.
  EXPECT_NEAR(static_cast<double>(result.operations + result.unserved), 500, 150);
  EXPECT_GE(result.latency_ns.quantile(0.01), 40'000'000u);
}

TEST(Workload, names_what_it_could_not_even_begin) {
  Workload workload({.keys = 10, .seconds = 0.01, .rate = 10'000}, timer());
  workload.begin();
  Operation operation;
  ASSERT_TRUE(workload.next(operation));
  sleep_ns(60'000'000);  // Beyond three times the run.
  workload.finished(operation, Code::kOk);
  EXPECT_FALSE(workload.next(operation));
  const WorkloadResult& result = workload.end();
  EXPECT_EQ(result.operations, 1u);
  EXPECT_NEAR(static_cast<double>(result.unserved), 99, 2);
  EXPECT_GE(result.latency_ns.quantile(0.5), 40'000'000u);
}

struct Heard {
  Reply::Kind kind;
  std::string text;
};

// Everything that a stream says, when it comes in pieces of `piece` bytes.
std::vector<Heard> read_all(const std::string& stream, size_t piece, size_t target_bytes) {
  std::vector<std::byte> target(target_bytes);
  RespReader reader(target);
  std::vector<Heard> heard;
  for (size_t at = 0; at < stream.size();) {
    size_t left = std::min(piece, stream.size() - at);
    size_t copied = 0;
    for (const iovec& room : reader.room()) {
      const size_t count = std::min(left, room.iov_len);
      std::memcpy(room.iov_base, stream.data() + at + copied, count);
      copied += count;
      left -= count;
    }
    reader.received(copied);
    at += copied;
    for (Reply reply = reader.next(); reply.kind != Reply::Kind::kNone; reply = reader.next()) {
      const bool is_value = reply.kind == Reply::Kind::kValue;
      heard.push_back(
          {reply.kind, is_value ? std::string(reinterpret_cast<const char*>(target.data()), reply.bytes)
                                : std::string(reply.text)});
      if (reply.kind == Reply::Kind::kMalformed) return heard;
    }
  }
  return heard;
}

TEST(RespReader, reads_the_same_replies_however_the_stream_is_cut) {
  const std::string large(200'000, 'x');
  const std::string stream =
      "+OK\r\n$3\r\na\r\n\r\n$-1\r\n$0\r\n\r\n-ERR no\r\n$200000\r\n" + large + "\r\n+OK\r\n";
  for (const size_t piece :
       {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{1000}, size_t{70'000}, stream.size()}) {
    const std::vector<Heard> heard = read_all(stream, piece, 200'000);
    ASSERT_EQ(heard.size(), 7u) << piece;
    EXPECT_EQ(heard[0].kind, Reply::Kind::kStatus);
    EXPECT_EQ(heard[0].text, "OK");
    EXPECT_EQ(heard[1].kind, Reply::Kind::kValue);
    EXPECT_EQ(heard[1].text, "a\r\n");
    EXPECT_EQ(heard[2].kind, Reply::Kind::kMissing);
    EXPECT_EQ(heard[3].kind, Reply::Kind::kValue);
    EXPECT_EQ(heard[3].text, "");
    EXPECT_EQ(heard[4].kind, Reply::Kind::kError);
    EXPECT_EQ(heard[4].text, "ERR no");
    EXPECT_TRUE(heard[5].text == large) << piece;
    EXPECT_EQ(heard[6].text, "OK");
  }
}

TEST(RespReader, refuses_what_makes_no_sense) {
  for (const char* stream :
       {"$4\r\nfour\r\n", "$x\r\n", "*x\r\n", "*-1\r\n", "$\r\n", "\r\n", "$3\r\nabcd\r\n"}) {
    const std::vector<Heard> heard = read_all(stream, 100, 3);
    ASSERT_FALSE(heard.empty()) << stream;
    EXPECT_EQ(heard.back().kind, Reply::Kind::kMalformed) << stream;
  }
}

TEST(KvLoad, refuses_what_cannot_be) {
  KvLoad load;
  EXPECT_TRUE(check(load));
  load.driver = {.depth = 10, .batch = 4};
  EXPECT_FALSE(check(load));
  load.driver = {.depth = 8, .batch = 4};
  EXPECT_TRUE(check(load));
  load.sweep = Sweep::kRate;
  load.workload.rate = 5;
  EXPECT_FALSE(check(load));
}

TEST(KvLoad, refuses_what_a_peer_cannot_do) {
  KvLoad load;
  load.beside = {KvPeer::kMemcached, KvPeer::kTable};
  EXPECT_TRUE(check(load));
  load.workload.key_bytes = 251;
  Reported<> possible = check(load);
  ASSERT_FALSE(possible);
  EXPECT_NE(possible.error().what.find("250"), std::string::npos);
  load.workload.key_bytes = 250;
  load.clients = 2;
  possible = check(load);
  ASSERT_FALSE(possible);
  EXPECT_NE(possible.error().what.find("one thread"), std::string::npos);
  load.beside = {KvPeer::kMemcached, KvPeer::kCuckoo};
  EXPECT_TRUE(check(load));
}

// Every option that a published design has nothing for, and that the same load of ours may have.
TEST(KvLoad, refuses_what_a_design_cannot_do) {
  KvLoad load;
  load.designs = {"refract", "pilaf"};
  EXPECT_TRUE(check(load));
  const auto expect_refused = [](const KvLoad& asked, std::string_view option) {
    const Reported<> possible = check(asked);
    ASSERT_FALSE(possible) << option;
    EXPECT_NE(possible.error().to_string().find(option), std::string::npos) << possible.error().to_string();
    EXPECT_NE(possible.error().what.find(option == "--path" ? "" : "pilaf"), std::string::npos);
    KvLoad ours = asked;
    ours.designs = {"refract"};
    EXPECT_TRUE(option == "--path" || check(ours)) << option;
  };
  KvLoad batched = load;
  batched.driver = {.depth = 4, .batch = 2};
  expect_refused(batched, "--batch");
  KvLoad sharded = load;
  sharded.shards = 2;
  expect_refused(sharded, "--shards");
  KvLoad named = load;
  named.address = "/run/refract/node.sock";
  expect_refused(named, "--address");
  KvLoad large = load;
  large.workload.value_bytes = 32 * 1024;
  expect_refused(large, "--value-bytes");
  KvLoad all_paths = named;
  all_paths.designs = {"refract"};
  all_paths.paths = {};
  expect_refused(all_paths, "--path");
}

TEST(KvLoad, ours_goes_by_every_path_that_its_provider_has) {
  KvLoad load;
  EXPECT_EQ(paths_of(load), std::vector{Path::kDirect});
  load.paths = {};
  EXPECT_EQ(paths_of(load), (std::vector{Path::kDirect, Path::kChain, Path::kRpc}));
  load.provider = Provider::kTcp;
  EXPECT_EQ(paths_of(load), (std::vector{Path::kChain, Path::kRpc}));
  load.paths = {Path::kDirect};
  EXPECT_EQ(paths_of(load), std::vector{Path::kRpc});
}

TEST(KvResults, sides_stand_beside_each_other_as_shares_of_ours_by_calls) {
  KvLoad load;
  load.designs = {"refract", "pilaf"};
  KvResult result;
  result.base = 1;
  for (const char* name : {"refract direct", "refract rpc", "pilaf"}) {
    KvSide side{.name = name,
                .how = "shm",
                .served_by = "a thread",
                .rates = {(result.sides.empty() ? 8e6 : 2e6 / static_cast<double>(result.sides.size()))},
                .sum = {},
                .server_cpu_ns = std::nullopt,
                .sweep = {},
                .server_counts = {}};
    side.sum.operations = 1'000;
    side.sum.requests = 1'000 * result.sides.size();
    if (!result.sides.empty()) side.server_cpu_ns = 1'500'000;
    result.sides.push_back(std::move(side));
  }
  const std::string lines = lines_of(load, result);
  EXPECT_NE(lines.find("x refract rpc\n"), std::string::npos) << lines;
  const auto row_of = [&lines](const std::string& name) {
    const size_t start = lines.find("\n" + name) + 1;
    return lines.substr(start, lines.find('\n', start) - start);
  };
  EXPECT_TRUE(row_of("refract direct").ends_with("0.00        -  4.00")) << row_of("refract direct");
  EXPECT_TRUE(row_of("pilaf").ends_with("2.00     1.50  0.50")) << row_of("pilaf");

  const std::string text = json_of(findings_of(load, result));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  const auto median = [&json](std::string_view what, std::string_view name) {
    for (const auto& series : json["sections"][0]["series"]) {
      if (series["what"] == what && series["name"] == name)
        return series["points"][0]["median"].get<double>();
    }
    return -1.0;
  };
  EXPECT_EQ(median("operations a second", "pilaf / refract rpc"), 0.5);
  EXPECT_EQ(median("operations a second", "refract rpc / refract rpc"), -1);
  EXPECT_EQ(median("server's time an operation", "refract direct"), -1) << "it is not known";
  EXPECT_EQ(median("server's time an operation", "pilaf"), 1'500);
  EXPECT_EQ(median("requests an operation", "pilaf"), 2);
  const Reported<std::string> page = html_of(text);
  ASSERT_TRUE(page) << page.error().what;
  EXPECT_NE(page->find("pilaf / refract rpc"), std::string::npos);
}

TEST(KvResults, become_lines_json_and_a_page) {
  KvLoad load;
  load.beside = {KvPeer::kRedis};
  load.sweep = Sweep::kRate;
  KvResult result;
  for (const char* name : {"refract", "redis <b>"}) {
    KvSide side{.name = name,
                .how = "tcp",
                .served_by = "it",
                .rates = {2e6, 1e6, 3e6},
                .sum = {},
                .server_cpu_ns = {},
                .sweep = {},
                .server_counts = {}};
    for (uint64_t i = 1; i <= 1'000; ++i) side.sum.latency_ns.record(i * 100);
    side.sweep.push_back({.share = 0.5, .offered = 1e6, .result = side.sum});
    side.sweep.push_back({.share = 1.5, .offered = 3e6, .result = side.sum});
    result.sides.push_back(std::move(side));
  }
  const std::string lines = lines_of(load, result);
  EXPECT_NE(lines.find("refract / redis, medians of 1 turns each: 1.00 x"), std::string::npos) << lines;
  EXPECT_NE(lines.find("past saturation"), std::string::npos);

  const std::string text = json_of(findings_of(load, result));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["sections"][0]["series"][0]["points"][0]["median"], 2e6);
  EXPECT_EQ(json["sections"][2]["series"][0]["points"][1]["x"], 3e6) << "that was offered";

  const Reported<std::string> page = html_of(text);
  ASSERT_TRUE(page) << page.error().what;
  EXPECT_EQ(page->find("<b>"), std::string::npos);
  EXPECT_NE(page->find("redis &lt;b&gt;, p99.9"), std::string::npos);
  EXPECT_NE(page->find("<polyline"), std::string::npos);
  EXPECT_EQ(page->find("http"), std::string::npos) << "the page needs nothing but itself";
}

}  // namespace
}  // namespace refract::bench
