// SPDX-License-Identifier: Apache-2.0
// The configuration as people read it: --help, --print-config, docs/configuration.md. All from the knob
// table.
#include <fmt/core.h>

#include <string>
#include <string_view>

#include "refract/node/config/config.h"
#include "refract/node/config/knobs.h"

namespace refract::node {
namespace {

constexpr size_t kColumns = 80;

// Breaks `text` at blanks so that no line, indented, is wider than a terminal.
std::string wrapped(std::string_view text, size_t indent) {
  std::string out;
  std::string line(indent, ' ');
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (line.size() > indent && line.size() + 1 + end > kColumns) {
      out += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line.push_back(' ');
    line += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + line + "\n";
}

std::string_view fallback_of(const Knob& knob) {
  return knob.fallback.empty() ? knob.fallback_words : knob.fallback;
}

std::string_view placeholder_of(const Knob& knob) {
  switch (knob.type) {
    case KnobType::kBytes:
      return " SIZE";
    case KnobType::kDuration:
      return " DURATION";
    case KnobType::kInteger:
      return " N";
    case KnobType::kBool:
      return "[=BOOL]";
    case KnobType::kText:
      break;
  }
  return " TEXT";
}

std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      quoted.push_back('\\');
      quoted.push_back(letter);
    } else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(letter));
    } else {
      quoted.push_back(letter);
    }
  }
  return quoted + "\"";
}

bool is_bare(const Knob& knob) {
  return knob.type == KnobType::kInteger || knob.type == KnobType::kBool;
}

// "memory" of "memory.limit".
std::string_view table_of(const Knob& knob) {
  return knob.key.substr(0, knob.key.find('.'));
}

}  // namespace

std::string help_text() {
  std::string out =
      "NAME\n"
      "    refractd - a node of Refract, the store whose clients read its memory\n\n"
      "SYNOPSIS\n"
      "    refractd [--config FILE] [--KNOB VALUE]...\n"
      "    refractd --print-config | --help | --version\n\n"
      "DESCRIPTION\n";
  out += wrapped(
      "Starts a keeper, which owns the socket and the memory, and under it a server, which executes writes. "
      "A server that crashes is started again on the same memory. Runs in the foreground until SIGINT or "
      "SIGTERM.",
      4);
  out += "\nOPTIONS\n";
  out += "    --config FILE\n" + wrapped("Reads this file instead of /etc/refract/refractd.toml.", 8);
  out += "    --print-config\n" +
         wrapped(
             "Prints the configuration that is in force, as TOML, each value with its source, "
             "and exits.",
             8);
  out += "    -h, --help\n" + wrapped("Prints this text and exits.", 8);
  out += "    --version\n" + wrapped("Prints the version and exits.", 8);
  out += "\nKNOBS\n";
  out += wrapped(
      "Each knob has the same name in the file (memory.limit), as a flag (--memory-limit) and in the "
      "environment "
      "(REFRACT_MEMORY_LIMIT). A flag wins over the environment, the environment over the file.",
      4);
  for (const Knob& knob : knobs()) {
    out += fmt::format("\n    {}{}\n", flag_of(knob), placeholder_of(knob));
    out += wrapped(knob.sentence, 8);
    out += wrapped(fmt::format("Range: {}. Default: {}.", range_of(knob), fallback_of(knob)), 8);
  }
  out +=
      "\nFILES\n"
      "    /etc/refract/refractd.toml\n"
      "        Read if it is there and --config names no other file.\n\n"
      "EXIT STATUS\n"
      "    0   stopped as asked, or printed what was asked for\n"
      "    1   could not start, go on or bring all data to the disk; stderr says why\n"
      "    2   the configuration is wrong; stderr says where\n"
      "    3   the stored bytes contradict themselves; stderr says what was found\n\n"
      "EXAMPLES\n"
      "    refractd --memory-limit 4GiB --server-shards 2\n"
      "    refractd --listen-address 0.0.0.0:7400 --auth-secret-file /srv/secret\n"
      "    REFRACT_MEMORY_LIMIT=50% refractd --log-level debug\n"
      "    refractd --print-config > refractd.toml\n";
  return out;
}

