// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/command_docs.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "refract/doors/admin/command_texts.h"
#include "refract/doors/redis/words.h"

namespace refract::doors::redis {
namespace {

using Parts = std::vector<std::string_view>;

void tell_set(Reply& reply, const Parts& parts, bool are_simple) {
  reply.set(parts.size());
  for (const std::string_view part : parts) {
    if (are_simple) reply.simple(part);
    if (!are_simple) reply.bulk(part);
  }
}

bool has_flag(const Row& row, std::string_view flag) {
  const Parts flags = parts_of(row.flags, ' ');
  return std::ranges::find(flags, flag) != flags.end();
}

// Where keys stand, and what becomes of them: places one behind the other, or one for all.
void tell_keys(Reply& reply, const Row& row, const CommandText& text) {
  const Parts places = parts_of(text.key_flags, '|');
  reply.set(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    reply.map(3);
    reply.bulk("flags");
    tell_set(reply, parts_of(places[i], ' '), /*are_simple=*/true);
    reply.bulk("begin_search");
    reply.map(2);
    reply.bulk("type");
    reply.bulk("index");
    reply.bulk("spec");
    reply.map(1);
    reply.bulk("index");
    reply.number(row.first_key + static_cast<int64_t>(i));
    reply.bulk("find_keys");
    reply.map(2);
    reply.bulk("type");
    reply.bulk("range");
    reply.bulk("spec");
    reply.map(3);
    const int last = row.last_key < 0 ? row.last_key : row.last_key - row.first_key;
    reply.bulk("lastkey");
    reply.number(places.size() == 1 ? last : 0);
    reply.bulk("keystep");
    reply.number(places.size() == 1 ? row.key_step : 1);
    reply.bulk("limit");
    reply.number(0);
  }
}

std::string_view type_named(char letter) noexcept {
  constexpr std::pair<char, std::string_view> kTypes[] = {
      {'k', "key"},       {'s', "string"},     {'i', "integer"}, {'d', "double"}, {'p', "pattern"},
      {'u', "unix-time"}, {'t', "pure-token"}, {'o', "oneof"},   {'b', "block"}};
  for (const auto& [one, name] : kTypes) {
    if (one == letter) return name;
  }
  return "string";
}

// One argument of a text's list.
struct Argument {
  std::string_view name;
  char type = 's';
  std::optional<int> keys;
  std::string_view token;
  std::string_view since;
  std::string_view deprecated;
  Parts flags;
  std::string_view parts;  // Empty: it has none.
};

Argument argument_of(std::string_view text) {
  Argument argument;
  const size_t open = text.find('(');
  if (open != std::string_view::npos) {
    argument.parts = text.substr(open + 1, text.size() - open - 2);
    text = text.substr(0, open);
  }
  for (; !text.empty() && std::string_view("?*+").contains(text.back()); text.remove_suffix(1)) {
    const char mark = text.back();
    argument.flags.insert(argument.flags.begin(), mark == '?'   ? "optional"
                                                  : mark == '*' ? "multiple"
                                                                : "multiple_token");
  }
  const size_t comma = std::min(text.find(','), text.size() - 1);
  argument.name = text.substr(0, comma);
  text.remove_prefix(comma + 1);
  if (!text.empty()) argument.type = text.front();
  const auto behind = [text](char mark) {
    const size_t at = text.find(mark, 1);
    if (at == std::string_view::npos) return std::string_view();
    return text.substr(at + 1, text.find_first_of("#=@~", at + 1) - at - 1);
  };
  if (const std::string_view keys = behind('#'); !keys.empty()) argument.keys = keys.front() - '0';
  argument.token = behind('=');
  argument.since = behind('@');
  argument.deprecated = behind('~');
  return argument;
}

// Those of a list, whose parts may be lists.
Parts arguments_in(std::string_view list) {
  Parts found;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ' ';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != ' ' || depth != 0) continue;
    if (i > begin) found.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return found;
}

void tell_arguments(Reply& reply, std::string_view list) {
  const Parts arguments = arguments_in(list);
  reply.array(arguments.size());
  for (const std::string_view text : arguments) {
    const Argument one = argument_of(text);
    const std::pair<std::string_view, std::string_view> words[] = {
        {"token", one.token}, {"since", one.since}, {"deprecated_since", one.deprecated}};
    size_t count = 2 + (one.keys ? 1 : 0) + (one.flags.empty() ? 0 : 1) + (one.parts.empty() ? 0 : 1);
    for (const auto& [name, word] : words) count += word.empty() ? 0 : 1;
    reply.map(count);
    reply.bulk("name");
    reply.bulk(one.name);
    reply.bulk("type");
    reply.bulk(type_named(one.type));
    if (one.keys) {
      reply.bulk("key_spec_index");
      reply.number(*one.keys);
    }
    for (const auto& [name, word] : words) {
      if (word.empty()) continue;
      reply.bulk(name);
      reply.bulk(word);
    }
    if (!one.flags.empty()) {
      reply.bulk("flags");
      tell_set(reply, one.flags, /*are_simple=*/true);
    }
    if (!one.parts.empty()) {
      reply.bulk("arguments");
      tell_arguments(reply, one.parts);
    }
  }
}

std::span<const Row> subrows_of(const Row& row) noexcept {
  return row.subcommands == nullptr ? std::span<const Row>() : row.subcommands();
}

constexpr CommandText kNoText{.name = "", .since = "", .group = "", .summary = ""};

const CommandText& text_or_none(const Row& row) noexcept {
  const CommandText* const text = text_of(row.name);
  return text == nullptr ? kNoText : *text;
}

}  // namespace

