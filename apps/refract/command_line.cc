// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/command_line.h"

#include <fmt/format.h>

#include <charconv>
#include <deque>
#include <optional>
#include <span>

#include "apps/refract/argument_values.h"
#include "apps/refract/help.h"
#include "apps/refract/terminal.h"

#include "refract/arguments/command.h"
#include "refract/node/config/config.h"
#include "refract/node/config/knobs.h"

namespace refract::cli {
namespace {

using arguments::Command;

// What the library fills; texts still, since it does not know our durations and our errors.
struct Texts {
  std::string timeout;
  std::string interval;
  std::string connections;
  std::string duration;
  std::string accounts;
  std::string threads;
  std::string records;
  std::string ttl;
  std::string if_version;
  std::string limit;
  std::string at;
  std::string bucket;
  std::string shard;
  std::string nodes;
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
  arguments::Given key;  // That of inspect.
  // By their position, of all commands: only one was named, so that the others have nothing.
  std::deque<arguments::Given> words;
};

void add_json(Command& app, Invocation& to) {
  app.add({.names = "--json", .to = &to.json});
}
void add_verbose(Command& app, Invocation& to) {
  app.add({.names = "-v,--verbose", .to = &to.verbose});
}
void add_verify(Command& app, Invocation& to) {
  app.add({.names = "--verify", .to = &to.verify});
}
void add_word(Command& app, const char* name, Texts& texts) {
  app.add({.names = name, .to = &texts.words.emplace_back()});
}

void add_entry_commands(Command& app, Invocation& to, Texts& texts) {
  const std::string command = app.name();
  add_word(app, "KEY", texts);
  add_verbose(app, to);
  if (command != "erase") add_verify(app, to);
  if (command == "get") {
    app.add({.names = "-o,--output", .to = &to.output});
    app.add({.names = "--raw", .to = &to.raw});
    return;
  }
  add_json(app, to);
  if (command == "cas") add_word(app, "OLD", texts);
  if (command == "put" || command == "cas") {
    add_word(app, "VALUE", texts);
    app.add({.names = "-f,--file", .to = &texts.file});
    app.add({.names = "--ttl", .to = &texts.ttl});
  }
  if (command == "put") app.add({.names = "--if-absent", .to = &to.if_absent});
  if (command != "cas") app.add({.names = "--if-version", .to = &texts.if_version});
}

void add_record_commands(Command& app, Invocation& to, Texts& texts) {
  const std::string command = app.name();
  app.add({.names = "--prefix", .to = &to.prefix});
  if (command == "scan") {
    app.add({.names = "--limit", .to = &texts.limit});
    app.add({.names = "-l,--long", .to = &to.long_lines});
    app.add({.names = "-0,--null", .to = &to.zero_ends});
    app.add({.names = "--raw", .to = &to.raw});
    add_json(app, to);
    return;
  }
  app.add({.names = "--format", .to = &texts.format});
  app.add({.names = "--no-progress", .to = &to.no_progress});
  add_verify(app, to);
  if (command == "dump") {
    app.add({.names = "-o,--output", .to = &to.output});
    app.add({.names = "--overwrite", .to = &to.overwrite});
    app.add({.names = "--raw", .to = &to.raw});
    return;
  }
  app.add({.names = "FILE", .to = &to.files});
  app.add({.names = "--key-column", .to = &to.reading.key_column});
  app.add({.names = "--key-field", .to = &to.reading.key_field});
  app.add({.names = "--header", .to = &texts.header});
  app.add({.names = "--escapes", .to = &texts.escapes});
  app.add({.names = "--ttl", .to = &texts.ttl});
}

void add_node_commands(Command& app, Invocation& to, Texts& texts) {
  const std::string command = app.name();
  if (command != "token") add_json(app, to);
  if (command == "ping") app.add({.names = "--why", .to = &to.why});
  if (command == "clear") app.add({.names = "--all", .to = &to.all});
  if (command == "txn") {
    add_verbose(app, to);
    app.add({.names = "FILE", .to = &to.path});
    app.add({.names = "--home", .to = &to.home});
    app.add({.names = "--as", .to = &to.as});
  }
  if (command == "bank") {
    app.add({.names = "--accounts", .to = &texts.accounts});
    app.add({.names = "--threads", .to = &texts.threads});
    app.add({.names = "--for", .to = &texts.duration});
  }
  if (command == "cluster") {
    app.add({.names = "KEY", .to = &to.keys});
    app.add({.names = "--nodes", .to = &texts.nodes});
  }
  if (command == "token") app.add({.names = "PROTOCOL", .to = &to.keys});
  if (command == "check") {
    app.add({.names = "PATH,--path", .to = &to.path});
    app.add({.names = "--no-progress", .to = &to.no_progress});
  }
  if (command == "restore") {
    app.add({.names = "SOURCE", .to = &to.files});
    app.add({.names = "--to", .to = &to.target});
    app.add({.names = "--salvage", .to = &to.salvage});
    app.add({.names = "--no-progress", .to = &to.no_progress});
  }
  if (command == "snapshot") {
    app.add({.names = "--no-wait", .to = &to.no_wait});
    app.add({.names = "--no-progress", .to = &to.no_progress});
  }
  if (command == "doctor") {
    app.add({.names = "--config", .to = &texts.config});
    app.add({.names = "--memory-limit", .to = &texts.memory_limit});
    app.add({.names = "--memory-backing", .to = &texts.memory_backing});
    app.add({.names = "--listen-address", .to = &texts.listen_address});
    app.add({.names = "--data-durability", .to = &texts.data_durability});
    app.add({.names = "--data-folder", .to = &texts.data_folder});
    app.add({.names = "--peer", .to = &to.peer});
    app.add({.names = "--no-self-test", .to = &to.no_self_test});
    app.add({.names = "--no-progress", .to = &to.no_progress});
  }
}

void add_looking_commands(Command& app, Invocation& to, Texts& texts) {
  if (app.name() == "top") {
    add_json(app, to);
    app.add({.names = "--interval", .to = &texts.interval});
    app.add({.names = "--connections", .to = &texts.connections});
    app.add({.names = "--once", .to = &to.once});
    return;
  }
  for (const char* name : {"OPERATION", "KEY", "VALUE"}) add_word(app, name, texts);
  app.add({.names = "--for", .to = &texts.duration});
  app.add({.names = "--records", .to = &texts.records});
  app.add({.names = "--chrome", .to = &to.chrome});
  app.add({.names = "-o,--output", .to = &to.output});
}

void add_memory_commands(Command& app, Invocation& to, Texts& texts) {
  add_json(app, to);
  app.add({.names = "--shard", .to = &texts.shard});
  if (app.name() == "chain") {
    app.add({.names = "FILE", .to = &to.files});
    app.add({.names = "--explain", .to = &to.explain});
    app.add({.names = "--dry-run", .to = &to.dry_run});
    return;
  }
  app.add({.names = "--key", .to = &texts.key});
  app.add({.names = "--at", .to = &texts.at});
  app.add({.names = "--bucket", .to = &texts.bucket});
  app.add({.names = "--layout", .to = &to.layout});
  app.add({.names = "--file", .to = &to.path});
}

Command& add_command(Command& root, std::string_view name, Invocation& to, Texts& texts) {
  Command& app = root.add_command(std::string(name));
  app.add({.names = "--socket", .to = &to.socket});
  app.add({.names = "--address", .to = &to.address});
  app.add({.names = "--secret-file", .to = &to.secret_file});
  app.add({.names = "--rdma-device", .to = &to.rdma_device});
  app.add({.names = "--timeout", .to = &texts.timeout});
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
  return app;
}

std::unexpected<Report> refuse(const Invocation& invocation, std::string what) {
  std::string next = invocation.command.empty()
                         ? "refract --help lists the commands"
                         : fmt::format("refract {} --help has the options and examples", invocation.command);
  return report(Code::kInvalidArgument, std::move(what), std::move(next));
}

Reported<> take(const Invocation& invocation, Reported<uint64_t> read, uint64_t& to) {
  if (!read) return refuse(invocation, read.error().what);
  to = *read;
  return {};
}

Reported<> read_duration(const Invocation& invocation, const char* flag, const std::string& text,
                         uint64_t& ns) {
  return text.empty() ? Reported<>{} : take(invocation, duration_of(flag, text), ns);
}

Reported<> read_number(const Invocation& invocation, const char* flag, const std::string& text,
                       uint64_t& number) {
  return text.empty() ? Reported<>{} : take(invocation, whole_number_of(flag, text), number);
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
Reported<> read_words(Invocation& to, const Texts& texts) {
  std::vector<Source> words;
  for (const arguments::Given& word : texts.words) {
    if (!word.words.empty()) words.push_back(source_of(word.words.front()));
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
Reported<> read_looked_at(Invocation& to, const Texts& texts) {
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
  if (!texts.key.words.empty()) to.key = source_of(texts.key.words.front());
  const int asked = (to.at ? 1 : 0) + (to.bucket ? 1 : 0) + (to.key.kind != Source::Kind::kNone ? 1 : 0);
  return asked <= 1 ? Reported<>{} : refuse(to, "--at, --key and --bucket are different questions");
}

Reported<> finish(Invocation& to, const Texts& texts) {
  Reported<> read;
  if (read = read_duration(to, "--timeout", texts.timeout, to.timeout_ns); !read) return read;
  if (read = read_duration(to, "--ttl", texts.ttl, to.ttl_ns); !read) return read;
  if (read = read_number(to, "--if-version", texts.if_version, to.if_version); !read) return read;
  if (read = read_number(to, "--limit", texts.limit, to.limit); !read) return read;
  if (read = read_duration(to, "--interval", texts.interval, to.interval_ns); !read) return read;
  if (read = read_duration(to, "--for", texts.duration, to.duration_ns); !read) return read;
  if (read = read_number(to, "--accounts", texts.accounts, to.accounts); !read) return read;
  if (read = read_number(to, "--threads", texts.threads, to.threads); !read) return read;
  if (read = read_number(to, "--connections", texts.connections, to.connections_max); !read) return read;
  if (read = read_number(to, "--records", texts.records, to.records_max); !read) return read;
  if (read = read_number(to, "--nodes", texts.nodes, to.nodes_max); !read) return read;
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
  if (to.command == "txn" && to.path.empty())
    return refuse(to, "which file has the changes? \"-\" is the input");
  if (to.command == "txn" && to.path != "settle" && !(to.home + to.as).empty()) {
    return refuse(to, "--home and --as are for \"refract txn settle\"");
  }
  if (to.home.empty() != to.as.empty()) return refuse(to, "--home and --as belong together");
  if (!to.as.empty() && to.as != "never" && to.as != "happened") {
    return refuse(to, fmt::format("--as is never or happened, not {}", in_quotes(to.as)));
  }
  if (to.command == "bank" && (to.accounts < 2 || to.accounts > 1'000 || to.threads > 64)) {
    return refuse(to, "--accounts is 2 to 1000, --threads 1 to 64");
  }
  if (to.command == "clear" && !to.all) {
    return report(Code::kInvalidArgument, "clear erases all keys of the node",
                  "if that is what you want: refract clear --all");
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
  if (to.command == "inspect" || to.command == "chain") return read_looked_at(to, texts);
  const bool has_words = to.command == "get" || to.command == "put" || to.command == "erase" ||
                         to.command == "cas" || to.command == "trace";
  return has_words ? read_words(to, texts) : Reported<>{};
}

std::unexpected<Report> unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const HelpPage& page : help_pages()) names.emplace_back(page.command);
  names.emplace_back("object");
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
  Command root;
  Invocation invocation;
  Texts texts;
  return add_command(root, command, invocation, texts).long_names();
}

Reported<Invocation> parse_command_line(int argc, const char* const* argv, const char* environment_socket) {
  Invocation to;
  Texts texts;
  Command root({}, {.keeps_unknown = true});
  bool version = false;
  root.add({.names = "--version", .to = &version});
  root.add({.names = "--socket", .to = &to.socket});
  root.add({.names = "--address", .to = &to.address});
  root.add({.names = "--secret-file", .to = &to.secret_file});
  root.add({.names = "--rdma-device", .to = &to.rdma_device});
  root.add({.names = "--timeout", .to = &texts.timeout});
  for (const HelpPage& page : help_pages()) add_command(root, page.command, to, texts);
  std::span words(argv, static_cast<size_t>(argc));
  if (!words.empty()) words = words.subspan(1);
  const bool asks_help = !words.empty() && words.front() == std::string_view("help");
  if (asks_help) words = words.subspan(1);
  const arguments::CommandRead read = root.read(words);
  const bool help = asks_help || read.wants_help;
  to.command = read.command;
  if (version && !read.refused.empty()) return refuse(to, read.refused);
  if (version && (!to.command.empty() || !read.unknown.empty())) {
    const std::string word = to.command.empty() ? read.unknown.front() : to.command;
    to.command.clear();
    return refuse(to, fmt::format("--version stands alone, and {} follows it", in_quotes(word)));
  }
  if (help && read.command.empty() && !read.unknown.empty()) return unknown_command(read.unknown.front());
  if (help || version) {
    to.text_to_print = version ? "refract" + node::version_text().substr(std::string("refractd").size())
                       : to.command.empty() ? overview()
                                            : help_of(to.command);
    to.command.clear();
    return to;
  }
  if (!read.refused.empty()) return refuse(to, read.refused);
  if (read.command.empty()) {
    if (!read.unknown.empty()) return unknown_command(read.unknown.front());
    return report(Code::kInvalidArgument, "which command?", "refract --help lists the commands");
  }
  for (const auto* unknown : {&read.unknown, &read.unknown_after_it}) {
    for (const std::string& word : *unknown) {
      // The mark behind which everything is an argument is passed on as if it were left over.
      if (word != "--") return unexpected_argument(to, word);
    }
  }
  if (to.socket.empty() && to.address.empty() && environment_socket != nullptr)
    to.socket = environment_socket;
  if (auto finished = finish(to, texts); !finished) return report(finished.error());
  return to;
}

}  // namespace refract::cli
