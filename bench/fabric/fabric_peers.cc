// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_peers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/measure/beside.h"
#include "bench/measure/measure.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

using Arguments = std::vector<std::string>;

constexpr uint64_t kPeerPatience_ns = 60 * kSecond_ns;
constexpr uint64_t kNap_ns = 10 * kMillisecond_ns;
constexpr uint64_t kBirth_ns = 150 * kMillisecond_ns;
constexpr int kAttempts = 20;

Arguments on_core(size_t index, Arguments arguments) {
  const int core = core_number(std::min(index, core_count() - 1));
  Arguments bound = {"taskset", "-c", fmt::format("{}", core)};
  bound.insert(bound.end(), std::make_move_iterator(arguments.begin()),
               std::make_move_iterator(arguments.end()));
  return bound;
}

// Runs the two processes of a peer and returns what the one that measures printed. A client that ends at once
// came before its server listened, and is started again.
Reported<std::string> run_pair(const Arguments& server_arguments, const Arguments& client_arguments) {
  const Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  const std::string server_log = folder->path() + "/server.log";
  const std::string client_log = folder->path() + "/client.log";
  Reported<test::Process> server =
      start_beside({.arguments = on_core(1, server_arguments), .output_path = server_log});
  if (!server) return report(server.error());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    sleep_ns(kBirth_ns);
    Reported<test::Process> client =
        start_beside({.arguments = on_core(0, client_arguments), .output_path = client_log});
    if (!client) return report(client.error());
    const uint64_t end_ns = now_ns() + kPeerPatience_ns;
    while (client->is_running()) {
      if (now_ns() > end_ns) {
        return report(Code::kDeadlineExceeded, fmt::format("{} did not end within {} s", client_arguments[0],
                                                           kPeerPatience_ns / kSecond_ns));
      }
      sleep_ns(kNap_ns);
    }
    // The server serves one client and ends; while it runs, no client has reached it.
    if (!server->is_running()) return test::read_whole(client_log);
    sleep_ns(kBirth_ns);
    if (!server->is_running()) return test::read_whole(client_log);
  }
  return report(Code::kUnavailable, fmt::format("{} did not reach its server: {}", client_arguments[0],
                                                test::tail_of(client_log)));
}

Reported<std::string> free_port_text() {
  const Reported<uint16_t> port = free_port();
  if (!port) return report(port.error());
  return fmt::format("{}", *port);
}

// One in flight, and many; in the order of shapes. Null: the peer has none.
using Programs = std::array<std::array<const char*, 2>, kShapes.size()>;

const char* program_of(const Programs& programs, const FabricCase& of) noexcept {
  return programs[static_cast<size_t>(of.shape)][of.depth > 0 ? 1 : 0];
}

const char* ucx_test_of(const FabricCase& of) noexcept {
  constexpr Programs kTests = {{{"ucp_get", "ucp_get"},
                                {nullptr, "ucp_put_bw"},
                                {"ucp_put_lat", "ucp_put_lat"},
                                {"ucp_cswap", nullptr},
                                {"ucp_fadd", nullptr},
                                {"ucp_am_lat", "ucp_am_bw"}}};
  return program_of(kTests, of);
}

bool ucx_has(const FabricCase& of) {
  return ucx_test_of(of) != nullptr;
}

// A batch file, so that one start serves all sizes.
Reported<std::vector<double>> run_ucx(const char* transports, std::span<const PeerCase> cases) {
  const Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  const std::string batch = folder->path() + "/batch";
  {
    std::ofstream file(batch);
    for (size_t i = 0; i < cases.size(); ++i) {
      const FabricCase& of = cases[i].of;
      file << fmt::format("case{} -t {} -s {} -n {} -w {} -O {}\n", i, ucx_test_of(of), of.bytes,
                          cases[i].iterations, cases[i].iterations / 10 + 1, std::max<size_t>(of.depth, 1));
    }
  }
  const Reported<std::string> port = free_port_text();
  if (!port) return report(port.error());
  // The loopback device alone: over another its two ends would not be on this host's fastest path.
  const Arguments common = {"env",
                            fmt::format("UCX_TLS={}", transports),
                            "UCX_NET_DEVICES=lo",
                            "ucx_perftest",
                            "-p",
                            *port,
                            "-b",
                            batch,
                            "-v",
                            "-f"};
  Arguments client = common;
  client.insert(client.begin() + 4, "127.0.0.1");
  const Reported<std::string> output = run_pair(common, client);
  if (!output) return report(output.error());
  return read_ucx(*output, cases);
}

