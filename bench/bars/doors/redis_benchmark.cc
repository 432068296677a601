// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/doors/redis_benchmark.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "bench/measure/beside.h"

#include "refract/base/testing/processes/files.h"

namespace refract::bench {
namespace {

constexpr uint64_t kBenchmarkRequestsMin = 1'000;
constexpr std::string_view kFieldsBetween = "\",\"";

// The second field of the last line: "GET","123456.79","0.123",...
Reported<double> benchmark_rate_in(std::string_view output) {
  while (output.ends_with('\n')) output.remove_suffix(1);
  std::string_view line = output.substr(output.rfind('\n') + 1);
  const size_t at = line.find(kFieldsBetween);
  double rate = 0;
  if (at != std::string_view::npos) {
    line.remove_prefix(at + kFieldsBetween.size());
    std::from_chars(line.data(), line.data() + line.size(), rate);
  }
  if (rate > 0) return rate;
  return report(Code::kMalformed, fmt::format("redis-benchmark says no rate: {}", output.substr(0, 400)));
}

}  // namespace

std::vector<std::string> benchmark_test(std::string name) {
  return {"-t", std::move(name)};
}

std::vector<std::string> benchmark_command(std::string name, size_t keys, size_t value_bytes) {
  std::vector<std::string> command = {std::move(name)};
  for (size_t i = 0; i < keys; ++i) {
    command.emplace_back("key:__rand_int__");
    if (value_bytes != 0) command.emplace_back(value_bytes, 'v');
  }
  return command;
}

Reported<RedisBenchmark> RedisBenchmark::of(uint16_t port, BenchmarkLoad load, uint64_t requests,
                                            double seconds) {
  if (test::is_in_path("redis-benchmark")) {
    return RedisBenchmark(port, std::move(load), std::max(requests, kBenchmarkRequestsMin), seconds);
  }
  return report(Code::kUnsupported, "there is no redis-benchmark here",
                "install it: 'make bars' and 'scripts/setup bars' do (Debian: apt-get install redis-tools)");
}

Reported<double> RedisBenchmark::rate() {
  const Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  const std::string output = folder->path() + "/benchmark.csv";
  test::Process::Program program{
      .arguments = {"redis-benchmark", "-h", "127.0.0.1", "-p", fmt::format("{}", port_), "-c",
                    fmt::format("{}", load_.connections), "-P", fmt::format("{}", load_.in_flight), "-n",
                    fmt::format("{}", requests_), "-r", fmt::format("{}", load_.keys), "-d",
                    fmt::format("{}", load_.value_bytes), "--csv"},
      .output_path = output};
  program.arguments.insert(program.arguments.end(), load_.command.begin(), load_.command.end());
  Reported<test::Process> process = start_beside(program);
  if (!process) return report(process.error());
  if (const int code = process->wait(); code != 0) {
    return report(Code::kUnavailable,
                  fmt::format("redis-benchmark ended with {}: {}", code, test::tail_of(output)));
  }
  const Reported<double> rate = benchmark_rate_in(test::read_whole(output));
  if (rate) requests_ = std::max(static_cast<uint64_t>(*rate * seconds_), kBenchmarkRequestsMin);
  return rate;
}

}  // namespace refract::bench
