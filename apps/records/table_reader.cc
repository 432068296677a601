// SPDX-License-Identifier: Apache-2.0
// CSV and TSV: which columns there are, which is the key, and what becomes of the others.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "apps/records/csv_text.h"
#include "apps/records/json_text.h"
#include "apps/records/stream_readers.h"

#include "refract/base/printable.h"
#include "refract/documents/json.h"

namespace refract::records {
namespace {

enum class FieldEnd : uint8_t { kText, kTooLong, kUnclosed, kEnd };

class TableReader final : public StreamReader {
 public:
  TableReader(Input input, std::string name, Format dialect, const ReadOptions& options) noexcept
      : StreamReader(std::move(input), std::move(name), options.limits), dialect_(dialect) {
    format_ = dialect;
  }

  [[nodiscard]] Reported<> open(const ReadOptions& options);
  [[nodiscard]] Next next(Record& record) noexcept override;

 private:
  FieldEnd find(std::string_view& text) noexcept;
  FieldEnd find_csv(std::string_view& text) noexcept;
  FieldEnd end_csv(const CsvScanner& scanner, bool too_long, std::string_view& text) noexcept;
  bool split(std::string_view text) noexcept;
  bool append_decoded(std::string& out, std::string_view text, const Field& field) noexcept;
  bool fill(Record& record, std::string_view text) noexcept;
  bool fill_object(std::string& out, std::string_view text) noexcept;
  void fill_rest(std::string& out, std::string_view text) const noexcept;
  Reported<> take_header(std::string_view text, const std::string& key_column);
  std::string title(size_t column) const;