std::vector<std::string_view> parts_of(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(mark), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

const CommandText* text_of(std::string_view name) noexcept {
  for (const std::span<const CommandText> texts : {texts_of_keys(), texts_of_others()}) {
    const auto found = std::ranges::lower_bound(texts, name, {}, &CommandText::name);
    if (found != texts.end() && found->name == name) return &*found;
  }
  return nullptr;
}

std::vector<std::string_view> categories_of(const Row& row) {
  constexpr std::string_view kInOrder[] = {"@keyspace",  "@read",       "@write",      "@string",
                                           "@pubsub",    "@admin",      "@fast",       "@slow",
                                           "@dangerous", "@connection", "@transaction"};
  const Parts said = parts_of(text_or_none(row).categories, ' ');
  const bool is_admin = has_flag(row, "admin");
  const bool is_fast = has_flag(row, "fast");
  std::vector<std::string_view> categories;
  for (const std::string_view category : kInOrder) {
    const bool is_said = std::ranges::find(said, category.substr(1)) != said.end();
    const bool is_so = (category == "@read" && has_flag(row, "readonly")) ||
                       (category == "@write" && has_flag(row, "write")) ||
                       (category == "@pubsub" && has_flag(row, "pubsub")) ||
                       (category == "@admin" && is_admin) || (category == "@dangerous" && is_admin) ||
                       (category == "@fast" && is_fast) || (category == "@slow" && !is_fast);
    if (is_said || is_so) categories.push_back(category);
  }
  return categories;
}

bool has_keys(const Row& row) noexcept {
  return row.first_key != 0 && text_or_none(row).key_flags != "not_key";
}

void tell_info(Reply& reply, const Row& row) {
  const CommandText& text = text_or_none(row);
  reply.array(10);
  reply.bulk(row.name);
  reply.number(row.arity);
  tell_set(reply, parts_of(row.flags, ' '), /*are_simple=*/true);
  for (const int place : {row.first_key, row.last_key, row.key_step}) reply.number(place);
  tell_set(reply, categories_of(row), /*are_simple=*/true);
  tell_set(reply, parts_of(text.tips, ' '), /*are_simple=*/false);
  tell_keys(reply, row, text);
  const std::span<const Row> rows = subrows_of(row);
  reply.set(rows.size());
  for (const Row& one : rows) tell_info(reply, one);
}

void tell_docs(Reply& reply, const Row& row) {
  const CommandText& text = text_or_none(row);
  const std::span<const Row> rows = subrows_of(row);
  const std::pair<std::string_view, std::string_view> words[] = {
      {"summary", text.summary}, {"since", text.since}, {"group", text.group}};
  size_t count = (text.arguments.empty() ? 0 : 1) + (rows.empty() ? 0 : 1);
  for (const auto& [name, word] : words) count += word.empty() ? 0 : 1;
  reply.bulk(row.name);
  reply.map(count);
  for (const auto& [name, word] : words) {
    if (word.empty()) continue;
    reply.bulk(name);
    reply.bulk(word);
  }
  if (!text.arguments.empty()) {
    reply.bulk("arguments");
    tell_arguments(reply, text.arguments);
  }
  if (rows.empty()) return;
  reply.bulk("subcommands");
  reply.map(rows.size());
  for (const Row& one : rows) tell_docs(reply, one);
}

std::vector<std::string_view> keys_of(const Row& row, Words words) {
  std::vector<std::string_view> keys;
  const auto count = static_cast<int64_t>(words.size());
  const int64_t last = row.last_key < 0 ? count + row.last_key : row.last_key;
  if (last >= count) return keys;
  keys.reserve(words.size());
  for (int64_t i = row.first_key; i <= last; i += row.key_step) keys.push_back(words[static_cast<size_t>(i)]);
  return keys;
}

// SET reads what was there only where it is asked for it.
std::vector<std::string_view> key_flags_of(const Row& row, Words words, size_t place) {
  const Parts places = parts_of(text_or_none(row).key_flags, '|');
  if (places.empty()) return {};
  std::vector<std::string_view> flags = parts_of(places[std::min(place, places.size() - 1)], ' ');
  if (std::erase(flags, "variable_flags") == 0 || row.name != "set") return flags;
  if (std::ranges::any_of(words, [](std::string_view word) { return is(word, "get"); })) return flags;
  return {"OW", "update"};
}

}  // namespace refract::doors::redis
