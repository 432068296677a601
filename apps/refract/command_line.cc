// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>

#include "apps/refract/help.h"
#include "apps/refract/terminal.h"

#include "refract/node/config/config.h"
#include "refract/node/config/knobs.h"

namespace refract::cli {
namespace {

// What the library fills; texts still, since it knows neither our durations nor our errors.
struct Texts {
  std::string timeout;
  std::string interval;
  std::string connections;
  std::string duration;
  std::string records;
  std::string ttl;
  std::string if_version;
  std::string limit;
  std::string at;
  std::string bucket;
  std::string shard;
  std::string file;
  std::string format;
  std::string header;
  std::string escapes;
  std::string config;
  std::string memory_limit;
  std::string memory_backing;
  std::string listen_address;
  std::string data_durability;
  std::string data_folder;
  // Beside `words`: the library takes "{}" for an empty list when it fills a variable, so keys and values are
  // taken from the option itself.
  std::vector<CLI::Option*> words;
};

void add_json(CLI::App& app, Invocation& to) {
  app.add_flag("--json", to.json);
}
void add_verbose(CLI::App& app, Invocation& to) {
  app.add_flag("-v,--verbose", to.verbose);
}
void add_verify(CLI::App& app, Invocation& to) {
  app.add_flag("--verify", to.verify);
}
void add_word(CLI::App& app, const char* name, Texts& texts) {
  texts.words.push_back(app.add_option(name));
}

void add_entry_commands(CLI::App& app, Invocation& to, Texts& texts) {
  const std::string command = app.get_name();
  add_word(app, "KEY", texts);
  add_verbose(app, to);
  if (command != "erase") add_verify(app, to);
  if (command == "get") {
    app.add_option("-o,--output", to.output);
    app.add_flag("--raw", to.raw);
    return;
  }
  add_json(app, to);
  if (command == "cas") add_word(app, "OLD", texts);
  if (command == "put" || command == "cas") {
    add_word(app, "VALUE", texts);
    app.add_option("-f,--file", texts.file);
    app.add_option("--ttl", texts.ttl);
  }
  if (command == "put") app.add_flag("--if-absent", to.if_absent);
  if (command != "cas") app.add_option("--if-version", texts.if_version);
}

void add_record_commands(CLI::App& app, Invocation& to, Texts& texts) {
  const std::string command = app.get_name();
  app.add_option("--prefix", to.prefix);
  if (command == "scan") {
    app.add_option("--limit", texts.limit);
    app.add_flag("-l,--long", to.long_lines);
    app.add_flag("-0,--null", to.zero_ends);
    app.add_flag("--raw", to.raw);
    add_json(app, to);
    return;
  }
  app.add_option("--format", texts.format);
  app.add_flag("--no-progress", to.no_progress);
  add_verify(app, to);
  if (command == "dump") {
    app.add_option("-o,--output", to.output);
    app.add_flag("--overwrite", to.overwrite);
    app.add_flag("--raw", to.raw);
    return;
  }
  app.add_option("FILE", to.files);
  app.add_option("--key-column", to.reading.key_column);
  app.add_option("--key-field", to.reading.key_field);
  app.add_option("--header", texts.header);
  app.add_option("--escapes", texts.escapes);
  app.add_option("--ttl", texts.ttl);
}

void add_node_commands(CLI::App& app, Invocation& to, Texts& texts) {
  const std::string command = app.get_name();
  add_json(app, to);
  if (command == "ping") app.add_flag("--why", to.why);
  if (command == "check") {
    app.add_option("PATH,--path", to.path);
    app.add_flag("--no-progress", to.no_progress);
  }
  if (command == "restore") {
    app.add_option("SOURCE", to.files);
    app.add_option("--to", to.target);
    app.add_flag("--salvage", to.salvage);
    app.add_flag("--no-progress", to.no_progress);
  }
  if (command == "snapshot") {
    app.add_flag("--no-wait", to.no_wait);
    app.add_flag("--no-progress", to.no_progress);
  }
  if (command == "doctor") {
    app.add_option("--config", texts.config);
    app.add_option("--memory-limit", texts.memory_limit);
    app.add_option("--memory-backing", texts.memory_backing);
    app.add_option("--listen-address", texts.listen_address);
    app.add_option("--data-durability", texts.data_durability);
    app.add_option("--data-folder", texts.data_folder);
    app.add_option("--peer", to.peer);
    app.add_flag("--no-self-test", to.no_self_test);
    app.add_flag("--no-progress", to.no_progress);
  }
}

void add_looking_commands(CLI::App& app, Invocation& to, Texts& texts) {
  if (app.get_name() == "top") {
    add_json(app, to);
    app.add_option("--interval", texts.interval);
    app.add_option("--connections", texts.connections);
    app.add_flag("--once", to.once);
    return;
  }
  for (const char* name : {"OPERATION", "KEY", "VALUE"}) add_word(app, name, texts);
  app.add_option("--for", texts.duration);
  app.add_option("--records", texts.records);
  app.add_flag("--chrome", to.chrome);
  app.add_option("-o,--output", to.output);
}

void add_memory_commands(CLI::App& app, Invocation& to, Texts& texts) {
  add_json(app, to);
  app.add_option("--shard", texts.shard);
  if (app.get_name() == "chain") {
    app.add_option("FILE", to.files);
    app.add_flag("--explain", to.explain);
    app.add_flag("--dry-run", to.dry_run);
    return;
  }
  add_word(app, "--key", texts);
  app.add_option("--at", texts.at);
  app.add_option("--bucket", texts.bucket);
  app.add_option("--layout", to.layout);
  app.add_option("--file", to.path);
}

void add_command(CLI::App& root, std::string_view name, Invocation& to, Texts& texts) {
  CLI::App& app = *root.add_subcommand(std::string(name));
  app.add_option("--socket", to.socket);
  app.add_option("--address", to.address);
  app.add_option("--secret-file", to.secret_file);
  app.add_option("--rdma-device", to.rdma_device);
  app.add_option("--timeout", texts.timeout);
  if (name == "get" || name == "put" || name == "erase" || name == "cas") {
    add_entry_commands(app, to, texts);
  } else if (name == "scan" || name == "load" || name == "dump") {
    add_record_commands(app, to, texts);
  } else if (name == "top" || name == "trace") {
    add_looking_commands(app, to, texts);
  } else if (name == "inspect" || name == "chain") {
    add_memory_commands(app, to, texts);
  } else {
    add_node_commands(app, to, texts);
  }
}

std::unexpected<Report> refuse(const Invocation& invocation, std::string what) {
  std::string next = invocation.command.empty()
                         ? "refract --help lists the commands"
                         : fmt::format("refract {} --help has the options and examples", invocation.command);
  return report(Code::kInvalidArgument, std::move(what), std::move(next));
}

Reported<> read_duration(const Invocation& invocation, const char* flag, const std::string& text,
                         uint64_t& ns) {
  if (text.empty()) return {};
  const node::Knob duration{.key = flag,
                            .type = node::KnobType::kDuration,
                            .fallback = "",
                            .fallback_words = "",
                            .least = 1'000'000,
                            .choices = "",
                            .sentence = "",
                            .store = nullptr,
                            .show = nullptr};
  const auto value = node::parse_value(duration, text);
  if (!value) return refuse(invocation, fmt::format("{}: {}", flag, value.error().what));
  ns = static_cast<uint64_t>(value->number);
  return {};
}

Reported<> read_number(const Invocation& invocation, const char* flag, const std::string& text,
                       uint64_t& number) {
  if (text.empty()) return {};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stopped == end && number > 0) return {};
  return refuse(invocation, fmt::format("{}: expected a whole number from 1, found '{}'", flag, text));
}

// An offset or an index: a whole number, hexadecimal with 0x.
Reported<> read_place(const Invocation& invocation, const char* flag, const std::string& text,
                      std::optional<uint64_t>& place) {
  if (text.empty()) return {};
  const bool is_hex = text.starts_with("0x");
  const char* end = text.data() + text.size();
  uint64_t number = 0;
  const auto [stopped, error] =
      std::from_chars(text.data() + (is_hex ? 2 : 0), end, number, is_hex ? 16 : 10);
  if (error == std::errc() && stopped == end) {
    place = number;
    return {};
  }
  return refuse(invocation, fmt::format("{}: expected a number, as 4096 or 0x1000, found '{}'", flag, text));
}

Reported<> read_choice(const Invocation& invocation, const char* flag, const std::string& text,
                       records::Choice& choice) {
  if (text.empty()) return {};
  if (text != "yes" && text != "no") {
    return refuse(invocation, fmt::format("{}: expected yes or no, found '{}'", flag, text));
  }
  choice = text == "yes" ? records::Choice::kYes : records::Choice::kNo;
  return {};
}

Reported<> read_format(Invocation& invocation, const std::string& text) {
  if (text.empty()) return {};
  const auto format = records::format_named(text == "dir" ? "directory" : text);
  if (!format) {
    return refuse(invocation,
                  fmt::format("--format: expected csv, tsv, jsonl, directory or debian, found '{}'", text));
  }
  invocation.reading.format = format;
  invocation.writing = *format;
  return {};
}

Source source_of(const std::string& word) {
  return word == "-" ? Source{Source::Kind::kStandardInput, {}} : Source{Source::Kind::kText, word};
}

// Which operation trace is to show, and its words; none: what the node does.
Reported<> read_traced(Invocation& to, std::vector<Source> words) {
  if (words.empty()) return {};
  to.traced = words[0].text;
  if (to.traced != "get" && to.traced != "put" && to.traced != "erase") {
    return refuse(to, fmt::format("trace follows get, put and erase, not {}", in_quotes(words[0].text)));
  }
  const size_t wanted = to.traced == "put" ? 3 : 2;
  if (words.size() != wanted) {
    return refuse(to,
                  fmt::format("trace {} needs {}", to.traced, wanted == 3 ? "a key and a value" : "a key"));
  }
  to.key = words[1];
  if (wanted == 3) to.value = words[2];
  return {};
}

// The positional words of get, put, erase and cas.
Reported<> read_words(Invocation& to, const CLI::App& app, const Texts& texts) {
  std::vector<Source> words;
  for (const CLI::Option* option : app.get_options()) {
    const bool is_word = std::ranges::find(texts.words, option) != texts.words.end();
    if (is_word && !option->results().empty()) words.push_back(source_of(option->results().front()));
  }
  if (to.command == "trace") return read_traced(to, std::move(words));
  const bool writes = to.command == "put" || to.command == "cas";
  if (writes && !texts.file.empty()) words.push_back({Source::Kind::kFile, texts.file});
  const size_t wanted = to.command == "cas" ? 3 : writes ? 2 : 1;
  if (words.empty()) return refuse(to, "the key is missing");
  if (words.size() < wanted) {
    return refuse(to, to.command == "cas" ? "cas needs KEY OLD NEW" : "put needs a key and a value");
  }
  if (words.size() > wanted) return refuse(to, "give the value as an argument or with --file, not both");
  size_t from_input = 0;
  for (const Source& word : words) from_input += word.kind == Source::Kind::kStandardInput ? 1 : 0;
  if (from_input > 1) return refuse(to, "only one of the arguments can be read from the standard input");
  to.key = words.front();
  if (writes) to.value = words.back();
  if (to.command == "cas") to.old_value = words[1];
  return {};
}

// What to look at: at most one thing. A chain: one text.
Reported<> read_looked_at(Invocation& to, const CLI::App& app, const Texts& texts) {
  Reported<> read;
  std::optional<uint64_t> shard;
  if (read = read_place(to, "--shard", texts.shard, shard); !read) return read;
  to.shard = shard.value_or(0);
  if (to.command == "chain") {
    if (to.files.size() == 1 && !(to.explain && to.dry_run)) return {};
    return refuse(to, to.files.size() == 1 ? "--explain and --dry-run are two ways of not running a chain"
                                           : "which file is the chain in? - is the standard input");
  }
  if (read = read_place(to, "--at", texts.at, to.at); !read) return read;
  if (read = read_place(to, "--bucket", texts.bucket, to.bucket); !read) return read;
  const CLI::Option* key = app.get_option("--key");
  if (!key->results().empty()) to.key = source_of(key->results().front());
  const int asked = (to.at ? 1 : 0) + (to.bucket ? 1 : 0) + (to.key.kind != Source::Kind::kNone ? 1 : 0);
  return asked <= 1 ? Reported<>{} : refuse(to, "--at, --key and --bucket are different questions");
}

Reported<> finish(Invocation& to, const CLI::App& app, const Texts& texts) {
  Reported<> read;
  if (read = read_duration(to, "--timeout", texts.timeout, to.timeout_ns); !read) return read;
  if (read = read_duration(to, "--ttl", texts.ttl, to.ttl_ns); !read) return read;
  if (read = read_number(to, "--if-version", texts.if_version, to.if_version); !read) return read;
  if (read = read_number(to, "--limit", texts.limit, to.limit); !read) return read;
  if (read = read_duration(to, "--interval", texts.interval, to.interval_ns); !read) return read;
  if (read = read_duration(to, "--for", texts.duration, to.duration_ns); !read) return read;
  if (read = read_number(to, "--connections", texts.connections, to.connections_max); !read) return read;
  if (read = read_number(to, "--records", texts.records, to.records_max); !read) return read;
  if (read = read_choice(to, "--header", texts.header, to.reading.header); !read) return read;
  if (read = read_choice(to, "--escapes", texts.escapes, to.reading.escapes); !read) return read;
  if (read = read_format(to, texts.format); !read) return read;
  const auto pass_on = [&to](const char* flag, const std::string& text) {
    if (!text.empty()) to.node_flags.insert(to.node_flags.end(), {flag, text});
  };
  pass_on("--config", texts.config);
  pass_on("--memory-limit", texts.memory_limit);
  pass_on("--memory-backing", texts.memory_backing);
  pass_on("--listen-address", texts.listen_address);
  pass_on("--data-durability", texts.data_durability);
  pass_on("--data-folder", texts.data_folder);
  if (to.if_absent && to.if_version != 0) {
    return refuse(to, "--if-absent and --if-version contradict each other");
  }
  if (to.command == "load" && to.files.empty()) return refuse(to, "which file is to be loaded?");
  if (to.command == "restore" && to.files.empty()) {
    return refuse(to, "what is to be restored? A data folder, or the snapshots of one store");
  }
  if (to.command == "restore" && to.target.empty()) return refuse(to, "where to? --to NEWFOLDER");
  if (to.command == "dump" && to.writing == records::Format::kDirectory && to.output.empty()) {
    return refuse(to, "a directory cannot be written to the standard output: name it with --output");
  }
  if (!to.address.empty() && !to.socket.empty()) {
    return refuse(to, "--address and --socket both say where the node is");
  }
  if (to.command == "inspect" || to.command == "chain") return read_looked_at(to, app, texts);
  const bool has_words = to.command == "get" || to.command == "put" || to.command == "erase" ||
                         to.command == "cas" || to.command == "trace";
  return has_words ? read_words(to, app, texts) : Reported<>{};
}

std::unexpected<Report> unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const HelpPage& page : help_pages()) names.emplace_back(page.command);
  const std::string nearest = node::nearest_name(word, names);
  return report(Code::kInvalidArgument, fmt::format("there is no command {}", in_quotes(word)),
                nearest.empty() ? "refract --help lists the commands"
                                : fmt::format("did you mean: refract {}", nearest));
}