  Format dialect_;
  bool escapes_ = false;
  uint64_t record_line_ = 1;
  size_t key_index_ = 0;
  size_t column_count_ = 0;         // 0 until the header or the first good record has told.
  std::vector<std::string> names_;  // Empty without a header.
  std::vector<std::string> name_json_;
  std::vector<Field> fields_;
  std::string decoded_;
};

// Numbers from 1 by which --key-column names a column; nothing where it is a name.
std::optional<size_t> column_number(const std::string& text) {
  size_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || error != std::errc() || number == 0 || number > kColumnsMax) return std::nullopt;
  return number;
}

FieldEnd TableReader::end_csv(const CsvScanner& scanner, bool too_long, std::string_view& text) noexcept {
  if (too_long) return FieldEnd::kTooLong;
  const std::string_view rest = input_.view();
  if (rest.empty() || input_.error() != 0) return FieldEnd::kEnd;
  if (scanner.in_quotes()) {
    // One forgotten quote must cost its line and not the rest of the file, so reading continues behind the
    // first line.
    const size_t line_break = rest.find('\n');
    input_.consume(line_break == std::string_view::npos ? rest.size() : line_break + 1);
    ++line_;
    return FieldEnd::kUnclosed;
  }
  text = rest;
  line_ += static_cast<uint64_t>(std::ranges::count(text, '\n')) + 1;
  input_.consume(text.size());
  if (text.ends_with('\r')) text.remove_suffix(1);
  return FieldEnd::kText;
}

FieldEnd TableReader::find_csv(std::string_view& text) noexcept {
  CsvScanner scanner;
  bool too_long = false;
  for (;;) {
    const std::string_view view = input_.view();
    const bool complete = scanner.advance(view);
    too_long = too_long || scanner.end() > limits_.text_bytes_max();
    if (complete) {
      text = view.substr(0, scanner.end());
      line_ += static_cast<uint64_t>(std::ranges::count(text, '\n')) + 1;
      input_.consume(text.size() + 1);
      if (text.ends_with('\r')) text.remove_suffix(1);
      return too_long ? FieldEnd::kTooLong : FieldEnd::kText;
    }
    if (too_long) {
      line_ += static_cast<uint64_t>(std::ranges::count(view, '\n'));
      input_.consume(view.size());
      scanner.forget(view.size());
    }
    if (!input_.more()) return end_csv(scanner, too_long, text);
  }
}

FieldEnd TableReader::find(std::string_view& text) noexcept {
  record_line_ = line_;
  if (dialect_ == Format::kCsv) return find_csv(text);
  ++line_;
  switch (next_line(input_, limits_.text_bytes_max(), text)) {
    case Line::kText:
      return FieldEnd::kText;
    case Line::kTooLong:
      return FieldEnd::kTooLong;
    case Line::kEnd:
      break;
  }
  return FieldEnd::kEnd;
}

bool TableReader::split(std::string_view text) noexcept {
  const SplitFault fault = dialect_ == Format::kCsv ? split_csv(text, fields_) : split_tsv(text, fields_);
  const size_t column = fields_.size() + 1;
  switch (fault) {
    case SplitFault::kNone:
      return true;
    case SplitFault::kTextAfterQuote:
      complain(record_line_, fmt::format("there is text behind the closing quote of column {}", column),
               "a comma or the end of the line; a quote inside quotes is doubled");
      return false;
    case SplitFault::kUnclosedQuote:
      complain(record_line_, fmt::format("the quote of column {} is never closed", column),
               "a closing quote");
      return false;
    case SplitFault::kTooManyColumns:
      complain(record_line_, "the record has too many columns",
               fmt::format("at most {} columns", kColumnsMax));
      return false;
  }
  return false;
}

// While the header itself is read, its later columns have no names yet.
std::string TableReader::title(size_t column) const {
  return column >= names_.size() ? fmt::format("column {}", column + 1)
                                 : fmt::format("column '{}'", names_[column]);
}

bool TableReader::append_decoded(std::string& out, std::string_view text, const Field& field) noexcept {
  const std::string_view content = text.substr(field.begin, field.end - field.begin);
  if (field.quoted) {
    append_csv_unquoted(out, content);
  } else if (!escapes_) {
    out.append(content);
  } else if (!append_tsv_unescaped(out, content)) {
    const auto column = static_cast<size_t>(&field - fields_.data());
    complain(record_line_, fmt::format("{} has a backslash that begins no escape", title(column)),
             R"(\t, \n, \r or \\ )"
             "in a file of escapes");
    return false;
  }
  return true;
}

bool TableReader::fill_object(std::string& out, std::string_view text) noexcept {
  for (size_t column = 0; column < fields_.size(); ++column) {
    decoded_.clear();
    if (!append_decoded(decoded_, text, fields_[column])) return false;
    if (!is_utf8(decoded_)) {
      complain(record_line_,
               fmt::format("{} is not UTF-8, and the record is to become a JSON object", title(column)),
               "UTF-8, or a file of two columns, whose values may be any bytes");
      return false;
    }
    out.append(column == 0 ? "{" : ",");
    out.append(name_json_[column]);
    out.push_back('"');
    documents::append_escaped(out, decoded_);
    out.push_back('"');
  }
  out.push_back('}');
  return true;
}

// The other columns as they stand, with one separator less.
void TableReader::fill_rest(std::string& out, std::string_view text) const noexcept {
  const Field& key = fields_[key_index_];
  const size_t quote = key.quoted ? 1 : 0;
  const size_t begin = key.begin - quote;
  const size_t end = key.end + quote;
  if (begin > 0) out.append(text.substr(0, begin - 1));
  if (end < text.size()) out.append(text.substr(begin > 0 ? end : end + 1));
}

bool TableReader::fill(Record& record, std::string_view text) noexcept {
  record.key.clear();
  record.value.clear();
  if (!append_decoded(record.key, text, fields_[key_index_])) return false;
  if (fields_.size() == 2) {
    if (!append_decoded(record.value, text, fields_[1 - key_index_])) return false;
  } else if (!names_.empty()) {
    if (!fill_object(record.value, text)) return false;
  } else {
    fill_rest(record.value, text);
  }
  record.place = {.file = name_, .line = record_line_};
  return check_limits(record);
}

Next TableReader::next(Record& record) noexcept {
  for (;;) {
    std::string_view text;
    switch (find(text)) {
      case FieldEnd::kEnd:
        return end();
      case FieldEnd::kTooLong:
        return complain(record_line_, "the record is too long",
                        fmt::format("at most {} bytes of text", limits_.text_bytes_max()));
      case FieldEnd::kUnclosed:
        return complain(record_line_, "a quote that opens in this line is never closed", "a closing quote");
      case FieldEnd::kText:
        break;
    }
    if (text.empty()) continue;
    if (!split(text)) return Next::kBad;
    if (column_count_ != 0 && fields_.size() != column_count_) {
      return complain(
          record_line_, fmt::format("the record has {} columns", fields_.size()),
          fmt::format("{}, as {} has", column_count_, names_.empty() ? "the first record" : "the header"));
    }
    if (key_index_ >= fields_.size()) {
      return complain(record_line_, fmt::format("the record has {} columns", fields_.size()),
                      fmt::format("the key in column {}", key_index_ + 1));
    }
    if (!fill(record, text)) return Next::kBad;
    column_count_ = fields_.size();
    return Next::kRecord;
  }
}

Reported<> TableReader::take_header(std::string_view text, const std::string& key_column) {
  if (!split(text)) return report(Code::kMalformed, bad_.to_string());
  for (const Field& field : fields_) {
    std::string column;
    if (!append_decoded(column, text, field)) return report(Code::kMalformed, bad_.to_string());
    // Objects want distinct names, and UTF-8: what a header lacks is made up from the column's number.
    if (column.empty() || !is_utf8(column)) column = fmt::format("column_{}", names_.size() + 1);
    while (std::ranges::find(names_, column) != names_.end()) column += fmt::format("_{}", names_.size() + 1);
    std::string json = "\"";
    documents::append_escaped(json, column);
    name_json_.push_back(json + "\":");
    names_.push_back(std::move(column));
  }
  column_count_ = names_.size();
  const bool named = !key_column.empty() && !column_number(key_column);
  const auto found = std::ranges::find(names_, named ? key_column : "key");
  if (found != names_.end() && (named || key_column.empty())) {
    key_index_ = static_cast<size_t>(found - names_.begin());
  } else if (named || key_index_ >= names_.size()) {
    std::string known = names_[0];
    for (size_t i = 1; i < std::min<size_t>(names_.size(), 50); ++i) known += ", " + names_[i];
    return report(Code::kInvalidArgument, fmt::format("{} has no column '{}'", name_, key_column),
                  fmt::format("choose with --key-column one of: {}", known));
  }
  return {};
}

Reported<> TableReader::open(const ReadOptions& options) {
  const std::optional<size_t> number = column_number(options.key_column);
  if (number) key_index_ = *number - 1;
  input_.skip_byte_order_mark();
  const std::string_view plain = dialect_ == Format::kCsv ? "key,value" : "key\tvalue";
  // Only as much of the first line is looked at as it takes to tell that it is one of those dump writes.
  const auto peek_line = [&] {
    const size_t enough = kTsvMark.size() + 3;
    while (input_.view().size() < enough && input_.view().find('\n') == std::string_view::npos &&
           input_.more()) {
    }
    std::string_view line = input_.view().substr(0, enough);
    line = line.substr(0, line.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  };
  if (dialect_ == Format::kTsv) {
    escapes_ = options.escapes == Choice::kYes;
    if (options.escapes != Choice::kNo && peek_line() == kTsvMark) {
      escapes_ = true;
      std::string_view mark;
      (void)find(mark);
    }
  }
  const bool named = !options.key_column.empty() && !number;
  if (named && options.header == Choice::kNo) {
    return report(Code::kInvalidArgument,
                  fmt::format("without a header no column is called '{}'", options.key_column),
                  "give --key-column a number from 1");
  }
  const bool header =
      options.header == Choice::kYes || named || (options.header == Choice::kAuto && peek_line() == plain);
  if (!header) return {};
  std::string_view text;
  for (;;) {
    switch (find(text)) {
      case FieldEnd::kText:
        break;
      case FieldEnd::kEnd:
        return {};  // An empty file has no records; what made it unreadable, next() tells.
      default:
        return report(Code::kMalformed, fmt::format("{}:{}: the header has no end", name_, record_line_));
    }
    if (!text.empty()) return take_header(text, options.key_column);
  }
}

}  // namespace

Reported<std::unique_ptr<RecordReader>> open_table(Input input, std::string name, Format dialect,
                                                   const ReadOptions& options) {
  auto reader = std::make_unique<TableReader>(std::move(input), std::move(name), dialect, options);
  if (auto opened = reader->open(options); !opened) return report(std::move(opened.error()));
  return reader;
}

}  // namespace refract::records
