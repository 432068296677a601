// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/history_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace refract::serialisability {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"get", "put", "erase", "add"};
constexpr std::array<std::string_view, 3> kFound = {"", "absent", "present"};
constexpr std::array<std::string_view, 5> kWants = {"", "absent", "present", "version", "value"};
constexpr std::array<std::string_view, 3> kConditions = {"", "met", "unmet"};
// A refused one whose reads were valid has a word of its own.
constexpr std::array<std::string_view, 4> kOutcomes = {"committed", "unknown", "refused", "validated"};

template <typename T, size_t kCount>
std::optional<T> one_of(const std::array<std::string_view, kCount>& words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end() || word.empty()) return std::nullopt;
  return static_cast<T>(found - words.begin());
}

std::string text_of(const Operation& operation) {
  std::string text = fmt::format(" {} key={}", kKinds[static_cast<size_t>(operation.kind)], operation.key);
  const auto word = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format(" {}={}", name, value);
  };
  const auto number = [&](std::string_view name, auto value) {
    if (value != 0) text += fmt::format(" {}={}", name, value);
  };
  word("want", kWants[static_cast<size_t>(operation.want)]);
  word("condition", kConditions[static_cast<size_t>(operation.condition)]);
  number("want_version", operation.want_version);
  number("want_value", operation.want_value);
  word("found", kFound[static_cast<size_t>(operation.found)]);
  number("found_version", operation.found_version);
  if (operation.found_value) text += fmt::format(" found_value={}", *operation.found_value);
  number("version", operation.version);
  if (operation.value) text += fmt::format(" value={}", *operation.value);
  number("amount", operation.amount);
  return text + "\n";
}

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_value(std::string_view text, Value& value) {
  int64_t number = 0;
  if (!read_number(text, number)) return false;
  value = number;
  return true;
}

template <typename T, size_t kCount>
bool read_word(std::string_view text, const std::array<std::string_view, kCount>& words, T& value) {
  const std::optional<T> found = one_of<T>(words, text);
  if (found) value = *found;
  return found.has_value();
}

bool read_field(std::string_view name, std::string_view text, Operation& operation) {
  if (name == "key") return read_number(text, operation.key);
  if (name == "want") return read_word(text, kWants, operation.want);
  if (name == "condition") return read_word(text, kConditions, operation.condition);
  if (name == "want_version") return read_number(text, operation.want_version);
  if (name == "want_value") return read_number(text, operation.want_value);
  if (name == "found") return read_word(text, kFound, operation.found);
  if (name == "found_version") return read_number(text, operation.found_version);
  if (name == "found_value") return read_value(text, operation.found_value);
  if (name == "version") return read_number(text, operation.version);
  if (name == "value") return read_value(text, operation.value);
  return name == "amount" && read_number(text, operation.amount);
}

bool read_field(std::string_view name, std::string_view text, Transaction& transaction) {
  if (name == "client") return read_number(text, transaction.client);
  if (name == "began") return read_number(text, transaction.began_ns);
  return name == "ended" && read_number(text, transaction.ended_ns);
}

std::string_view next_word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

// The fields of one line. Empty, or what is wrong.
template <typename T>
std::string read_fields(std::string_view line, T& one) {
  while (!line.empty()) {
    const std::string_view word = next_word(line);
    const size_t middle = word.find('=');
    if (middle == std::string_view::npos) return fmt::format("'{}' is no field: fields are name=value", word);
    if (!read_field(word.substr(0, middle), word.substr(middle + 1), one)) {
      return fmt::format("'{}' is unknown, or its value is none of that field", word);
    }
  }
  return {};
}

std::string read_line(std::string_view line, History& history) {
  const bool is_operation = line.starts_with(' ');
  if (is_operation) line.remove_prefix(1);
  const std::string_view word = next_word(line);
  if (is_operation) {
    const auto kind = one_of<Kind>(kKinds, word);
    if (!kind) return fmt::format("'{}' is no operation: get, put, erase and add are", word);
    if (history.transactions.empty()) return "an operation stands in front of all transactions";
    Operation operation{.kind = *kind};
    std::string wrong = read_fields(line, operation);
    if (wrong.empty() && operation.key >= history.keys.size()) {
      wrong = fmt::format("there is no key {}; {} are named", operation.key, history.keys.size());
    }
    history.transactions.back().operations.push_back(operation);
    return wrong;
  }
  if (word == "client") {
    history.clients.emplace_back(line);
    return {};
  }
  if (word == "key") {
    history.keys.emplace_back(line);
    return {};
  }
  const auto outcome = one_of<size_t>(kOutcomes, word);
  if (!outcome) {
    return fmt::format("'{}' begins no line: client, key, committed, unknown, refused and validated do",
                       word);
  }
  Transaction transaction{.outcome = static_cast<Outcome>(std::min<size_t>(*outcome, 2)),
                          .is_validated = *outcome == 3,
                          .operations = {}};
  std::string wrong = read_fields(line, transaction);
  if (wrong.empty() && transaction.client >= history.clients.size()) {
    wrong = fmt::format("there is no client {}; {} are named", transaction.client, history.clients.size());
  }
  history.transactions.push_back(std::move(transaction));
  return wrong;
}

}  // namespace

std::string write_history(const History& history) {
  std::string text;
  for (const std::string& client : history.clients) text += fmt::format("client {}\n", client);
  for (const std::string& key : history.keys) text += fmt::format("key {}\n", key);
  for (const Transaction& one : history.transactions) {
    const bool is_validated = one.outcome == Outcome::kRefused && one.is_validated;
    text +=
        fmt::format("{} client={} began={}", kOutcomes[is_validated ? 3 : static_cast<size_t>(one.outcome)],
                    one.client, one.began_ns);
    if (one.ended_ns != kNever) text += fmt::format(" ended={}", one.ended_ns);
    text += "\n";
    for (const Operation& operation : one.operations) text += text_of(operation);
  }
  return text;
}

Reported<History> read_history(std::string_view text) {
  History history;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::string wrong = read_line(line, history);
    if (!wrong.empty()) return report(Code::kMalformed, fmt::format("line {}: {}", number, wrong));
  }
  return history;
}

}  // namespace refract::serialisability
