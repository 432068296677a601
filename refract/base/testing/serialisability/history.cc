// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/history.h"

#include <fmt/format.h>

namespace refract::serialisability {
namespace {

uint32_t number_of(std::map<std::string, uint32_t, std::less<>>& numbers, std::vector<std::string>& names,
                   std::string_view name) {
  const auto [found, is_new] = numbers.try_emplace(std::string(name), static_cast<uint32_t>(names.size()));
  if (is_new) names.emplace_back(name);
  return found->second;
}

std::string condition_text(const Operation& operation) {
  switch (operation.want) {
    case Want::kAnything:
      return {};
    case Want::kAbsent:
      return " if absent";
    case Want::kPresent:
      return " if present";
    case Want::kVersion:
      return fmt::format(" if version {}", operation.want_version);
    case Want::kValue:
      return fmt::format(" if {}", operation.want_value);
  }
  return {};
}

std::string found_text(const Operation& operation) {
  if (operation.found == Found::kAbsent) return "absent";
  std::string text;
  if (operation.found_value) text = fmt::format("{}", *operation.found_value);
  if (operation.found_version != 0) {
    text += fmt::format("{}version {}", text.empty() ? "" : " of ", operation.found_version);
  }
  return text.empty() && operation.found == Found::kPresent ? "present" : text;
}

}  // namespace

std::string name_of(const std::vector<std::string>& names, uint32_t number) {
  return number < names.size() ? names[number] : fmt::format("{}", number);
}

std::string to_text(const History& history, const Operation& operation) {
  const std::string key = name_of(history.keys, operation.key);
  const std::string value = operation.value ? fmt::format("{}", *operation.value) : "?";
  std::string text;
  std::string told;
  switch (operation.kind) {
    case Kind::kGet:
      text = fmt::format("get {}", key);
      break;
    case Kind::kPut:
      text = fmt::format("put {}={}", key, value);
      break;
    case Kind::kErase:
      text = fmt::format("erase {}", key);
      break;
    case Kind::kAdd:
      text = fmt::format("add {} to {}", operation.amount, key);
      if (operation.value) told = fmt::format("sum {}", value);
      break;
  }
  text += condition_text(operation);
  const auto say = [&told](const std::string& more) {
    if (!more.empty()) told += (told.empty() ? "" : ", ") + more;
  };
  if (operation.condition == Condition::kUnmet) say("unmet");
  const std::string found = found_text(operation);
  if (!found.empty()) say(operation.kind == Kind::kGet ? found : "found " + found);
  if (operation.version != 0) say(fmt::format("version {}", operation.version));
  return told.empty() ? text : fmt::format("{} -> {}", text, told);
}

std::string to_text(const History& history, const Transaction& transaction) {
  std::string text;
  for (const Operation& operation : transaction.operations) {
    text += (text.empty() ? "" : "; ") + to_text(history, operation);
  }
  const char* outcome = transaction.outcome == Outcome::kCommitted ? "committed"
                        : transaction.outcome == Outcome::kUnknown ? "unknown"
                        : transaction.is_validated                 ? "refused, validated"
                                                                   : "refused";
  return fmt::format("{{{}}} {}", text, outcome);
}

uint32_t Recorder::client(std::string_view name) {
  return number_of(clients_, history_.clients, name);
}

uint32_t Recorder::key(std::string_view name) {
  return number_of(keys_, history_.keys, name);
}

size_t Recorder::begin(uint32_t client, uint64_t now_ns) {
  history_.transactions.push_back({.client = client, .began_ns = now_ns, .operations = {}});
  return history_.transactions.size() - 1;
}

void Recorder::add(size_t transaction, const Operation& operation) {
  history_.transactions[transaction].operations.push_back(operation);
}

void Recorder::end(size_t transaction, const End& end) {
  Transaction& ended = history_.transactions[transaction];
  ended.outcome = end.outcome;
  ended.is_validated = end.is_validated;
  ended.ended_ns = end.now_ns;
}

History merge(std::span<const History> histories) {
  History all;
  std::map<std::string, uint32_t, std::less<>> clients;
  std::map<std::string, uint32_t, std::less<>> keys;
  for (const History& one : histories) {
    for (Transaction transaction : one.transactions) {
      transaction.client = number_of(clients, all.clients, name_of(one.clients, transaction.client));
      for (Operation& operation : transaction.operations) {
        operation.key = number_of(keys, all.keys, name_of(one.keys, operation.key));
      }
      all.transactions.push_back(std::move(transaction));
    }
  }
  return all;
}

}  // namespace refract::serialisability
