// SPDX-License-Identifier: Apache-2.0
#include "refract/arguments/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace refract::arguments {
namespace {

// The same for every variable that the library can fill.
struct AddOption {
  CLI::App& app;
  const Option& row;

  CLI::Option* operator()(bool* to) const { return app.add_flag(row.names, *to, row.help); }
  CLI::Option* operator()(Given* /*to*/) const {
    // Filled afterwards: for a variable of its own the library takes "{}" for an empty list.
    return app.add_option(row.names, CLI::callback_t(), row.help)->type_name("TEXT");
  }
  CLI::Option* operator()(const Named& to) const {
    const auto store = [to](const std::vector<std::string>& words) {
      std::vector<size_t> places;
      places.reserve(words.size());
      for (const std::string& word : words) {
        places.push_back(static_cast<size_t>(std::ranges::find(to.names, word) - to.names.begin()));
      }
      to.store(places);
    };
    if (to.is_list) {
      return app.add_option_function<std::vector<std::string>>(row.names, store, row.help)
          ->check(CLI::IsMember(to.names));
    }
    const auto store_one = [store](const std::string& word) { store({word}); };
    return app.add_option_function<std::string>(row.names, store_one, row.help)
        ->check(CLI::IsMember(to.names));
  }
  template <typename Value>
  CLI::Option* operator()(Value* to) const {
    return app.add_option(row.names, *to, row.help);
  }
};

struct AddLimit {
  CLI::Option& option;

  void operator()(std::monostate /*none*/) const {}
  void operator()(Sign sign) const {
    if (sign == Sign::kPositive) {
      option.check(CLI::PositiveNumber);
    } else {
      option.check(CLI::NonNegativeNumber);
    }
  }
  void operator()(const std::vector<std::string>& words) const { option.check(CLI::IsMember(words)); }
  template <typename Number>
  void operator()(Between<Number> range) const {
    option.check(CLI::Range(range.least, range.most));
  }
};

}  // namespace

struct Command::Library {
  // A program's own, or one of the commands that it has.
  std::unique_ptr<CLI::App> own;
  CLI::App* app = nullptr;
  CommandRules rules;
  std::vector<std::pair<CLI::Option*, Given*>> given;
  std::vector<std::unique_ptr<Command>> commands;
};

const std::string& Given::last() const {
  static const std::string kNothing;
  return words.empty() ? kNothing : words.back();
}

Command::Command(std::string about, CommandRules rules) : library_(std::make_unique<Library>()) {
  library_->own = std::make_unique<CLI::App>(std::move(about));
  library_->app = library_->own.get();
  library_->rules = rules;
  if (!rules.has_help) library_->app->set_help_flag();
  library_->app->require_subcommand(rules.needs_command ? 1 : 0, 1);
  library_->app->allow_extras(rules.keeps_unknown);
}

Command::Command(Library& above, const std::string& name, std::string help)
    : library_(std::make_unique<Library>()) {
  library_->app = above.app->add_subcommand(name, std::move(help));
  library_->app->allow_extras(above.rules.keeps_unknown);
}

Command::~Command() = default;

void Command::add(Option row) {
  CLI::Option* option = std::visit(AddOption{*library_->app, row}, row.to);
  std::visit(AddLimit{*option}, row.limit);
  if (!row.excludes.empty()) option->excludes(library_->app->get_option(row.excludes));
  if (row.is_required) option->required();
  if (row.shows_default) option->capture_default_str();
  if (row.may_be_bare) option->expected(0, 1);
  if (row.last_counts) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (row.separator != '\0') option->delimiter(row.separator);
  if (auto* const* given = std::get_if<Given*>(&row.to)) library_->given.emplace_back(option, *given);
}

Command& Command::add_command(const std::string& name, std::string help) {
  library_->commands.push_back(std::unique_ptr<Command>(new Command(*library_, name, std::move(help))));
  return *library_->commands.back();
}

void Command::fill_given() {
  for (const auto& [option, to] : library_->given) {
    if (option->count() > 0) *to = {.is_there = true, .words = option->results()};
  }
  for (const auto& command : library_->commands) command->fill_given();
}

CommandRead Command::read(std::span<const char* const> words) {
  CommandRead read;
  // The library wants them last one first.
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {  // tidy: allow(throw) The library reports by exceptions; they end below.
    library_->app->parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {  // tidy: allow(throw) Likewise.
    read.wants_help = true;
  } catch (const CLI::ParseError& error) {  // tidy: allow(throw) Likewise.
    read.refused = error.what();
  }
  for (const auto& command : library_->commands) {
    if (!command->was_named()) continue;
    read.command = command->name();
    read.unknown_after_it = command->library_->app->remaining();
  }
  read.unknown = library_->app->remaining();
  fill_given();
  return read;
}

std::optional<int> Command::read_or_print(int argc, const char* const* argv) {
  try {  // tidy: allow(throw) The library reports by exceptions; they end below.
    library_->app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // tidy: allow(throw) Likewise; help is one of them.
    return library_->app->exit(error);
  }
  fill_given();
  return {};
}

std::string Command::name() const {
  return library_->app->get_name();
}

bool Command::was_named() const {
  return library_->app->parsed();
}

bool Command::has(const std::string& option) const {
  return library_->app->count(option) > 0;
}

std::vector<std::string> Command::long_names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : library_->app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace refract::arguments
