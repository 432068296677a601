// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/history.h"

#include <fmt/format.h>

namespace refract::linearizability {
namespace {

std::string outcome_text(const Operation& operation) {
  switch (operation.outcome) {
    case Outcome::kDone:
      break;
    case Outcome::kAbsent:
      return "not found";
    case Outcome::kExists:
      return "exists";
    case Outcome::kMismatch:
      return operation.if_value != 0 ? "another value" : "version mismatch";
    case Outcome::kUnmet:
      return "not what was wanted";
    case Outcome::kUnknown:
      return "unknown";
    case Outcome::kRefused:
      return "refused";
  }
  const std::string version = operation.version == 0 ? "" : fmt::format("version {}", operation.version);
  if (operation.kind == Kind::kGet) {
    const std::string value = operation.value == 0 ? "an entry" : fmt::format("#{}", operation.value);
    return version.empty() ? value : fmt::format("{} of {}", value, version);
  }
  return version.empty() ? "done" : version;
}

uint32_t number_of(std::map<std::string, uint32_t, std::less<>>& numbers, std::vector<std::string>& names,
                   std::string_view name) {
  const auto [found, is_new] = numbers.try_emplace(std::string(name), static_cast<uint32_t>(names.size()));
  if (is_new) names.emplace_back(name);
  return found->second;
}

}  // namespace

std::string to_text(const Operation& operation) {
  std::string text = "get";
  if (operation.kind == Kind::kErase) text = "erase";
  if (operation.kind == Kind::kPut) text = fmt::format("put #{}", operation.value);
  if (operation.if_absent) text += " if absent";
  if (operation.if_value != 0) text += fmt::format(" if #{}", operation.if_value);
  if (operation.if_version != 0) text += fmt::format(" if version {}", operation.if_version);
  if (operation.may_expire()) text += " expiring";
  return fmt::format("{} -> {}", text, outcome_text(operation));
}

uint32_t Recorder::client(std::string_view name) {
  return number_of(clients_, history_.clients, name);
}

uint32_t Recorder::key(std::string_view name) {
  return number_of(keys_, history_.keys, name);
}

size_t Recorder::begin(Operation call, uint64_t now_ns) {
  call.began = ++clock_;
  call.began_ns = now_ns;
  call.ended = call.ended_ns = kNever;
  call.outcome = call.is_write() ? Outcome::kUnknown : Outcome::kRefused;
  history_.operations.push_back(call);
  return history_.operations.size() - 1;
}

void Recorder::end(size_t index, const Return& result) {
  Operation& operation = history_.operations[index];
  operation.ended = ++clock_;
  operation.ended_ns = result.now_ns;
  operation.outcome = result.outcome;
  operation.version = result.version;
  if (operation.kind == Kind::kGet) operation.value = result.value;
}

}  // namespace refract::linearizability