Reported<std::vector<double>> run_ucx_shm(std::span<const PeerCase> cases) {
  return run_ucx("shm,self", cases);
}

Reported<std::vector<double>> run_ucx_tcp(std::span<const PeerCase> cases) {
  return run_ucx("tcp", cases);
}

bool pingpong_has(const FabricCase& of) {
  return of.depth == 0 && is_ping_pong(of.shape);
}

Reported<std::vector<double>> run_pingpong(std::span<const PeerCase> cases) {
  std::vector<double> figures;
  for (const PeerCase& each : cases) {
    const Reported<std::string> port = free_port_text();
    if (!port) return report(port.error());
    Arguments server = {"fi_pingpong",
                        "-p",
                        "tcp",
                        "-e",
                        "msg",
                        "-I",
                        fmt::format("{}", each.iterations),
                        "-S",
                        fmt::format("{}", each.of.bytes)};
    Arguments client = server;
    server.insert(server.end(), {"-B", *port});
    client.insert(client.end(), {"-P", *port, "127.0.0.1"});
    const Reported<std::string> output = run_pair(server, client);
    if (!output) return report(output.error());
    const Reported<double> figure = read_pingpong(*output);
    if (!figure) return report(figure.error());
    figures.push_back(*figure);
  }
  return figures;
}

const char* perftest_program_of(const FabricCase& of) noexcept {
  constexpr Programs kPrograms = {{{"ib_read_lat", "ib_read_bw"},
                                   {nullptr, "ib_write_bw"},
                                   {"ib_write_lat", "ib_write_lat"},
                                   {"ib_atomic_lat", "ib_atomic_bw"},
                                   {"ib_atomic_lat", "ib_atomic_bw"},
                                   {"ib_send_lat", "ib_send_bw"}}};
  return program_of(kPrograms, of);
}

bool perftest_has(const FabricCase& of) {
  return perftest_program_of(of) != nullptr;
}

Reported<std::vector<double>> run_perftest(std::span<const PeerCase> cases) {
  std::vector<double> figures;
  for (const PeerCase& each : cases) {
    const Reported<std::string> port = free_port_text();
    if (!port) return report(port.error());
    // It refuses fewer than five.
    Arguments server = {perftest_program_of(each.of),
                        "-F",
                        "-p",
                        *port,
                        "-n",
                        fmt::format("{}", std::max<uint64_t>(each.iterations, 5))};
    if (has_sizes(each.of.shape)) {
      server.insert(server.end(), {"-s", fmt::format("{}", each.of.bytes)});
    } else {
      server.insert(server.end(),
                    {"-A", each.of.shape == Shape::kFetchAdd ? "FETCH_AND_ADD" : "CMP_AND_SWAP"});
    }
    if (each.of.depth > 0) server.insert(server.end(), {"-t", fmt::format("{}", each.of.depth)});
    Arguments client = server;
    client.emplace_back("127.0.0.1");
    const Reported<std::string> output = run_pair(server, client);
    if (!output) return report(output.error());
    const Reported<double> figure = read_perftest(*output, each.of);
    if (!figure) return report(figure.error());
    figures.push_back(*figure);
  }
  return figures;
}

constexpr std::array kPeers = {
    Peer{"ucx", "ucx_perftest", "apt-get install ucx-utils", "shm",
         "ucx_perftest with UCX_TLS=shm: posix, sysv and cma, as UCX chooses", Statistic::kMedian, ucx_has,
         run_ucx_shm},
    Peer{"ucx", "ucx_perftest", "apt-get install ucx-utils", "tcp",
         "ucx_perftest with UCX_TLS=tcp over loopback", Statistic::kMedian, ucx_has, run_ucx_tcp},
    Peer{"libfabric", "fi_pingpong", "apt-get install libfabric-bin", "tcp",
         "fi_pingpong -p tcp -e msg over loopback", Statistic::kMean, pingpong_has, run_pingpong},
    Peer{"perftest", "ib_read_lat", "apt-get install perftest", "verbs",
         "ib_read_lat and its like, both ends on this host", Statistic::kMedian, perftest_has, run_perftest},
};

