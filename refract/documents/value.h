// SPDX-License-Identifier: Apache-2.0
// A document as a tree of values, whatever it was read from or is to be written as.
//
// Threads: any, each value one at a time. All of it allocates.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace refract::documents {

struct Member;

class Value {
 public:
  struct Part;

  Value() noexcept;  // Null.
  template <std::same_as<bool> Bool>
  Value(Bool truth);
  template <std::integral Number>
    requires(!std::same_as<Number, bool>)
  Value(Number number);
  Value(double number);
  template <std::convertible_to<std::string_view> Text>
  Value(const Text& text);
  template <std::ranges::input_range List>
    requires(!std::convertible_to<List, std::string_view> && !std::same_as<List, Value>)
  Value(const List& list);
  // An object where every part is a pair that begins with a text: {{"a", 1}, {"b", 2}}; else an array.
  Value(std::initializer_list<Part> parts);

  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  [[nodiscard]] static Value array(std::initializer_list<Part> parts = {});
  [[nodiscard]] static Value object();

  [[nodiscard]] bool is_bool() const noexcept { return std::holds_alternative<bool>(content_); }
  [[nodiscard]] bool is_integer() const noexcept { return std::holds_alternative<int64_t>(content_); }
  [[nodiscard]] bool is_unsigned() const noexcept { return std::holds_alternative<uint64_t>(content_); }
  [[nodiscard]] bool is_float() const noexcept { return std::holds_alternative<double>(content_); }
  [[nodiscard]] bool is_number() const noexcept { return is_integer() || is_unsigned() || is_float(); }
  [[nodiscard]] bool is_text() const noexcept { return std::holds_alternative<std::string>(content_); }
  [[nodiscard]] bool is_array() const noexcept {
    return std::holds_alternative<std::vector<Value>>(content_);
  }
  [[nodiscard]] bool is_object() const noexcept {
    return std::holds_alternative<std::vector<Member>>(content_);
  }

  // REQUIRES: it is one.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] int64_t as_integer() const;
  [[nodiscard]] uint64_t as_unsigned() const;
  [[nodiscard]] double as_number() const;  // Of any of the three.
  [[nodiscard]] const std::string& as_text() const;

  // Of an array; of all else there are none.
  [[nodiscard]] std::span<const Value> elements() const noexcept;
  [[nodiscard]] auto begin() const noexcept { return elements().begin(); }
  [[nodiscard]] auto end() const noexcept { return elements().end(); }
  // Of an object, in the order in which they came; likewise.
  [[nodiscard]] std::span<const Member> members() const noexcept;
  // Null: there is no such member. Looks at each.
  [[nodiscard]] const Value* find(std::string_view name) const noexcept;
  // Elements or members.
  [[nodiscard]] size_t size() const noexcept { return elements().size() + members().size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  // REQUIRES: an array, or null, which becomes one.
  void push_back(Value value);
  // The member of this name, which is made where it is not there. REQUIRES: an object, or null, which becomes
  // one.
  [[nodiscard]] Value& operator[](std::string_view name);
  // Adds the members of an object, or replaces them. REQUIRES: likewise.
  void update(const Value& object);
  // Adds a member without looking for it. REQUIRES: there is none of this name.
  void append_member(std::string name, Value value);

  // Of what a file holds, counted from 1; a member has its name's. 0: from no file.
  [[nodiscard]] uint32_t line() const noexcept { return line_; }
  void set_line(uint32_t line) noexcept { line_ = line; }

 private:
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, std::vector<Value>,
               std::vector<Member>>
      content_;
  uint32_t line_ = 0;
};

struct Member {
  std::string name;
  Value value;
};

// What stands in braces, so that it can be moved out of them.
struct Value::Part {
  template <typename Content>
    requires std::constructible_from<Value, Content>
  Part(Content&& content) : value(std::forward<Content>(content)) {}
  Part(std::initializer_list<Part> parts) : value(parts) {}

  mutable Value value;
};

template <std::same_as<bool> Bool>
Value::Value(Bool truth) : content_(truth) {}

template <std::integral Number>
  requires(!std::same_as<Number, bool>)
Value::Value(Number number) {
  if constexpr (std::is_signed_v<Number>) {
    content_ = static_cast<int64_t>(number);
  } else {
    content_ = static_cast<uint64_t>(number);
  }
}

template <std::convertible_to<std::string_view> Text>
Value::Value(const Text& text) : content_(std::string(std::string_view(text))) {}

template <std::ranges::input_range List>
  requires(!std::convertible_to<List, std::string_view> && !std::same_as<List, Value>)
Value::Value(const List& list) : content_(std::vector<Value>()) {
  for (const auto& element : list) push_back(element);
}

}  // namespace refract::documents
