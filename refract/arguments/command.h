// SPDX-License-Identifier: Apache-2.0
// A command line: options and commands as rows, each with the variable that it fills. A library reads the
// words; only command.cc knows which.
//
// Threads: one. What a row points to outlives the command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace refract::arguments {

// The words beside an option as they stood there, for a caller that reads them itself.
struct Given {
  bool is_there = false;
  std::vector<std::string> words;

  [[nodiscard]] const std::string& last() const;  // Empty where there is no word.
};

// One of the names, or several of them. `store` gets their places in `names`.
struct Named {
  std::vector<std::string> names;
  std::function<void(const std::vector<size_t>&)> store;
  bool is_list = false;
};
template <typename Value>
[[nodiscard]] Named one_of(const std::map<std::string, Value>& values, Value& to);
template <typename Value>
[[nodiscard]] Named some_of(const std::map<std::string, Value>& values, std::vector<Value>& to);

// A bool is a flag: no word follows it.
using Destination = std::variant<bool*, int*, uint32_t*, uint64_t*, double*, std::string*,
                                 std::vector<std::string>*, std::vector<uint64_t>*, Given*, Named>;

using Words = std::vector<std::string>;
enum class Sign { kPositive, kNotNegative };
template <typename Number>
struct Between {
  Number least;
  Number most;
};
using Limit = std::variant<std::monostate, Sign, Between<int>, Between<uint64_t>, Between<double>,
                           Words>;  // The last: one of these.

struct Option {
  std::string names;  // "-o,--output"; without a dash: an argument by its position.
  Destination to;
  std::string help = {};
  Limit limit = {};
  std::string excludes = {};  // An option of an earlier row.
  bool is_required = false;
  bool shows_default = false;  // In the help: what the variable holds before.
  bool may_be_bare = false;    // The word may be left out.
  bool last_counts = false;    // Given twice, it is no error.
  char separator = '\0';       // Between several words in one.
};

struct CommandRules {
  bool needs_command = false;
  bool keeps_unknown = false;  // Unknown words are left to the caller, else refused.
  bool has_help = true;        // -h and --help.
};

// What was read, beside the variables of the rows.
struct CommandRead {
  bool wants_help = false;
  std::string refused;                        // The library's words; empty: nothing was wrong.
  std::string command;                        // Empty: none was named.
  std::vector<std::string> unknown;           // Words before a command, or without one.
  std::vector<std::string> unknown_after_it;  // Likewise behind the command.
};

class Command {
 public:
  explicit Command(std::string about = {}, CommandRules rules = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  void add(Option option);
  // The returned one lives as long as this one, and has its rules.
  Command& add_command(const std::string& name, std::string help = {});

  // Once. The words without the program's name.
  [[nodiscard]] CommandRead read(std::span<const char* const> words);
  // Likewise, for a program that leaves help and errors to the library, which prints them: the exit code
  // then, and nothing where the program is to go on.
  [[nodiscard]] std::optional<int> read_or_print(int argc, const char* const* argv);

  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool was_named() const;                       // As a command.
  [[nodiscard]] bool has(const std::string& option) const;    // Was it given?
  [[nodiscard]] std::vector<std::string> long_names() const;  // "--ttl", of all options.

 private:
  struct Library;
  Command(Library& above, const std::string& name, std::string help);
  void fill_given();

  std::unique_ptr<Library> library_;
};

template <typename Value>
Named some_of(const std::map<std::string, Value>& values, std::vector<Value>& to) {
  Named named = {.names = {}, .store = {}, .is_list = true};
  std::vector<Value> all;
  for (const auto& [name, value] : values) {
    named.names.push_back(name);
    all.push_back(value);
  }
  named.store = [all = std::move(all), &to](const std::vector<size_t>& chosen) {
    to.clear();
    for (const size_t index : chosen) to.push_back(all[index]);
  };
  return named;
}

template <typename Value>
Named one_of(const std::map<std::string, Value>& values, Value& to) {
  Named named = {.names = {}, .store = {}};
  std::vector<Value> all;
  for (const auto& [name, value] : values) {
    named.names.push_back(name);
    all.push_back(value);
  }
  named.store = [all = std::move(all), &to](const std::vector<size_t>& chosen) { to = all[chosen.back()]; };
  return named;
}

}  // namespace refract::arguments
