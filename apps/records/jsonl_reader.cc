// SPDX-License-Identifier: Apache-2.0
// JSON lines: one object a line.
#include <fmt/format.h>

#include <algorithm>

#include "apps/records/json_text.h"
#include "apps/records/stream_readers.h"

#include "refract/base/printable.h"

namespace refract::records {
namespace {

constexpr std::string_view kShape = R"({"key": "...", "value": ...}, or --key-field NAME)";

class JsonlReader final : public StreamReader {
 public:
  JsonlReader(Input input, std::string name, const ReadOptions& options) noexcept
      : StreamReader(std::move(input), std::move(name), options.limits), key_field_(options.key_field) {
    format_ = Format::kJsonl;
    input_.skip_byte_order_mark();
  }

  [[nodiscard]] Next next(Record& record) noexcept override;

 private:
  bool fill(Record& record, std::string_view text) noexcept;
  bool take(Record& record, const JsonMember& member) noexcept;
  bool take_key_field(Record& record, const JsonMember& member) noexcept;
  bool refuse(std::string what, std::string_view expected) noexcept;
  std::string_view plain_name(const JsonMember& member) noexcept;

  std::string key_field_;
  std::string name_scratch_;
  uint64_t record_line_ = 1;
  bool has_key_ = false;
  bool has_value_ = false;
};

bool JsonlReader::refuse(std::string what, std::string_view expected) noexcept {
  complain(record_line_, std::move(what), std::string(expected));
  return false;
}

std::string_view JsonlReader::plain_name(const JsonMember& member) noexcept {
  if (member.name.find('\\') == std::string_view::npos) return member.name;
  name_scratch_.clear();
  append_json_unescaped(name_scratch_, member.name);
  return name_scratch_;
}

void append_content(std::string& out, const JsonMember& member) {
  if (member.kind == JsonKind::kString) {
    append_json_unescaped(out, member.value);
  } else {
    out.append(member.value);
  }
}

bool JsonlReader::take(Record& record, const JsonMember& member) noexcept {
  const std::string_view name = plain_name(member);
  const bool is_key = name.starts_with("key");
  const std::string_view encoding = name.substr(std::min<size_t>(name.size(), is_key ? 3 : 5));
  if ((!is_key && !name.starts_with("value")) || (!encoding.empty() && encoding != "_base64")) {
    return refuse(fmt::format("the member '{}' would be lost", name.substr(0, 100)), kShape);
  }
  bool& has = is_key ? has_key_ : has_value_;
  if (has) return refuse(fmt::format("there are two {}s", is_key ? "key" : "value"), "one");
  has = true;
  std::string& target = is_key ? record.key : record.value;
  if (encoding.empty()) {
    if (is_key && member.kind != JsonKind::kString && member.kind != JsonKind::kNumber) {
      return refuse("the key is not a string and not a number", "a string");
    }
    append_content(target, member);
    return true;
  }
  if (member.kind != JsonKind::kString)
    return refuse(fmt::format("'{}' is no string", name), "base64 in quotes");
  std::string_view text = member.value;
  std::string unescaped;  // Some encoders write "/" as "\/".
  if (text.find('\\') != std::string_view::npos) {
    append_json_unescaped(unescaped, text);
    text = unescaped;
  }
  return append_base64_decoded(target, text) || refuse(fmt::format("'{}' is no base64", name),
                                                       "A-Z a-z 0-9 + / in groups of four, filled up with =");
}

bool JsonlReader::take_key_field(Record& record, const JsonMember& member) noexcept {
  if (plain_name(member) != key_field_) return true;
  if (has_key_) return refuse(fmt::format("there are two members '{}'", key_field_), "one");
  has_key_ = true;
  if (member.kind != JsonKind::kString && member.kind != JsonKind::kNumber) {
    return refuse(fmt::format("'{}' is not a string and not a number", key_field_), "a key");
  }
  append_content(record.key, member);
  return true;
}

bool JsonlReader::fill(Record& record, std::string_view text) noexcept {
  record.key.clear();
  record.value.clear();
  record.place = {.file = name_, .line = record_line_};
  has_key_ = false;
  has_value_ = false;
  if (!is_utf8(text))
    return refuse("the line is not UTF-8", "UTF-8, with key_base64 and value_base64 for other bytes");
  JsonObject object(text);
  JsonMember member;
  while (object.next(member)) {
    if (!(key_field_.empty() ? take(record, member) : take_key_field(record, member))) return false;
  }
  if (!object.fault().empty()) {
    return refuse(fmt::format("this is no JSON object: {} at byte {}", object.fault(), object.offset() + 1),
                  kShape);
  }
  if (key_field_.empty()) {
    if (!has_key_ || !has_value_) return refuse(has_key_ ? "there is no value" : "there is no key", kShape);
  } else {
    if (!has_key_) return refuse(fmt::format("there is no member '{}'", key_field_), "it, by --key-field");
    const size_t begin = text.find('{');
    record.value.append(text.substr(begin, text.rfind('}') + 1 - begin));
  }
  return check_limits(record);
}

Next JsonlReader::next(Record& record) noexcept {
  for (;;) {
    std::string_view text;
    record_line_ = line_++;
    switch (next_line(input_, limits_.text_bytes_max(), text)) {
      case Line::kEnd:
        return end();
      case Line::kTooLong:
        return complain(record_line_, "the line is too long",
                        fmt::format("at most {} bytes", limits_.text_bytes_max()));
      case Line::kText:
        break;
    }
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    return fill(record, text) ? Next::kRecord : Next::kBad;
  }
}

}  // namespace

std::unique_ptr<RecordReader> open_jsonl(Input input, std::string name, const ReadOptions& options) {
  return std::make_unique<JsonlReader>(std::move(input), std::move(name), options);
}

}  // namespace refract::records
