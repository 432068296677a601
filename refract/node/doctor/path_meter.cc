// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/path_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "refract/base/clock.h"
#include "refract/base/histogram.h"
#include "refract/memory/host/limits.h"

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
constexpr uint32_t kTurnsBetweenClocks = 64;

class Meter {
 public:
  Meter(LoopBack& ends, const MeterOptions& options) noexcept : ends_(ends), options_(options) {}

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
  [[nodiscard]] static uint64_t now_ns() noexcept { return system_clock().now_ns(); }

  [[nodiscard]] Reported<> open() {
    auto channel = ends_.near_end().connect(ends_.address());
    if (!channel) return report(channel.error());
    channel_ = *channel;
    doing_ = "opening the channel";
    if (!wait([this] { return is_open_; })) return broken();
    return {};
  }

  [[nodiscard]] std::unexpected<Report> broken() const {
    const Report& why = ends_.last_refusal();
    const Code code = code_ == Code::kOk ? Code::kDeadlineExceeded : code_;
    if (!is_open_ && !why.what.empty()) return report(code, why.what, why.next);
    return report(code, fmt::format("{} failed: {}", doing_, info(code).sentence),
                  "see that the two ends reach each other, and that nothing between them drops packets");
  }

  void turn() noexcept {
    if (!is_open_) ends_.let_in();
    size_t count = ends_.near_end().poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) hear(completion);
    count = ends_.far_end().poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) {
      if (completion.op == Op::kReceive) answer(completion);
    }
    ends_.far_end().flush();
    ends_.near_end().flush();
  }

  void hear(const Completion& completion) noexcept {
    ++signs_of_life_;
    if (completion.code != Code::kOk && code_ == Code::kOk) code_ = completion.code;
    switch (completion.op) {
      case Op::kOpened:
        is_open_ = completion.code == Code::kOk;
        break;
      case Op::kClosed:
        if (code_ == Code::kOk) code_ = Code::kUnavailable;
        break;
      case Op::kReceive:
        ++answers_;
        break;
      default:
        ++completed_;
    }
  }

  static void answer(const Completion& message) noexcept {
    std::array<std::byte, kSmallBytes> bytes{};
    Request reply;
    reply.tail = {};
    reply.local = {bytes.data(), bytes.size()};
    // One is under way at a time, for which there is always room.
    (void)message.channel->post({&reply, 1});
  }

  template <typename Done>
  [[nodiscard]] bool wait(const Done& done) noexcept {
    uint64_t signs = signs_of_life_;
    uint64_t since_ns = 0;
    for (uint32_t turns = 1; !done(); ++turns) {
      if (code_ != Code::kOk) return false;
      turn();
      if (turns % kTurnsBetweenClocks != 0) continue;
      if (since_ns == 0 || signs != signs_of_life_) since_ns = now_ns();
      signs = signs_of_life_;
      if (now_ns() - since_ns > options_.patience_ns) code_ = Code::kDeadlineExceeded;
    }
    return code_ == Code::kOk;
  }

  [[nodiscard]] bool post(const Request& request) noexcept {
    return wait([&] { return channel_->post({&request, 1}) == 1; });
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
    const uint64_t before = completed_;
    if (!post(one_sided(Op::kRead, kSmallBytes))) return false;
    ends_.near_end().flush();
    return wait([&] { return completed_ > before; });
  }

  [[nodiscard]] bool ask_once() noexcept {
    doing_ = "a message of 8 B";
    const uint64_t before = answers_;
    Request message;
    message.tail = {};
    message.local = {ends_.local(), kSmallBytes};
    if (!post(message)) return false;
    ends_.near_end().flush();
    return wait([&] { return answers_ > before; });
  }

  template <typename Once>
  [[nodiscard]] bool latency(PathFigures::Latency& of, const Once& once) {
    // The first finds caches and translations cold.
    if (!once()) return false;
    Histogram samples;
    const uint64_t end_ns = now_ns() + options_.each_ns;
    for (uint64_t now = now_ns(); samples.count() < kMeterSamplesMin || now < end_ns;) {
      if (!once()) return false;
      const uint64_t then = now_ns();
      samples.record(then - now);
      now = then;
      if (samples.count() == kMeterSamplesMax) break;
    }
    of = {.ns_p50 = samples.quantile(0.5), .ns_p99 = samples.quantile(0.99)};
    figure_done();
    return true;
  }

  [[nodiscard]] bool bandwidth(Op op, size_t bytes, uint64_t& bytes_per_s) {
    doing_ = fmt::format("a {} of {} KiB", op == Op::kRead ? "READ" : "WRITE", bytes / kKiB);
    const auto under_way_max = static_cast<uint64_t>(std::clamp<size_t>(
        kBytesUnderWay / bytes, 1, std::min(kRequestsMax, channel_->capabilities().depth)));
    const Request request = one_sided(op, bytes);
    const uint64_t first = completed_;
    const uint64_t begin_ns = now_ns();
    uint64_t posted = 0;
    uint64_t now = begin_ns;
    for (; now < begin_ns + options_.each_ns || posted < under_way_max; now = now_ns()) {
      if (!post(request)) return false;
      ++posted;
      ends_.near_end().flush();
      if (!wait([&] { return posted - (completed_ - first) < under_way_max; })) return false;
    }
    // With those that are still under way, for slow paths complete few in the time.
    if (!wait([&] { return completed_ - first == posted; })) return false;
    const double seconds = static_cast<double>(now_ns() - begin_ns) / 1e9;
    bytes_per_s = static_cast<uint64_t>(static_cast<double>(posted * bytes) / seconds);
    figure_done();
    return true;
  }

  void figure_done() const {
    if (options_.on_figure) options_.on_figure();
  }

  LoopBack& ends_;
  const MeterOptions& options_;
  fabric::Channel* channel_ = nullptr;
  std::array<Completion, 64> completions_;
  std::string doing_;
  Code code_ = Code::kOk;  // Of the first thing that failed.
  bool is_open_ = false;
  uint64_t signs_of_life_ = 0;
  uint64_t completed_ = 0;
  uint64_t answers_ = 0;
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
