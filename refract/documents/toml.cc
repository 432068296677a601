// SPDX-License-Identifier: Apache-2.0
#include "refract/documents/toml.h"

#include <fmt/core.h>

// clang-format off: the order matters.
#define TOML_EXCEPTIONS 0
// The library (3.3.0) asserts, and in release builds assumes, what input such as "[[[" makes false; the code
// behind those assertions copes with it. So its preprocessor.h comes first, and its assertions are taken out.
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT(condition) static_assert(true)
#define TOML_ASSERT_ASSUME(condition) static_assert(true)
#include <toml++/toml.h>
// clang-format on

namespace refract::documents {
namespace {

// The library refuses what is nested deeply.
Value value_of(const toml::node& node) {
  Value value;
  if (const toml::table* table = node.as_table()) {
    value = Value::object();
    for (const auto& [name, inner] : *table) {
      Value member = value_of(inner);
      member.set_line(name.source().begin.line);
      value.append_member(std::string(name.str()), std::move(member));
    }
  } else if (const toml::array* array = node.as_array()) {
    value = Value::array();
    for (const toml::node& element : *array) value.push_back(value_of(element));
  } else if (const auto text = node.value_exact<std::string>()) {
    value = *text;
  } else if (const auto number = node.value_exact<int64_t>()) {
    value = *number;
  } else if (const auto real = node.value_exact<double>()) {
    value = *real;
  } else if (const auto truth = node.value_exact<bool>()) {
    value = *truth;
  }
  value.set_line(node.source().begin.line);
  return value;
}

}  // namespace

Reported<Value> parse_toml(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return report(Code::kInvalidArgument,
                  fmt::format("{}:{}: not TOML: {}", path, error.source().begin.line, error.description()));
  }
  return value_of(parsed.table());
}

}  // namespace refract::documents
