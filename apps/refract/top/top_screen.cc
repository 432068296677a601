// SPDX-License-Identifier: Apache-2.0
// How the figures of `refract top` look: columns of plain text, whatever the terminal.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/progress/progress.h"
#include "apps/refract/data_text.h"
#include "apps/refract/terminal.h"
#include "apps/refract/top/top_figures.h"

namespace refract::cli {
namespace {

using progress::bytes_text;
using progress::count_text;
using progress::duration_text;

constexpr size_t kBarCells = 40;
constexpr size_t kMethodsShown = 8;

std::string rate_text(double per_s) {
  return per_s > 0 && per_s < 9.95 ? fmt::format("{:.1f}", per_s)
                                   : count_text(static_cast<uint64_t>(std::llround(per_s)));
}

// "310 ns", "4.2 us", "18 ms"; "-" where nothing was measured.
std::string time_text(const Quantiles& of, uint64_t ns) {
  if (of.samples == 0) return "-";
  constexpr std::array<std::string_view, 4> kUnits = {"ns", "us", "ms", "s"};
  auto value = static_cast<double>(ns);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1'000;
  return unit > 0 && value < 9.95 ? fmt::format("{:.1f} {}", value, kUnits[unit])
                                  : fmt::format("{:.0f} {}", value, kUnits[unit]);
}

std::string whole_seconds(uint64_t ns) {
  return duration_text(static_cast<double>(ns) / 1e9);
}

// The memory as cells: # live, t table, - retired, . free, blank: room in chunks that are in use.
std::string memory_bar(const observe::MemoryState& memory) {
  std::string bar;
  const auto append = [&](uint64_t bytes, char letter) {
    if (bytes == 0 || memory.total == 0) return;
    const double share = static_cast<double>(bytes) / static_cast<double>(memory.total);
    const auto cells = static_cast<size_t>(std::llround(share * static_cast<double>(kBarCells)));
    bar.append(std::min(std::max<size_t>(cells, 1), kBarCells - std::min(bar.size(), kBarCells)), letter);
  };
  append(memory.live, '#');
  append(memory.table, 't');
  append(memory.retired, '-');
  const uint64_t known = memory.live + memory.table + memory.retired + memory.free;
  append(memory.total - std::min(known, memory.total), ' ');
  bar.resize(kBarCells, memory.free > 0 ? '.' : ' ');
  return "[" + bar + "]";
}

std::string head(const Figures& figures) {
  return fmt::format(
      "refract top  {} by {}  up {}  incarnation {}  process {}\n"
      "calls {}/s {}  connections {}  entries {}\n",
      printable(figures.address), figures.transport, whole_seconds(figures.uptime_ns), figures.incarnation,
      figures.process, rate_text(figures.calls_per_s),
      figures.since_start ? "since the server's start"
                          : fmt::format("in {}", whole_seconds(figures.interval_ns)),
      figures.connection_count, count_text(figures.entries.count));
}

std::string memory_lines(const observe::MemoryState& memory) {
  const double used = memory.total == 0 ? 0
                                        : 100 * static_cast<double>(memory.total - memory.free) /
                                              static_cast<double>(memory.total);
  return fmt::format(
      "\nmemory {} {:.0f} % of {}\n"
      "  # live {}  t table {}  - reusable soon {}  . free {} (largest run {})  pins {}\n",
      memory_bar(memory), used, bytes_text(memory.total), bytes_text(memory.live), bytes_text(memory.table),
      bytes_text(memory.retired), bytes_text(memory.free), bytes_text(memory.largest_free_run), memory.pins);
}

std::string method_lines(const Figures& figures) {
  std::string out = fmt::format("\n{:<13} {:>11} {:>8} {:>8} {:>8} {:>15}\n", "call", "per second", "p50",
                                "p99", "p99.9", "since start");
  size_t shown = 0;
  for (const MethodFigures& method : figures.methods) {
    if (++shown > kMethodsShown) break;
    const Quantiles& of = method.service_ns;
    out += fmt::format("{:<13} {:>11} {:>8} {:>8} {:>8} {:>15}\n", printable(method.name),
                       rate_text(method.calls_per_s), time_text(of, of.p50), time_text(of, of.p99),
                       time_text(of, of.p999), count_text(method.calls));
  }
  return out;
}

std::string shard_lines(const Figures& figures) {
  std::string out =
      fmt::format("\n{:<6} {:>11} {:>6} {:>9} {:>8} {:>9} {:>9} {:>12} {:>10} {:>10}\n", "shard", "calls/s",
                  "CPU", "sleeps/s", "a batch", "batch p50", "p99", "entries", "live", "free");
  for (const ShardFigures& shard : figures.shards) {
    out += fmt::format("{:<6} {:>11} {:>4.0f} % {:>9} {:>8.1f} {:>9} {:>9} {:>12} {:>10} {:>10}", shard.index,
                       rate_text(shard.calls_per_s), 100 * shard.cpu_share, rate_text(shard.sleeps_per_s),
                       shard.calls_per_batch, time_text(shard.batch_ns, shard.batch_ns.p50),
                       time_text(shard.batch_ns, shard.batch_ns.p99), count_text(shard.entries.count),
                       bytes_text(shard.memory.live), bytes_text(shard.memory.free));
    if (shard.waiting_for_memory > 0)
      out += fmt::format("  {} writes wait for memory", shard.waiting_for_memory);
    out += "\n";
  }
  return out;
}

std::string connection_lines(const Figures& figures) {
  std::string out =
      fmt::format("\n{:<10} {:<5} {:<28} {:>10} {:>6} {:>12} {:>12} {:>9} {:>9}  {}\n", "connection", "by",
                  "peer", "calls/s", "flight", "received/s", "sent/s", "age", "idle", "why");
  for (const ConnectionFigures& one : figures.connections) {
    const auto per_s = [](double bytes) { return bytes_text(static_cast<uint64_t>(std::llround(bytes))); };
    out += fmt::format("{:<10} {:<5} {:<28} {:>10} {:>6} {:>12} {:>12} {:>9} {:>9}  {}\n",
                       fmt::format("{}.{}", one.shard, one.now.place), printable(one.now.transport),
                       printable(one.now.peer), rate_text(one.calls_per_s), one.now.in_flight,
                       per_s(one.received_per_s), per_s(one.sent_per_s), whole_seconds(one.now.age_ns),
                       whole_seconds(one.now.idle_ns), printable(one.now.reason));
  }
  return out;
}

// Counts of what went wrong, where there is any.
std::string trouble_line(const Figures& figures) {
  constexpr std::string_view kTroubles[] = {"deferred", "dropped",    "malformed", "overrun",   "refused",
                                            "denied",   "overloaded", "bad_",      "throttled", "lost"};
  std::string out;
  for (const auto& [name, count] : figures.counters) {
    const auto is_in = [&name](std::string_view word) { return name.find(word) != std::string::npos; };
    if (count == 0 || std::ranges::none_of(kTroubles, is_in)) continue;
    out += fmt::format("{}{} {}", out.empty() ? "\ntrouble  " : "  ", printable(name), count_text(count));
  }
  return out.empty() ? out : out + "\n";
}

// Terminals count letters, not bytes; a letter begins with a byte that continues none.
std::string fit(std::string_view text, const ScreenSize& size) {
  std::string out;
  size_t rows = 0;
  while (!text.empty() && rows < size.rows) {
    const std::string_view line = text.substr(0, text.find('\n'));
    size_t letters = 0;
    for (const char letter : line) {
      const bool begins = (static_cast<unsigned char>(letter) & 0xc0) != 0x80;
      if (begins && ++letters > size.columns) break;
      out.push_back(letter);
    }
    out.push_back('\n');
    ++rows;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string draw(const Figures& figures, const ScreenSize& size) {
  return fit(head(figures) + data_line(figures.data) + memory_lines(figures.memory) + method_lines(figures) +
                 shard_lines(figures) + trouble_line(figures) + connection_lines(figures),
             size);
}

}  // namespace refract::cli
