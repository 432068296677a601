// SPDX-License-Identifier: Apache-2.0
// How far a long command has come: one line that is redrawn on a terminal, a plain line every few seconds
// elsewhere.
//
//   loading status  41 % [########............]  412,000 records  303.1 MiB  61,200/s  7 s left
//
// update() costs one reading of the clock, so it may be called for every record. Time comes from the Clock
// handed in. Threads: one. Nothing here fails: what cannot be written to the terminal is not worth stopping
// for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "refract/base/clock.h"
#include "refract/base/units.h"

namespace refract::progress {

// Counts and bytes so far.
struct Done {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

// What the share and the time left are reckoned from, where it is known; bytes before count.
struct Total {
  std::optional<uint64_t> count;
  std::optional<uint64_t> bytes;
};

struct Style {
  bool terminal = false;  // Redraw one line; else plain lines.
  bool silent = false;    // --no-progress: only message() is written.
  size_t columns = 80;    // A redrawn line must not wrap.
};

// For a descriptor (the standard error's): whether it is a terminal that can go back to the line's beginning,
// and how wide it is now.
[[nodiscard]] Style style_of(int descriptor) noexcept;

// Writes to a descriptor, as Progress needs it; errors are dropped.
[[nodiscard]] std::function<void(std::string_view)> write_to_descriptor(int descriptor);

class Progress {
 public:
  static constexpr uint64_t kRedraw_ns = 100 * kMillisecond_ns;
  static constexpr uint64_t kPlain_ns = 5 * kSecond_ns;

  // `clock` must outlive the object. `label` is "loading status", `unit` is "records".
  Progress(const Clock& clock, std::function<void(std::string_view)> write, Style style, std::string label,
           std::string unit);

  void set_total(Total total) noexcept { total_ = total; }

  // How much is done since the beginning, not since the last call.
  void update(Done done);

  // A line of its own, above the redrawn one; without line break. Also written when silent. What a terminal
  // would obey is spelled.
  void message(std::string_view text);

  // The last line, with the whole time and the mean rate. Nothing may follow.
  void finish(Done done);

 private:
  void sample(uint64_t now_ns, Done done);
  void draw(Done done);
  [[nodiscard]] std::string line(Done done) const;
  [[nodiscard]] std::string figures(Done done) const;
  [[nodiscard]] std::optional<double> share(Done done) const;

  const Clock& clock_;
  std::function<void(std::string_view)> write_;
  Style style_;
  std::string label_;
  std::string unit_;
  Total total_;
  uint64_t start_ns_;
  uint64_t next_draw_ns_;
  uint64_t sampled_ns_;
  Done sampled_;
  double count_per_s_ =
      0;  // Smoothed over some seconds, so that the time left follows a change and does not jump.
  double bytes_per_s_ = 0;
  bool sampled_once_ = false;
  bool drawn_ = false;  // A redrawn line stands on the terminal.
};

// "1,234,567"; "1.5 MiB"; "1 h 02 min", "3 min 07 s", "7 s", "0.4 s".
[[nodiscard]] std::string count_text(uint64_t count);
[[nodiscard]] std::string bytes_text(uint64_t bytes);
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace refract::progress
