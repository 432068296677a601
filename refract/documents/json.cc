// SPDX-License-Identifier: Apache-2.0
#include "refract/documents/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

class Writer {
 public:
  explicit Writer(bool is_page) : is_page_(is_page) {}

  void write(const Value& value) {
    if (value.is_object()) return write_members(value.members());
    if (value.is_array()) return write_elements(value.elements());
    if (value.is_text()) return write_text(value.as_text());
    if (value.is_bool()) {
      text_ += value.as_bool() ? "true" : "false";
    } else if (value.is_unsigned()) {
      fmt::format_to(std::back_inserter(text_), "{}", value.as_unsigned());
    } else if (value.is_integer()) {
      fmt::format_to(std::back_inserter(text_), "{}", value.as_integer());
    } else if (value.is_float()) {
      text_ += nlohmann::json(value.as_number()).dump();
    } else {
      text_ += "null";
    }
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void write_members(std::span<const Member> members) {
    std::vector<const Member*> ordered;
    ordered.reserve(members.size());
    for (const Member& member : members) ordered.push_back(&member);
    if (!is_page_) std::ranges::sort(ordered, {}, &Member::name);
    begin('{');
    for (const Member* member : ordered) {
      separate(member == ordered.front());
      write_text(member->name);
      text_ += is_page_ ? ": " : ":";
      write(member->value);
    }
    end('}', ordered.empty());
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
    text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  void begin(char bracket) {
    text_ += bracket;
    indent_ += 2;
  }
  void separate(bool is_first) {
    if (!is_first) text_ += ',';
    if (is_page_) text_.append(1, '\n').append(indent_, ' ');
  }
  void end(char bracket, bool is_empty) {
    indent_ -= 2;
    if (is_page_ && !is_empty) text_.append(1, '\n').append(indent_, ' ');
    text_ += bracket;
  }

  std::string text_;
  size_t indent_ = 0;
  bool is_page_;
};

}  // namespace

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
  Writer writer(/*is_page=*/false);
  writer.write(value);
  return writer.take();
}

std::string to_json_page(const Value& value) {
  Writer writer(/*is_page=*/true);
  writer.write(value);
  return writer.take() + "\n";
}

}  // namespace refract::documents
