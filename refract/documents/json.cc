// SPDX-License-Identifier: Apache-2.0
#include "refract/documents/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "refract/base/printable.h"

namespace refract::documents {
namespace {

// What the library has read is not deeper than kJsonDepthMax, so that neither is this.
Value value_of(const nlohmann::json& json) {
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::json::value_t::number_integer:
      return json.get<int64_t>();
    case nlohmann::json::value_t::number_unsigned:
      return json.get<uint64_t>();
    case nlohmann::json::value_t::number_float:
      return json.get<double>();
    case nlohmann::json::value_t::string:
      return json.get_ref<const std::string&>();
    case nlohmann::json::value_t::array: {
      Value array = Value::array();
      for (const nlohmann::json& element : json) array.push_back(value_of(element));
      return array;
    }
    case nlohmann::json::value_t::object: {
      Value object = Value::object();
      for (const auto& [name, value] : json.items()) object.append_member(name, value_of(value));
      return object;
    }
    case nlohmann::json::value_t::null:
    case nlohmann::json::value_t::binary:
    case nlohmann::json::value_t::discarded:
      break;
  }
  return {};
}

// The letter that stands for this byte behind a backslash, 'u' for the long form, 0 for no escape at all.
char escape_letter(char byte) noexcept {
  switch (byte) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return static_cast<unsigned char>(byte) < 0x20 ? 'u' : '\0';
  }
}

enum class Form : uint8_t { kLine, kRow, kPage };

class Writer {
 public:
  explicit Writer(Form form) : form_(form) { text_.reserve(128); }

  void write(const Value& value) {
    if (value.is_object()) return write_members(value.members());
    if (value.is_array()) return write_elements(value.elements());
    if (value.is_text()) return write_text(value.as_text());
    if (value.is_bool()) {
      text_ += value.as_bool() ? "true" : "false";
    } else if (value.is_unsigned()) {
      text_ += fmt::format_int(value.as_unsigned()).str();
    } else if (value.is_integer()) {
      text_ += fmt::format_int(value.as_integer()).str();
    } else if (value.is_float()) {
      text_ += nlohmann::json(value.as_number()).dump();
    } else {
      text_ += "null";
    }
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void write_members(std::span<const Member> members) {
    begin('{');
    if (form_ != Form::kLine) {
      for (const Member& member : members) write_member(member, &member == members.data());
    } else {
      std::vector<const Member*> ordered;
      ordered.reserve(members.size());
      for (const Member& member : members) ordered.push_back(&member);
      std::ranges::sort(ordered, {}, &Member::name);
      for (const Member* member : ordered) write_member(*member, member == ordered.front());
    }
    end('}', members.empty());
  }
  void write_member(const Member& member, bool is_first) {
    separate(is_first);
    write_text(member.name);
    text_ += form_ == Form::kLine ? ":" : ": ";
    write(member.value);
  }
  void write_elements(std::span<const Value> elements) {
    begin('[');
    for (const Value& element : elements) {
      separate(&element == elements.data());
      write(element);
    }
    end(']', elements.empty());
  }
  void write_text(const std::string& text) {
    const bool is_text = is_utf8(text);
    if (!is_text && form_ != Form::kRow) {
      text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      return;
    }
    text_ += '"';
    if (is_text) {
      append_escaped(text_, text);
    } else {
      append_escaped(text_, printable(text));
    }
    text_ += '"';
  }
  void begin(char bracket) {
    text_ += bracket;
    indent_ += 2;
  }
  void separate(bool is_first) {
    if (!is_first) text_ += form_ == Form::kRow ? ", " : ",";
    if (form_ == Form::kPage) text_.append(1, '\n').append(indent_, ' ');
  }
  void end(char bracket, bool is_empty) {
    indent_ -= 2;
    if (form_ == Form::kPage && !is_empty) text_.append(1, '\n').append(indent_, ' ');
    text_ += bracket;
  }

  std::string text_;
  size_t indent_ = 0;
  Form form_;
};

}  // namespace

void append_escaped(std::string& out, std::string_view text) {
  size_t plain = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char letter = escape_letter(text[at]);
    if (letter == 0) continue;
    out.append(text.substr(plain, at - plain));
    plain = at + 1;
    out.push_back('\\');
    out.push_back(letter);
    if (letter != 'u') continue;
    constexpr std::string_view kDigits = "0123456789abcdef";
    out.append("00");
    out.push_back(kDigits[static_cast<size_t>(text[at]) >> 4]);
    out.push_back(kDigits[static_cast<size_t>(text[at]) & 15]);
  }
  out.append(text.substr(plain));
}

size_t escaped_bytes(std::string_view text) noexcept {
  size_t bytes = text.size();
  for (const char byte : text) {
    const char letter = escape_letter(byte);
    if (letter != 0) bytes += letter == 'u' ? 5 : 1;
  }
  return bytes;
}

std::optional<Value> parse_json(std::string_view text) {
  bool is_too_deep = false;
  // The library itself counts no depth; a reader of trees would run out of its stack.
  const auto accept = [&is_too_deep](int depth, nlohmann::json::parse_event_t /*event*/,
                                     const nlohmann::json& /*parsed*/) {
    is_too_deep = is_too_deep || depth > kJsonDepthMax;
    return !is_too_deep;
  };
  const auto json = nlohmann::json::parse(text, accept, /*allow_exceptions=*/false);
  if (is_too_deep || json.is_discarded()) return {};
  return value_of(json);
}

std::string to_json_line(const Value& value) {
  Writer writer(Form::kLine);
  writer.write(value);
  return writer.take();
}

std::string to_json_row(const Value& value) {
  Writer writer(Form::kRow);
  writer.write(value);
  return writer.take() + "\n";
}

std::string to_json_page(const Value& value) {
  Writer writer(Form::kPage);
  writer.write(value);
  return writer.take() + "\n";
}

}  // namespace refract::documents
