// SPDX-License-Identifier: Apache-2.0
// That `refract-bench fabric` times what it says it times, and reads what its peers print.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "bench/fabric/fabric_run.h"
#include "bench/fabric/fabric_server.h"
#include "bench/measure/beside.h"
#include "bench/report/findings.h"

#include "refract/documents/json.h"

namespace refract::bench {
namespace {

// The end that serves, on a thread.
class Server {
 public:
  explicit Server(const FabricRow& row) {
    Reported<test::TemporaryFolder> made = test::TemporaryFolder::make();
    EXPECT_TRUE(made) << made.error().to_string();
    folder_ = std::make_unique<test::TemporaryFolder>(std::move(*made));
    const std::string at = row.address.empty() ? folder_->path() + "/node.sock" : std::string(row.address);
    std::promise<std::string> ready;
    std::future<std::string> address = ready.get_future();
    thread_ = std::thread([this, &row, at, &ready] {
      const Reported<> served =
          serve_fabric({.row = &row,
                        .address = at,
                        .on_ready = [&ready](const std::string& where) { ready.set_value(where); },
                        .stop = &stop_});
      EXPECT_TRUE(served) << served.error().to_string();
    });
    address_ = address.get();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    stop_.store(true);
    thread_.join();
  }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  std::unique_ptr<test::TemporaryFolder> folder_;
  std::atomic<bool> stop_ = false;
  std::string address_;
  std::thread thread_;
};

// Every host has sockets and shared memory; not every one has an RDMA device.
bool can(const FabricRow& row) {
  const Reported<ClientEnd> end = row.connect();
  EXPECT_TRUE(end || row.name == "verbs") << end.error().to_string();
  return end.has_value();
}

TEST(FabricClient, every_operation_is_timed_over_every_provider) {
  const Timer timer = Timer::calibrate();
  for (const FabricRow& row : fabric_rows()) {
    if (!can(row)) continue;
    const Server server(row);
    const auto client = FabricClient::connect(row, server.address(), timer);
    ASSERT_TRUE(client) << row.name << ": " << client.error().to_string();
    const Reported<> verified = (*client)->verify();
    ASSERT_TRUE(verified) << row.name << ": " << verified.error().to_string();
    for (const Shape shape : kShapes) {
      for (const size_t bytes : {size_t{8}, size_t{8'192}}) {
        SCOPED_TRACE(fmt::format("{} over {}", text(FabricCase{shape, bytes}), row.name));
        const Reported<Timing> timing = (*client)->latency({.shape = shape, .bytes = bytes}, 0.001);
        ASSERT_TRUE(timing) << timing.error().to_string();
        EXPECT_GE(timing->count, 20u);
        EXPECT_GT(timing->mean_ns, 0);
        EXPECT_LE(timing->min_ns, timing->median_ns);
        EXPECT_LE(timing->median_ns, timing->p99_ns);
        if (!has_bandwidth(shape)) continue;
        const Reported<Flow> flow = (*client)->bandwidth({.shape = shape, .bytes = bytes}, 16, 0.001);
        ASSERT_TRUE(flow) << flow.error().to_string();
        EXPECT_GT(flow->per_second, 0);
      }
    }
    // An end that rests is woken by the next order.
    ASSERT_TRUE((*client)->rest());
    EXPECT_TRUE((*client)->latency({.shape = Shape::kPut, .bytes = 64}, 0.001));
  }
}

TEST(FabricServer, serves_one_client_after_the_other) {
  const Timer timer = Timer::calibrate();
  for (const FabricRow& row : fabric_rows()) {
    if (!can(row)) continue;
    const Server server(row);
    for (int i = 0; i < 3; ++i) {
      const auto client = FabricClient::connect(row, server.address(), timer);
      ASSERT_TRUE(client) << row.name << ": " << client.error().to_string();
      EXPECT_TRUE((*client)->verify());
    }
  }
}

TEST(FabricRows, an_unknown_provider_is_refused_with_the_names_there_are) {
  const Reported<const FabricRow*> row = fabric_row("carrier-pigeon");
  ASSERT_FALSE(row);
  EXPECT_NE(row.error().next.find("shm, tcp, verbs"), std::string::npos) << row.error().to_string();
}

TEST(FabricOrder, is_told_from_messages_by_length_and_magic) {
  FabricOrder order{.command = Command::kEcho, .bytes = 8};
  std::array<std::byte, sizeof(order)> bytes;
  std::memcpy(bytes.data(), &order, sizeof(order));
  ASSERT_TRUE(order_in(bytes));
  EXPECT_EQ(order_in(bytes)->command, Command::kEcho);
  EXPECT_FALSE(order_in(std::span(bytes).first(63)));
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(order_in(bytes));
}

TEST(Peers, what_ucx_prints_is_read_by_the_names_of_the_cases) {
  const PeerCase cases[] = {{.of = {.shape = Shape::kPut, .bytes = 64}},
                            {.of = {.shape = Shape::kWrite, .bytes = 4'194'304, .depth = 16}}};
  constexpr std::string_view kOutput =
      "[17] parser.c:1911 UCX WARN something\n"
      "batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
      "case0,20000,0.186,0.519,0.519,117.58,117.58,1926511,1926511\n"
      "case1, 200,86.828,280.321,280.321,14269.37,14269.37,3567,3567\n";
  const Reported<std::vector<double>> figures = read_ucx(kOutput, cases);
  ASSERT_TRUE(figures) << figures.error().to_string();
  EXPECT_DOUBLE_EQ((*figures)[0], 186);
  EXPECT_DOUBLE_EQ((*figures)[1], 14269.37 * 1024 * 1024);
  EXPECT_FALSE(read_ucx(kOutput.substr(0, 200), cases)) << "a case without its line";
  EXPECT_FALSE(read_ucx("", cases));
}

TEST(Peers, what_fi_pingpong_prints_is_read_in_nanoseconds) {
  const Reported<double> figure = read_pingpong(
      "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
      "64      5k      =5k      625k        0.51s      1.24      51.46       0.02\n");
  ASSERT_TRUE(figure) << figure.error().to_string();
  EXPECT_DOUBLE_EQ(*figure, 51'460);
  EXPECT_FALSE(read_pingpong("fi_getinfo: No data available\n"));
}

TEST(Peers, what_perftest_prints_is_read_from_the_line_of_the_size) {
  constexpr std::string_view kLatency =
      " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n"
      " 8       1000          1.90           7.85         1.98     \t       2.01        \n";
  const Reported<double> latency = read_perftest(kLatency, {.shape = Shape::kRead, .bytes = 8});
  ASSERT_TRUE(latency) << latency.error().to_string();
  EXPECT_DOUBLE_EQ(*latency, 1'980);
  const Reported<double> flow =
      read_perftest(" 65536      5000             11034.60            11000.00\t\t 0.17\n",
                    {.shape = Shape::kWrite, .bytes = 65'536, .depth = 16});
  ASSERT_TRUE(flow) << flow.error().to_string();
  EXPECT_DOUBLE_EQ(*flow, 11'000.0 * 1024 * 1024);
  EXPECT_FALSE(read_perftest(kLatency, {.shape = Shape::kRead, .bytes = 64}));
}

TEST(FabricResult, becomes_lines_and_json_and_a_page_with_ratios_and_what_is_missing) {
  FabricResult result;
  for (const size_t bytes : {size_t{8}, size_t{4'096}}) {
    FabricPoint point{.provider = "tcp", .of = {.shape = Shape::kSend, .bytes = bytes}};
    point.turns = {4'000, 5'000, 6'000};
    point.means = point.p99s = point.mins = {7'000};
    point.peers.push_back({.peer = &fabric_peers()[1], .turns = {10'000}, .ratios = {0.4, 0.5, 0.6}});
    result.points.push_back(point);
  }
  result.gaps.push_back({"tcp", "libfabric <not> installed", "apt-get install libfabric-bin"});

  const std::string lines = lines_of(result.points) + details_of(result);
  EXPECT_NE(lines.find("0.50 (0.40..0.60)"), std::string::npos) << lines;
  EXPECT_NE(lines.find("apt-get install libfabric-bin"), std::string::npos) << lines;

  const std::string json = json_of(findings_of(FabricOptions{}, result));
  std::optional<documents::Value> parsed = documents::parse_json(json);
  ASSERT_TRUE(parsed);
  const documents::Value& section = (*parsed)["sections"].elements().front();
  const documents::Value& ratio = section.find("series")->elements().back();
  EXPECT_EQ(ratio.find("unit")->as_text(), "x");
  EXPECT_EQ(ratio.find("points")->elements().front().find("median")->as_number(), 0.5);

  const Reported<std::string> page = html_of(json);
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_NE(page->find("polyline"), std::string::npos);
  EXPECT_NE(page->find("&lt;not&gt;"), std::string::npos);
  EXPECT_EQ(page->find("<not>"), std::string::npos);
}

}  // namespace
}  // namespace refract::bench
