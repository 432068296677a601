// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/object/object_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "apps/refract/argument_values.h"
#include "apps/refract/terminal.h"

#include "refract/arguments/command.h"
#include "refract/base/units.h"
#include "refract/client/objects.h"
#include "refract/node/config/knobs.h"

namespace refract::cli {
namespace {

using arguments::Command;
using arguments::Given;

constexpr size_t kIdBytesMax = 255;
constexpr std::array<std::string_view, 5> kWithWord = {"--socket", "--address", "--secret-file",
                                                       "--rdma-device", "--timeout"};

// Texts still, since the library does not know our durations, sizes and errors.
struct ObjectTexts {
  std::string timeout;
  std::string wait;
  std::string birth;
  std::string bytes;
  std::string limit;
  std::string copies;
  std::string file;
  std::string transfer;
  Given id;
  std::vector<std::string> ids;
  std::vector<std::string> nodes;
};

// How many ids an action takes.
bool takes_one_id(std::string_view action) noexcept {
  return action == "put" || action == "get" || action == "broadcast";
}
bool takes_ids(std::string_view action) noexcept {
  return action == "rm" || action == "keep" || action == "wait" || action == "digest" || action == "where" ||
         action == "prefetch" || action == "copies" || action == "rank";
}

void add_node_options(Command& app, ObjectInvocation& to, ObjectTexts& texts) {
  app.add({.names = "--socket", .to = &to.base.socket});
  app.add({.names = "--address", .to = &to.base.address});
  app.add({.names = "--secret-file", .to = &to.base.secret_file});
  app.add({.names = "--rdma-device", .to = &to.base.rdma_device});
  app.add({.names = "--timeout", .to = &texts.timeout});
}

Command& add_action(Command& root, std::string_view action, ObjectInvocation& to, ObjectTexts& texts) {
  Command& app = root.add_command(std::string(action));
  add_node_options(app, to, texts);
  if (takes_one_id(action)) app.add({.names = "ID", .to = &texts.id});
  if (takes_ids(action)) app.add({.names = "ID", .to = &texts.ids});
  if (action != "stat" && action != "evict" && action != "paths") app.add({.names = "--hex", .to = &to.hex});
  if (action != "get" && action != "prefetch") app.add({.names = "--json", .to = &to.base.json});
  if (action == "put" || action == "get") {
    app.add({.names = "--wait", .to = &texts.wait});
    app.add({.names = "--no-progress", .to = &to.base.no_progress});
  }
  if (action == "put") {
    app.add({.names = "FILE", .to = &texts.file});
    app.add({.names = "--copies", .to = &texts.copies});
    app.add({.names = "--metadata", .to = &to.metadata});
    app.add({.names = "--keep", .to = &to.keeps});
  } else if (action == "get") {
    app.add({.names = "-o,--output", .to = &texts.file});
    app.add({.names = "--metadata", .to = &to.shows_metadata});
    app.add({.names = "--raw", .to = &to.base.raw});
    app.add({.names = "--transfer", .to = &texts.transfer});
  } else if (action == "rm") {
    app.add({.names = "--birth", .to = &texts.birth});
  } else if (action == "ls") {
    app.add({.names = "--all", .to = &to.all});
    app.add({.names = "--prefix", .to = &to.prefix});
    app.add({.names = "--limit", .to = &texts.limit});
  } else if (action == "keep") {
    app.add({.names = "--off", .to = &to.is_off});
  } else if (action == "evict") {
    app.add({.names = "BYTES", .to = &texts.bytes});
  } else if (action == "prefetch") {
    app.add({.names = "--wait", .to = &texts.wait});
    app.add({.names = "--transfer", .to = &texts.transfer});
    app.add({.names = "--check", .to = &to.is_checked});
  } else if (action == "copies") {
    app.add({.names = "--set", .to = &texts.copies});
    app.add({.names = "--wait", .to = &texts.wait});
  } else if (action == "wait" || action == "rank") {
    app.add({.names = "--for", .to = &texts.wait});
  } else if (action == "broadcast") {
    app.add({.names = "NODE", .to = &texts.nodes});
    app.add({.names = "--for", .to = &texts.wait});
  } else if (action == "subscribe") {
    app.add({.names = "--for", .to = &texts.wait});
    app.add({.names = "--limit", .to = &texts.limit});
  }
  return app;
}

std::unexpected<Report> refuse(const ObjectInvocation& to, std::string what) {
  return report(Code::kInvalidArgument, std::move(what),
                to.action.empty()
                    ? "refract object --help lists what can be done"
                    : fmt::format("refract object {} --help has the options and examples", to.action));
}

// Two digits a byte.
Reported<std::string> from_hex(const ObjectInvocation& to, const std::string& digits) {
  const auto digit = [](char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
  };
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    const int high = digit(digits[i]);
    const int low = digit(digits[i + 1]);
    if (high < 0 || low < 0) break;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  if (bytes.size() * 2 == digits.size()) return bytes;
  return refuse(to, fmt::format("--hex: {} is no row of pairs of hexadecimal digits", in_quotes(digits)));
}

Reported<> read_ids(ObjectInvocation& to, const ObjectTexts& texts) {
  std::vector<std::string> words = texts.ids;
  if (!texts.id.words.empty()) words.push_back(texts.id.words.front());
  if (words.empty()) return refuse(to, "the object's id is missing");
  for (const std::string& word : words) {
    std::string id = word;
    if (to.hex) {
      auto bytes = from_hex(to, word);
      if (!bytes) return report(bytes.error());
      id = std::move(*bytes);
    }
    if (id.empty() || id.size() > kIdBytesMax) {
      return refuse(to,
                    fmt::format("an id has 1 to {} bytes, {} has {}", kIdBytesMax, in_quotes(id), id.size()));
    }
    to.ids.push_back(std::move(id));
  }
  return {};
}

Reported<> take(const ObjectInvocation& to, Reported<uint64_t> read, uint64_t& target) {
  if (!read) return refuse(to, read.error().what);
  target = *read;
  return {};
}

// A duration, "forever", or "no".
Reported<> read_wait(ObjectInvocation& to, const char* flag, const std::string& text) {
  if (text.empty()) return {};
  uint64_t ns = 0;
  if (text == "forever") {
    to.wait_ms = kForever_ns;
  } else if (text == "no") {
    to.wait_ms = 0;
  } else {
    if (auto read = take(to, duration_of(flag, text), ns); !read) return read;
    to.wait_ms = ns / kMillisecond_ns;
  }
  return {};
}

Reported<> read_transfer(ObjectInvocation& to, const std::string& text) {
  if (text.empty() || text == "auto") return {};
  if (text == "send") {
    to.transfer = Transfer::kSend;
  } else if (text == "read") {
    to.transfer = Transfer::kRead;
  } else {
    return refuse(to, fmt::format("--transfer is auto, send or read, not {}", in_quotes(text)));
  }
  return {};
}

Reported<> finish(ObjectInvocation& to, const ObjectTexts& texts) {
  Reported<> read = read_transfer(to, texts.transfer);
  if (!read) return read;
  if (!texts.timeout.empty()) {
    if (read = take(to, duration_of("--timeout", texts.timeout), to.base.timeout_ns); !read) return read;
  }
  const bool is_for =
      to.action == "wait" || to.action == "subscribe" || to.action == "rank" || to.action == "broadcast";
  const char* const wait_flag = is_for ? "--for" : "--wait";
  if (read = read_wait(to, wait_flag, texts.wait); !read) return read;
  if (!texts.birth.empty()) {
    if (read = take(to, whole_number_of("--birth", texts.birth), to.birth); !read) return read;
  }
  if (!texts.limit.empty()) {
    if (read = take(to, whole_number_of("--limit", texts.limit), to.limit); !read) return read;
  }
  if (!texts.copies.empty()) {
    const char* const flag = to.action == "put" ? "--copies" : "--set";
    uint64_t copies = 0;
    if (texts.copies != "0") {
      if (read = take(to, whole_number_of(flag, texts.copies), copies); !read) return read;
    }
    if (copies > Objects::kCopiesMax) {
      return refuse(to, fmt::format("{}: at most {} copies are kept", flag, Objects::kCopiesMax));
    }
    to.copies = static_cast<uint32_t>(copies);
  }
  if (to.action == "copies" && !to.copies) return refuse(to, "how many copies? --set 2, for example");
  to.file = texts.file;
  if (takes_one_id(to.action) || takes_ids(to.action)) {
    if (read = read_ids(to, texts); !read) return read;
  }
  if (to.action == "rank" && to.ids.size() > Objects::kRankIdsMax) {
    return refuse(to, fmt::format("at most {} ids are ranked at once, and {} are named", Objects::kRankIdsMax,
                                  to.ids.size()));
  }
  to.nodes = texts.nodes;
  if (to.nodes.size() > Objects::kBroadcastNodesMax) {
    return refuse(to, fmt::format("an object is brought to at most {} nodes at once, and {} are named",
                                  Objects::kBroadcastNodesMax, to.nodes.size()));
  }
  if (std::ranges::any_of(to.nodes, &std::string::empty)) {
    return refuse(to, "the name of a node is never empty");
  }
  if (to.action == "rm" && to.birth != 0 && to.ids.size() > 1) {
    return refuse(to, "--birth is that of one object, and several are named");
  }
  if (to.action == "evict") {
    if (texts.bytes.empty()) return refuse(to, "how many bytes are to be given back? 64MiB, for example");
    if (read = take(to, size_of("BYTES", texts.bytes), to.bytes); !read) return read;
  }
  if (!to.base.address.empty() && !to.base.socket.empty()) {
    return refuse(to, "--address and --socket both say where the node is");
  }
  return {};
}

std::unexpected<Report> unknown_action(const std::string& word) {
  std::vector<std::string> names;
  for (const HelpPage& page : object_pages()) names.emplace_back(page.command);
  const std::string nearest = node::nearest_name(word, names);
  return report(Code::kInvalidArgument, fmt::format("refract object cannot {}", in_quotes(word)),
                nearest.empty() ? "refract object --help lists what it can"
                                : fmt::format("did you mean: refract object {}", nearest));
}

std::unexpected<Report> unexpected_argument(const ObjectInvocation& to, const std::string& word) {
  if (!word.starts_with('-')) {
    return refuse(to, fmt::format("{} is one argument too many for object {}", in_quotes(word), to.action));
  }
  const std::string flag = word.substr(0, word.find('='));
  const std::string nearest = node::nearest_name(flag, object_option_names(to.action));
  return refuse(to, fmt::format("object {} has no option {}{}", to.action, in_quotes(flag),
                                nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
}

}  // namespace

std::optional<size_t> object_word(std::span<const char* const> words) noexcept {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "object") return i;
    if (word == "help" || word == "--help" || word == "-h") continue;
    if (!word.starts_with('-')) return std::nullopt;
    if (std::ranges::find(kWithWord, word) != kWithWord.end()) ++i;
  }
  return std::nullopt;
}

std::vector<std::string> object_option_names(std::string_view action) {
  Command root;
  ObjectInvocation invocation;
  ObjectTexts texts;
  return add_action(root, action, invocation, texts).long_names();
}

Reported<ObjectInvocation> parse_object_line(std::span<const char* const> words, size_t at,
                                             const char* environment_socket) {
  ObjectInvocation to;
  ObjectTexts texts;
  Command root({}, {.keeps_unknown = true});
  add_node_options(root, to, texts);
  for (const HelpPage& page : object_pages()) add_action(root, page.command, to, texts);
  std::vector<const char*> rest(words.begin(), words.end());
  rest.erase(rest.begin() + static_cast<ptrdiff_t>(at));
  const bool asks_help = !rest.empty() && rest.front() == std::string_view("help");
  if (asks_help) rest.erase(rest.begin());
  const arguments::CommandRead read = root.read(rest);
  to.action = read.command;
  if (read.command.empty() && !read.unknown.empty()) return unknown_action(read.unknown.front());
  if (asks_help || read.wants_help) {
    to.base.text_to_print = to.action.empty() ? object_overview() : help_of_object(to.action);
    return to;
  }
  if (!read.refused.empty()) return refuse(to, read.refused);
  if (read.command.empty()) return refuse(to, "what is to be done with objects?");
  for (const auto* unknown : {&read.unknown, &read.unknown_after_it}) {
    for (const std::string& word : *unknown) {
      // The mark behind which everything is an argument is passed on as if it were left over.
      if (word != "--") return unexpected_argument(to, word);
    }
  }
  if (to.base.socket.empty() && to.base.address.empty() && environment_socket != nullptr) {
    to.base.socket = environment_socket;
  }
  if (auto finished = finish(to, texts); !finished) return report(finished.error());
  to.base.command = "object";
  return to;
}

}  // namespace refract::cli
