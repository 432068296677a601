// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/register_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refract::linearizability {
namespace {

using Words = std::vector<std::string_view>;

// What stands in brackets or in quotes is one word.
Words words_of(std::string_view line) {
  constexpr std::string_view kBetween = " \t\r,{}";
  Words words;
  while (true) {
    const size_t from = line.find_first_not_of(kBetween);
    if (from == std::string_view::npos) return words;
    line.remove_prefix(from);
    size_t end = line.find_first_of(kBetween);
    if (line.front() == '[') end = line.find(']');
    if (line.front() == '"') end = line.find('"', 1);
    const bool is_group = line.front() == '[' || line.front() == '"';
    end = end == std::string_view::npos ? line.size() : end + (is_group ? 1 : 0);
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

struct Line {
  std::string_view process;
  std::string_view type;
  std::string_view function;
  std::string_view value;
  bool has_error = false;
};

std::optional<Line> line_of(std::string_view text) {
  if (text.find('{') != std::string_view::npos) {
    Line line;
    const Words words = words_of(text);
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      if (words[i] == ":process") line.process = words[i + 1];
      if (words[i] == ":type") line.type = words[i + 1];
      if (words[i] == ":f") line.function = words[i + 1];
      if (words[i] == ":value") line.value = words[i + 1];
      if (words[i] == ":error") line.has_error = true;
    }
    return line;
  }
  // Behind the logger's name.
  const size_t name = text.find(" - ");
  const Words words = words_of(name == std::string_view::npos ? text : text.substr(name + 3));
  if (words.size() < 4) return std::nullopt;
  return Line{.process = words[0],
              .type = words[1],
              .function = words[2],
              .value = words[3],
              .has_error = words.size() > 4};
}

bool is_number(std::string_view word) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

class Reader {
 public:
  explicit Reader(const RegisterOptions& options) : options_(options), key_(recorder_.key("register")) {
    if (options.initial.empty()) return;
    const size_t first = recorder_.begin({.client = recorder_.client("initial"),
                                          .key = key_,
                                          .kind = Kind::kPut,
                                          .value = number_of(options.initial)},
                                         0);
    recorder_.end(first, {.outcome = Outcome::kDone});
  }

  // Empty, or what is wrong with the line.
  [[nodiscard]] std::string take(const Line& line) {
    if (!is_number(line.process)) return {};
    if (line.type == ":invoke") return begin(line);
    if (line.type != ":ok" && line.type != ":fail" && line.type != ":info") {
      return fmt::format("an operation is '{}'; it can be :invoke, :ok, :fail or :info", line.type);
    }
    const auto open = open_.find(std::string(line.process));
    if (open == open_.end()) return fmt::format("process {} ends what it has not begun", line.process);
    const size_t index = open->second;
    open_.erase(open);
    if (line.type != ":info") end(index, line);
    return {};
  }

  [[nodiscard]] const History& history() const noexcept { return recorder_.history(); }

 private:
  // "nil" has none.
  [[nodiscard]] uint64_t number_of(std::string_view value) {
    return values_.try_emplace(std::string(value), values_.size() + 1).first->second;
  }

  [[nodiscard]] std::string begin(const Line& line) {
    Operation call{.client = recorder_.client(line.process), .key = key_};
    if (line.function == ":write") {
      if (line.value == "nil") return "a write of nil: registers are written with values";
      call.kind = Kind::kPut;
      call.value = number_of(line.value);
    } else if (line.function == ":cas") {
      const bool is_pair = line.value.starts_with('[') && line.value.ends_with(']');
      const Words both = is_pair ? words_of(line.value.substr(1, line.value.size() - 2)) : Words{};
      if (both.size() != 2) return fmt::format("a :cas of '{}'; it wants two values, [old new]", line.value);
      call.kind = Kind::kPut;
      call.if_value = number_of(both[0]);
      call.value = number_of(both[1]);
    } else if (line.function != ":read") {
      return fmt::format("'{}' is no operation of a register: :read, :write and :cas are", line.function);
    }
    const auto [open, is_new] = open_.try_emplace(std::string(line.process), 0);
    if (!is_new) return fmt::format("process {} begins an operation within another", line.process);
    open->second = recorder_.begin(call, recorder_.moment());
    return {};
  }

  void end(size_t index, const Line& line) {
    const Operation& call = recorder_.operation(index);
    Recorder::Return result{.now_ns = recorder_.moment()};
    if (line.type == ":ok") {
      const bool is_nil = call.kind == Kind::kGet && line.value == "nil";
      result.outcome = is_nil ? Outcome::kAbsent : Outcome::kDone;
      if (call.kind == Kind::kGet && !is_nil) result.value = number_of(line.value);
    } else if (call.if_value != 0 && options_.failed_cas_tells_value && !line.has_error) {
      result.outcome = Outcome::kUnmet;
    }
    recorder_.end(index, result);
  }

  RegisterOptions options_;
  Recorder recorder_;
  uint32_t key_;
  std::map<std::string, uint64_t> values_;
  std::map<std::string, size_t> open_;  // By process.
};

}  // namespace

Reported<History> read_register_history(std::string_view text, const RegisterOptions& options) {
  Reader reader(options);
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words_of(row).empty()) continue;
    const std::optional<Line> line = line_of(row);
    const std::string wrong = line ? reader.take(*line) : "it has no process, type, operation and value";
    if (!wrong.empty()) return report(Code::kMalformed, fmt::format("line {}: {}", number, wrong));
  }
  return reader.history();
}

}  // namespace refract::linearizability