std::string print_config(const LoadedConfig& loaded) {
  std::string out =
      "# The configuration of refractd " REFRACT_VERSION ": each value that is in force, and its source.\n";
  std::string_view table;
  for (size_t i = 0; i < knobs().size(); ++i) {
    const Knob& knob = knobs()[i];
    if (table_of(knob) != table) {
      table = table_of(knob);
      out += fmt::format("\n[{}]\n", table);
    }
    const std::string value = knob.show(loaded.config);
    const Origin& origin = loaded.origins[i];
    out += fmt::format("{} = {}  # {}\n", knob.key.substr(table.size() + 1),
                       is_bare(knob) ? value : toml_text(value),
                       origin.source == Source::kDefault ? "default" : origin.place);
  }
  return out;
}

constexpr std::string_view kClients =
    "## Clients\n\n"
    "A client is told by its address where the node is (`refract://HOST:PORT?transport=auto`). What follows\n"
    "is taken from the address first, then from the program (`ClientOptions`) or the flag of `refract`,\n"
    "then from the environment.\n\n"
    "| in the address | flag | environment | what it is |\n"
    "| --- | --- | --- | --- |\n"
    "| `secret_file=PATH` | `--secret-file` | `REFRACT_SECRET_FILE` | The copy of the node's secret. |\n"
    "| `device=NAME` | `--rdma-device` | `REFRACT_RDMA_DEVICE` | The RDMA device by which nodes are reached: "
    "auto takes one that works, none takes none. A name that this host does not have is refused wherever "
    "it might be taken. |\n\n"
    "`refract doctor --peer HOST:PORT` tries each transport to a node, and says which one a client would "
    "take.\n\n";

std::string configuration_page() {
  std::string out =
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "<!-- Written by node_test from the table in refract/node/config/knobs.cc; see its last test. -->\n"
      "# Configuration\n\n"
      "A node is configured by knobs. Each has one name in three spellings: `memory.limit` in the file is\n"
      "`--memory-limit` on the command line and `REFRACT_MEMORY_LIMIT` in the environment. A flag wins over "
      "the\n"
      "environment, the environment over the file, the file over the default. Every value is checked, also "
      "one that\n"
      "another source overrides. An unknown key or flag is an error; an empty variable counts as not set.\n\n"
      "The file is TOML: the one that `--config` names, else `/etc/refract/refractd.toml` if it is there.\n"
      "`refractd --print-config` prints what is in force, each value with its source, as a file that can be "
      "used.\n\n"
      "Sizes are written with `B`, `KiB`, `MiB`, `GiB` or `TiB`, durations with `ns`, `us`, `ms`, `s`, `min` "
      "or `h`;\n"
      "both stand in quotes in the file. Numbers and `true` or `false` stand without quotes. Paths are "
      "absolute "
      "in the\n"
      "file; on the command line and in the environment they may be relative to the working directory.\n\n"
      "| key | range | default | what it does |\n"
      "| --- | --- | --- | --- |\n";
  for (const Knob& knob : knobs()) {
    const std::string fallback =
        knob.fallback.empty() ? std::string(knob.fallback_words) : fmt::format("`{}`", knob.fallback);
    out += fmt::format("| `{}` | {} | {} | {} |\n", knob.key, range_of(knob), fallback, knob.sentence);
  }
  out +=
      "\n## An example\n\n"
      "```toml\n"
      "[memory]\n"
      "limit = \"50%\"\n"
      "backing = \"file:/var/lib/refract\"\n\n"
      "[server]\n"
      "shards = 2\n"
      "cpu = 2\n\n"
      "[listen]\n"
      "address = \"0.0.0.0:7400\"\n\n"
      "[auth]\n"
      "secret_file = \"/etc/refract/secret\"\n"
      "```\n\n"
      "## A secret\n\n"
      "```\n"
      "(umask 077; head -c 32 /dev/urandom | base64 > /etc/refract/secret)\n"
      "```\n\n"
      "Clients are given a copy of the file. A node that other hosts can reach does not start without "
      "one.\n\n";
  out += kClients;
  out +=
      "## Exit codes of refractd\n\n"
      "| code | means |\n"
      "| --- | --- |\n"
      "| 0 | stopped as asked, or printed what was asked for |\n"
      "| 1 | could not start or go on: too little memory, a socket or port in use, a file that is not there; "
      "or could not bring all data to the disk when it was stopped |\n"
      "| 2 | the configuration is wrong, or a file that it names: a secret that others can read, a store of "
      "another number of shards, other kv.copies or other nodes |\n"
      "| 3 | the stored bytes contradict themselves, or that cannot be told: look at them with "
      "`refract check` |\n\n"
      "The banner on stdout says that the node is ready, and comes when every shard serves; before it, "
      "stderr says\n"
      "what is in the way.\n";
  return out;
}

}  // namespace refract::node
