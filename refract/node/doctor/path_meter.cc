// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/path_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/histogram.h"
#include "refract/memory/host/limits.h"
#include "refract/node/doctor/timed_end.h"

namespace refract::node {
namespace {

using fabric::Completion;
using fabric::Op;
using fabric::Request;

constexpr uint64_t kMeterSamplesMin = 20;
constexpr uint64_t kMeterSamplesMax = 20'000;
constexpr size_t kSmallBytes = 8;
constexpr std::array<size_t, 2> kLargeBytes = {64 * kKiB, kMiB};
// So much is under way while bandwidth is measured: more than any path's delay swallows.
constexpr size_t kBytesUnderWay = 2 * kMiB;
constexpr uint32_t kRequestsMax = 16;

class Meter : private TimedEnd<Meter, uint64_t, 64> {
 public:
  Meter(LoopBack& ends, const MeterOptions& options) noexcept
      : TimedEnd(ends.near_end(), options.patience_ns), ends_(ends), options_(options) {}

  [[nodiscard]] Reported<PathFigures> run() {
    if (auto opened = open(); !opened) return report(opened.error());
    PathFigures figures;
    bool is_done = latency(figures.read, [this] { return read_once(); }) &&
                   latency(figures.message, [this] { return ask_once(); });
    for (size_t i = 0; i < kLargeBytes.size() && is_done; ++i) {
      PathFigures::Bandwidth& of = figures.large[i];
      of.request_bytes = kLargeBytes[i];
      is_done = bandwidth(Op::kRead, of.request_bytes, of.read_bytes_per_s) &&
                bandwidth(Op::kWrite, of.request_bytes, of.write_bytes_per_s);
    }
    if (!is_done) return broken();
    return figures;
  }

 private:
  friend class TimedEnd<Meter, uint64_t, 64>;

  [[nodiscard]] Reported<> open() {
    doing_ = "opening the channel";
    const Reported<bool> opened = connect(ends_.address());
    if (!opened) return report(opened.error());
    if (!*opened) return broken();
    return {};
  }

  [[nodiscard]] std::unexpected<Report> broken() const {
    const Report& why = ends_.last_refusal();
    const Code code = code_ == Code::kOk ? Code::kDeadlineExceeded : code_;
    if (!is_open_ && !why.what.empty()) return report(code, why.what, why.next);
    return report(code, fmt::format("{} failed: {}", doing_, info(code).sentence),
                  "see that the two ends reach each other, and that nothing between them drops packets");
  }

  void turn_far() noexcept {
    if (!is_open_) ends_.let_in();
    const size_t count = ends_.far_end().poll(far_completions_);
    for (const Completion& completion : std::span(far_completions_).first(count)) {
      if (completion.op == Op::kReceive) answer(completion);
    }
    ends_.far_end().flush();
  }

  static void answer(const Completion& message) noexcept {
    std::array<std::byte, kSmallBytes> bytes{};
    Request reply;
    reply.tail = {};
    reply.local = {bytes.data(), bytes.size()};
    // One is under way at a time, for which there is always room.
    (void)message.channel->post({&reply, 1});
  }

  [[nodiscard]] Request one_sided(Op op, size_t bytes) const noexcept {
    Request request;
    request.token = 1;
    request.local = {ends_.local(), bytes};
    request.remote = {
        .address = RemotePointer::at(LoopBack::kRegion, op == Op::kRead ? 0 : LoopBack::kAreaBytes),
        .key = ends_.key()};
    request.op = op;
    return request;
  }

  [[nodiscard]] bool read_once() noexcept {
    doing_ = "a READ of 8 B";
    return exchange(one_sided(Op::kRead, kSmallBytes), completed_);
  }

  [[nodiscard]] bool ask_once() noexcept {
    doing_ = "a message of 8 B";
    Request message;
    message.tail = {};
    message.local = {ends_.local(), kSmallBytes};
    return exchange(message, messages_);
  }

  template <typename Once>
  [[nodiscard]] bool latency(PathFigures::Latency& of, const Once& once) {
    // The first finds caches and translations cold.
    if (!once()) return false;
    Histogram samples;
    const Repetitions how = {
        .duration = options_.each_ns, .least = kMeterSamplesMin, .most = kMeterSamplesMax};
    if (!repeat(how, once, now_ns, [&](uint64_t ns) { samples.record(ns); })) return false;
    of = {.ns_p50 = samples.quantile(0.5), .ns_p99 = samples.quantile(0.99)};
    figure_done();
    return true;
  }

  [[nodiscard]] bool bandwidth(Op op, size_t bytes, uint64_t& bytes_per_s) {
    doing_ = fmt::format("a {} of {} KiB", op == Op::kRead ? "READ" : "WRITE", bytes / kKiB);
    const size_t under_way =
        std::clamp<size_t>(kBytesUnderWay / bytes, 1, std::min(kRequestsMax, channel_->capabilities().depth));
    const std::vector<Request> requests(under_way, one_sided(op, bytes));
    const std::optional<TimedFlow> flown = flow(requests, options_.each_ns);
    if (!flown) return false;
    bytes_per_s = static_cast<uint64_t>(static_cast<double>(flown->requests * bytes) / flown->seconds);
    figure_done();
    return true;
  }

  void figure_done() const {
    if (options_.on_figure) options_.on_figure();
  }

  LoopBack& ends_;
  const MeterOptions& options_;
  std::array<Completion, 64> far_completions_;
  std::string doing_;
};

}  // namespace

Reported<PathFigures> measure(LoopBack& ends, const MeterOptions& options) {
  return Meter(ends, options).run();
}

std::string latency_text(uint64_t ns) {
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < kMillisecond_ns) return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

std::string rate_text(uint64_t bytes_per_s) {
  const double rate = static_cast<double>(bytes_per_s);
  if (bytes_per_s >= 1'000'000'000) return fmt::format("{:.1f} GB/s", rate / 1e9);
  return fmt::format("{:.1f} MB/s", rate / 1e6);
}

std::string text(const PathFigures& figures) {
  std::string out = fmt::format("READ of 8 B {} (p99 {}), message and answer {} (p99 {})",
                                latency_text(figures.read.ns_p50), latency_text(figures.read.ns_p99),
                                latency_text(figures.message.ns_p50), latency_text(figures.message.ns_p99));
  for (const PathFigures::Bandwidth& of : figures.large) {
    out += fmt::format("; of {} READ {}, WRITE {}", bytes_text(of.request_bytes),
                       rate_text(of.read_bytes_per_s), rate_text(of.write_bytes_per_s));
  }
  return out;
}

}  // namespace refract::node
