// SPDX-License-Identifier: Apache-2.0
// Debian's package stanzas, separated by blank lines.
#include <fmt/format.h>

#include <algorithm>

#include "apps/records/debian_text.h"
#include "apps/records/stream_readers.h"

namespace refract::records {
namespace {

class DebianReader final : public StreamReader {
 public:
  DebianReader(Input input, std::string name, const ReadOptions& options) noexcept
      : StreamReader(std::move(input), std::move(name), options.limits) {
    format_ = Format::kDebian;
    input_.skip_byte_order_mark();
  }

  [[nodiscard]] Next next(Record& record) noexcept override;

 private:
  Line find_stanza(std::string_view& stanza) noexcept;
  bool skip_blank_lines() noexcept;
  bool line_at(size_t begin, size_t& end) noexcept;

  StanzaFault fault_;
};

// The end of the line that begins at `begin` of the view, growing the view until it is there; at the end of
// the input the end of the view. False where the line is longer than a stanza may be, with `end` at most
// where the line ends: how much of it has arrived must not matter, so its own length decides, even where it
// is blank.
bool DebianReader::line_at(size_t begin, size_t& end) noexcept {
  const size_t line_bytes_max = limits_.value_bytes_max + 2;
  size_t scanned = begin;
  for (;;) {
    const std::string_view view = input_.view();
    const size_t line_break = view.find('\n', scanned);
    end = std::min(line_break, view.size());
    if (end - begin > line_bytes_max) return false;
    if (line_break != std::string_view::npos) return true;
    scanned = end;
    if (!input_.more()) return true;
  }
}

// False at the end of the input.
bool DebianReader::skip_blank_lines() noexcept {
  for (;;) {
    size_t end = 0;
    if (!line_at(0, end)) return true;  // Too long a line: what comes next will say so.
    const std::string_view view = input_.view();
    if (view.empty() || input_.error() != 0) return false;
    if (!is_blank_line(view.substr(0, end))) return true;
    ++line_;
    input_.consume(std::min(end + 1, view.size()));
  }
}

Line DebianReader::find_stanza(std::string_view& stanza) noexcept {
  size_t begin = 0;  // Of the line in hand.
  bool too_long = false;
  bool inside_line = false;  // The line's beginning has been thrown away, so it is not blank.
  for (;;) {
    size_t end = 0;
    const bool whole = line_at(begin, end);
    const std::string_view view = input_.view();
    const bool last = end == view.size();
    if (whole && input_.error() != 0 && last) return Line::kEnd;
    if (whole && !inside_line && is_blank_line(view.substr(begin, end - begin))) {
      // Also the nothing behind the last line break. `begin` is behind a line break, which is not the
      // stanza's.
      stanza = view.substr(0, begin == 0 ? 0 : begin - 1);
      input_.consume(std::min(end + 1, view.size()));
      return too_long ? Line::kTooLong : Line::kText;
    }
    if (whole && last) {
      stanza = view;
      input_.consume(view.size());
      return too_long || stanza.size() > limits_.value_bytes_max ? Line::kTooLong : Line::kText;
    }
    inside_line = !whole;
    too_long = too_long || end > limits_.value_bytes_max;
    begin = whole ? end + 1 : end;
    if (!too_long) continue;
    line_ += static_cast<uint64_t>(std::ranges::count(view.substr(0, begin), '\n'));
    input_.consume(begin);
    begin = 0;
  }
}

Next DebianReader::next(Record& record) noexcept {
  if (!skip_blank_lines()) return end();
  const uint64_t first_line = line_;
  std::string_view stanza;
  switch (find_stanza(stanza)) {
    case Line::kEnd:
      return end();
    case Line::kTooLong:
      ++line_;
      return complain(first_line, "the stanza is too long",
                      fmt::format("at most {} bytes", limits_.value_bytes_max));
    case Line::kText:
      break;
  }
  // The stanza's lines, and the blank one behind them.
  line_ += static_cast<uint64_t>(std::ranges::count(stanza, '\n')) + 2;
  if (!stanza_key(stanza, record.key, fault_)) {
    return complain(first_line + fault_.line, std::move(fault_.what), std::move(fault_.expected));
  }
  record.value.assign(stanza);
  record.place = {.file = name_, .line = first_line};
  return check_limits(record) ? Next::kRecord : Next::kBad;
}

}  // namespace

std::unique_ptr<RecordReader> open_debian(Input input, std::string name, const ReadOptions& options) {
  return std::make_unique<DebianReader>(std::move(input), std::move(name), options);
}

}  // namespace refract::records
