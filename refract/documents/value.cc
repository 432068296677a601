// SPDX-License-Identifier: Apache-2.0
#include "refract/documents/value.h"

#include <algorithm>

#include "refract/base/check.h"

namespace refract::documents {

Value::Value(std::initializer_list<Part> parts) {
  const bool is_object = std::ranges::all_of(parts, [](const Part& part) {
    const std::span<const Value> pair = part.value.elements();
    return pair.size() == 2 && pair[0].is_text();
  });
  if (!is_object || parts.size() == 0) {
    *this = array(parts);
    return;
  }
  std::vector<Member> members;
  members.reserve(parts.size());
  for (const Part& part : parts) {
    auto& pair = std::get<std::vector<Value>>(part.value.content_);
    members.push_back({std::move(std::get<std::string>(pair[0].content_)), std::move(pair[1])});
  }
  content_ = std::move(members);
}

Value::Value() noexcept = default;
Value::Value(double number) : content_(number) {}
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value Value::array(std::initializer_list<Part> parts) {
  Value value;
  auto& elements = value.content_.emplace<std::vector<Value>>();
  elements.reserve(parts.size());
  for (const Part& part : parts) elements.push_back(std::move(part.value));
  return value;
}

Value Value::object() {
  Value value;
  value.content_.emplace<std::vector<Member>>();
  return value;
}

bool Value::as_bool() const {
  REFRACT_CHECK(is_bool());
  return *std::get_if<bool>(&content_);
}
int64_t Value::as_integer() const {
  REFRACT_CHECK(is_integer());
  return *std::get_if<int64_t>(&content_);
}
uint64_t Value::as_unsigned() const {
  REFRACT_CHECK(is_unsigned());
  return *std::get_if<uint64_t>(&content_);
}
double Value::as_number() const {
  REFRACT_CHECK(is_number());
  if (is_unsigned()) return static_cast<double>(as_unsigned());
  return is_integer() ? static_cast<double>(as_integer()) : *std::get_if<double>(&content_);
}
const std::string& Value::as_text() const {
  REFRACT_CHECK(is_text());
  return *std::get_if<std::string>(&content_);
}

std::span<const Value> Value::elements() const noexcept {
  const auto* elements = std::get_if<std::vector<Value>>(&content_);
  return elements == nullptr ? std::span<const Value>() : *elements;
}

std::span<const Member> Value::members() const noexcept {
  const auto* members = std::get_if<std::vector<Member>>(&content_);
  return members == nullptr ? std::span<const Member>() : *members;
}

const Value* Value::find(std::string_view name) const noexcept {
  const std::span<const Member> all = members();
  const auto found = std::ranges::find(all, name, &Member::name);
  return found == all.end() ? nullptr : &found->value;
}

void Value::push_back(Value value) {
  if (std::holds_alternative<std::monostate>(content_)) content_.emplace<std::vector<Value>>();
  REFRACT_CHECK(is_array());
  std::get_if<std::vector<Value>>(&content_)->push_back(std::move(value));
}

Value& Value::operator[](std::string_view name) {
  if (const Value* found = find(name)) return const_cast<Value&>(*found);
  append_member(std::string(name), {});
  return std::get_if<std::vector<Member>>(&content_)->back().value;
}

void Value::update(const Value& object) {
  for (const Member& member : object.members()) (*this)[member.name] = member.value;
}

void Value::append_member(std::string name, Value value) {
  if (std::holds_alternative<std::monostate>(content_)) content_.emplace<std::vector<Member>>();
  REFRACT_CHECK(is_object());
  auto& members = *std::get_if<std::vector<Member>>(&content_);
  if (members.empty()) members.reserve(4);  // Small objects are made often.
  members.push_back({std::move(name), std::move(value)});
}

}  // namespace refract::documents
