// SPDX-License-Identifier: Apache-2.0
#include "apps/progress/progress.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "refract/base/printable.h"

namespace refract::progress {
namespace {

constexpr double kSmoothing_s = 3;
constexpr size_t kBarCells = 20;
// Back to the line's beginning, and clear what stands there.
constexpr std::string_view kWipe = "\r\x1b[K";

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

std::string rate_text(double per_s) {
  return per_s < 10 ? fmt::format("{:.1f}", per_s) : count_text(static_cast<uint64_t>(per_s));
}

// Terminals count letters, not bytes; a letter begins with a byte that continues none.
std::string cut_to_columns(const std::string& text, size_t columns) {
  size_t letters = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && ++letters > columns) return text.substr(0, at);
  }
  return text;
}

}  // namespace

Style style_of(int descriptor) noexcept {
  Style style;
  const char* terminal =
      std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): nothing here changes the environment.
  const bool able = terminal != nullptr && std::string_view(terminal) != "dumb";
  style.terminal = able && ::isatty(descriptor) == 1;
  winsize size = {};
  if (style.terminal && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.columns = size.ws_col;
  return style;
}

std::function<void(std::string_view)> write_to_descriptor(int descriptor) {
  return [descriptor](std::string_view text) {
    while (!text.empty()) {
      const ssize_t put = ::write(descriptor, text.data(), text.size());
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return;
      text.remove_prefix(static_cast<size_t>(put));
    }
  };
}

std::string count_text(uint64_t count) {
  std::string text = fmt::format("{}", count);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string duration_text(double time_s) {
  if (time_s < 0.95) return fmt::format("{:.1f} s", std::max(time_s, 0.0));
  const auto whole = static_cast<uint64_t>(std::min(time_s + 0.5, 1e12));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

Progress::Progress(const Clock& clock, std::function<void(std::string_view)> write, Style style,
                   std::string label, std::string unit)
    : clock_(clock),
      write_(std::move(write)),
      style_(style),
      label_(std::move(label)),
      unit_(std::move(unit)),
      start_ns_(clock.now_ns()),
      next_draw_ns_(start_ns_ + (style.terminal ? kRedraw_ns : kPlain_ns)),
      sampled_ns_(start_ns_) {}

std::optional<double> Progress::share(Done done) const {
  const auto of = [](uint64_t part, uint64_t whole) {
    return whole == 0 ? 1.0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  };
  if (total_.bytes) return of(done.bytes, *total_.bytes);
  if (total_.count) return of(done.count, *total_.count);
  return std::nullopt;
}

void Progress::sample(uint64_t now_ns, Done done) {
  if (now_ns <= sampled_ns_) return;
  const double elapsed_s = seconds(now_ns - sampled_ns_);
  // A caller that starts over gives smaller figures; that is a rate of zero and not an enormous one.
  const auto gained = [](uint64_t now, uint64_t before) {
    return static_cast<double>(now > before ? now - before : 0);
  };
  const double weight = sampled_once_ ? 1 - std::exp(-elapsed_s / kSmoothing_s) : 1;
  count_per_s_ += weight * (gained(done.count, sampled_.count) / elapsed_s - count_per_s_);
  bytes_per_s_ += weight * (gained(done.bytes, sampled_.bytes) / elapsed_s - bytes_per_s_);
  sampled_once_ = true;
  sampled_ns_ = now_ns;
  sampled_ = done;
}

std::string Progress::figures(Done done) const {
  std::string text = fmt::format("{} {}", count_text(done.count), unit_);
  if (done.bytes > 0) text += "  " + bytes_text(done.bytes);
  return text;
}

std::string Progress::line(Done done) const {
  std::string text = label_;
  const std::optional<double> part = share(done);
  if (part) {
    // Never "100 %" while something is left to do.
    const auto percent = static_cast<uint64_t>(*part * 100);
    text += fmt::format("  {:2} %", percent);
    if (style_.terminal) {
      const auto cells = static_cast<size_t>(*part * static_cast<double>(kBarCells));
      text += fmt::format(" [{}{}]", std::string(cells, '#'), std::string(kBarCells - cells, '.'));
    }
  }
  text += fmt::format("  {}  {}/s", figures(done), rate_text(count_per_s_));
  if (!part) return text;
  const bool by_bytes = total_.bytes.has_value();
  const uint64_t whole = by_bytes ? *total_.bytes : *total_.count;
  const uint64_t now = by_bytes ? done.bytes : done.count;
  const double per_s = by_bytes ? bytes_per_s_ : count_per_s_;
  if (now >= whole) return text;
  const double left_s = static_cast<double>(whole - now) / per_s;
  return text +
         (per_s > 0 && left_s < 100 * 3600 ? fmt::format("  {} left", duration_text(left_s)) : "  stalled");
}

void Progress::draw(Done done) {
  if (style_.terminal) {
    // One column less: some terminals wrap as soon as the last one is filled.
    write_(std::string(kWipe) + cut_to_columns(line(done), std::max<size_t>(style_.columns, 2) - 1));
    drawn_ = true;
  } else {
    write_(line(done) + "\n");
  }
}

void Progress::update(Done done) {
  if (style_.silent) return;
  const uint64_t now_ns = clock_.now_ns();
  if (now_ns < next_draw_ns_) return;
  next_draw_ns_ = now_ns + (style_.terminal ? kRedraw_ns : kPlain_ns);
  sample(now_ns, done);
  draw(done);
}

void Progress::message(std::string_view text) {
  std::string out = drawn_ ? std::string(kWipe) : std::string();
  out.append(printable(text, LineBreaks::kKept)).push_back('\n');
  write_(out);
  if (!drawn_) return;
  draw(sampled_);
}

void Progress::finish(Done done) {
  if (style_.silent) return;
  const double time_s = seconds(clock_.now_ns() - start_ns_);
  const double per_s =
      time_s > 0 ? static_cast<double>(done.count) / time_s : static_cast<double>(done.count);
  const std::string text = fmt::format("{}  done: {} in {}, {}/s\n", label_, figures(done),
                                       duration_text(time_s), rate_text(per_s));
  write_(drawn_ ? std::string(kWipe) + text : text);
  drawn_ = false;
}

}  // namespace refract::progress