// The columns of the line that `is_wanted` accepts.
template <typename IsWanted>
std::vector<std::string> columns_of(std::string_view output, char separator, const IsWanted& is_wanted) {
  std::istringstream lines{std::string(output)};
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> columns;
    std::istringstream parts(line);
    std::string part;
    if (separator == ' ') {
      while (parts >> part) columns.push_back(part);
    } else {
      while (std::getline(parts, part, separator)) columns.push_back(part);
    }
    if (!columns.empty() && is_wanted(columns)) return columns;
  }
  return {};
}

// 0 where the column is missing or says nothing: no peer takes no time.
double number_at(const std::vector<std::string>& columns, size_t index) {
  return index < columns.size() ? std::strtod(columns[index].c_str(), nullptr) : 0;
}

std::unexpected<Report> unread(std::string_view program, std::string_view output) {
  constexpr size_t kTail = 300;
  const std::string_view end = output.substr(output.size() - std::min(output.size(), kTail));
  return report(Code::kMalformed, fmt::format("{} printed no figure: {}", program, end));
}

}  // namespace

std::span<const Peer> fabric_peers() noexcept {
  return kPeers;
}

bool is_installed(const Peer& peer) {
  return test::is_in_path(std::string(peer.program));
}

std::string obstacle_of(const Peer& peer) {
  if (peer.provider != "verbs") return {};
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  if (error || devices == std::filesystem::directory_iterator()) return "this host has no RDMA device";
  return {};
}

std::string version_of(const Peer& peer) {
  const char* program = peer.name == "ucx"         ? "ucx_info"
                        : peer.name == "libfabric" ? "fi_info"
                                                   : "ib_read_lat";
  const char* flag = peer.name == "ucx" ? "-v" : "--version";
  const Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return {};
  const std::string log = folder->path() + "/version";
  Reported<test::Process> child = start_beside({.arguments = {program, flag}, .output_path = log});
  if (!child || child->wait_for_end() == 127) return {};
  std::string line;
  std::getline(std::ifstream(log), line);
  const size_t number = line.find_first_of("0123456789");
  return number == std::string::npos ? std::string() : line.substr(number);
}

// name,iterations,median_us,average_us,overall_us,average_mb,overall_mb,... The name is the batch file's.
Reported<std::vector<double>> read_ucx(std::string_view output, std::span<const PeerCase> cases) {
  std::vector<double> figures;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = fmt::format("case{}", i);
    const auto columns =
        columns_of(output, ',', [&](const std::vector<std::string>& row) { return row[0] == name; });
    // "MB" are MiB here.
    const double figure = cases[i].of.depth > 0 ? number_at(columns, 6) * static_cast<double>(kMiB)
                                                : number_at(columns, 2) * 1e3;
    if (figure <= 0) return unread("ucx_perftest", output);
    figures.push_back(figure);
  }
  return figures;
}

// bytes, sent, acknowledged, total, time, MB a second, us a transfer, ...
Reported<double> read_pingpong(std::string_view output) {
  const auto columns = columns_of(output, ' ', [](const std::vector<std::string>& row) {
    return row.size() == 8 && row[2].starts_with('=');
  });
  const double figure = number_at(columns, 6) * 1e3;
  if (figure <= 0) return unread("fi_pingpong", output);
  return figure;
}

// Latency: bytes, iterations, least, most, median, ... in us. Flow: bytes, iterations, peak, average, ... in
// MiB a second, which older ones call MB.
Reported<double> read_perftest(std::string_view output, const FabricCase& of) {
  const std::string bytes = fmt::format("{}", of.bytes);
  const auto columns = columns_of(
      output, ' ', [&](const std::vector<std::string>& row) { return row.size() >= 5 && row[0] == bytes; });
  const double figure =
      of.depth > 0 ? number_at(columns, 3) * static_cast<double>(kMiB) : number_at(columns, 4) * 1e3;
  if (figure <= 0) return unread(perftest_program_of(of), output);
  return figure;
}

}  // namespace refract::bench