// The library says "The following argument was not expected: --x"; nearer names say more.
std::unexpected<Report> unexpected_argument(const Invocation& to, const std::string& word) {
  if (!word.starts_with('-')) {
    return refuse(to, fmt::format("{} is one argument too many for {}", in_quotes(word), to.command));
  }
  const std::string flag = word.substr(0, word.find('='));
  const std::string nearest = node::nearest_name(flag, option_names(to.command));
  return refuse(to, fmt::format("{} has no option {}{}", to.command, in_quotes(flag),
                                nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
}

}  // namespace

std::vector<std::string> option_names(std::string_view command) {
  CLI::App root;
  Invocation invocation;
  Texts texts;
  add_command(root, command, invocation, texts);
  std::vector<std::string> names;
  for (const CLI::Option* option : root.get_subcommands({}).front()->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Reported<Invocation> parse_command_line(int argc, const char* const* argv, const char* environment_socket) {
  Invocation to;
  Texts texts;
  CLI::App root;
  root.require_subcommand(0, 1);
  root.allow_extras();
  bool version = false;
  root.add_flag("--version", version);
  root.add_option("--socket", to.socket);
  root.add_option("--address", to.address);
  root.add_option("--secret-file", to.secret_file);
  root.add_option("--rdma-device", to.rdma_device);
  root.add_option("--timeout", texts.timeout);
  for (const HelpPage& page : help_pages()) add_command(root, page.command, to, texts);
  for (CLI::App* app : root.get_subcommands({})) app->allow_extras();
  // The library wants the words without the program's name, last one first.
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) words.emplace_back(argv[i]);
  const std::string first = words.empty() ? "" : words.back();
  bool help = first == "help";
  if (help) words.pop_back();
  std::string failure;
  try {  // tidy: allow(throw) The library reports by exceptions; they end below.
    root.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {  // tidy: allow(throw) Likewise.
    help = true;
  } catch (const CLI::ParseError& error) {  // tidy: allow(throw) Likewise.
    failure = error.what();
  }
  const std::vector<CLI::App*> chosen = root.get_subcommands();
  if (!chosen.empty()) to.command = chosen.front()->get_name();
  if (version && !failure.empty()) return refuse(to, failure);
  if (version && (!to.command.empty() || !root.remaining(true).empty())) {
    const std::string word = to.command.empty() ? root.remaining(true).front() : to.command;
    to.command.clear();
    return refuse(to, fmt::format("--version stands alone, and {} follows it", in_quotes(word)));
  }
  if (help && chosen.empty() && !root.remaining().empty()) return unknown_command(root.remaining().front());
  if (help || version) {
    to.text_to_print = version ? "refract" + node::version_text().substr(std::string("refractd").size())
                       : to.command.empty() ? overview()
                                            : help_of(to.command);
    to.command.clear();
    return to;
  }
  if (!failure.empty()) return refuse(to, failure);
  if (chosen.empty()) {
    if (!root.remaining().empty()) return unknown_command(root.remaining().front());
    return report(Code::kInvalidArgument, "which command?", "refract --help lists the commands");
  }
  for (const std::string& extra : root.remaining(true)) {
    // The mark behind which everything is an argument is passed on as if it were left over.
    if (extra != "--") return unexpected_argument(to, extra);
  }
  if (to.socket.empty() && to.address.empty() && environment_socket != nullptr)
    to.socket = environment_socket;
  if (auto read = finish(to, *chosen.front(), texts); !read) return report(read.error());
  return to;
}

}  // namespace refract::cli
