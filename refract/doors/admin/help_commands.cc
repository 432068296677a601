// SPDX-License-Identifier: Apache-2.0
// HELP of each command that has subcommands, in Redis's words, without those that are not there.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "refract/doors/admin/handlers.h"
#include "refract/doors/redis/words.h"

namespace refract::doors::redis {
namespace {

using Line = std::string_view;

constexpr Line kClientHelp[] = {
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
};
constexpr Line kCommandHelp[] = {
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
};
constexpr Line kConfigHelp[] = {
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
};
constexpr Line kHistogramHelp =
    "    Return a cumulative distribution of latencies in the format of a histogram for the "
    "specified command names.";
constexpr Line kLatencyHelp[] = {
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    kHistogramHelp,
    "    If no commands are specified then all histograms are replied.",
};
constexpr Line kMemoryHelp[] = {
    "DOCTOR",
    "    Return memory problems reports.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
};
constexpr Line kObjectHelp[] = {
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
};
constexpr Line kSlowlogHelp[] = {
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
};

struct Help {
  std::string_view command;
  std::span<const Line> lines;
};
constexpr Help kHelps[] = {{"client", kClientHelp},   {"command", kCommandHelp}, {"config", kConfigHelp},
                           {"latency", kLatencyHelp}, {"memory", kMemoryHelp},   {"object", kObjectHelp},
                           {"slowlog", kSlowlogHelp}};

}  // namespace

bool help(Call& call) {
  const auto* const found =
      std::ranges::find_if(kHelps, [&](const Help& one) { return is(call.words[0], one.command); });
  const std::span<const Line> lines =
      found == std::ranges::end(kHelps) ? std::span<const Line>() : found->lines;
  // As it was called.
  std::string title(call.words[0]);
  std::ranges::transform(title, title.begin(), [](char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
  });
  call.reply.array(lines.size() + 3);
  call.reply.simple(title + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const Line line : lines) call.reply.simple(line);
  call.reply.simple("HELP");
  call.reply.simple("    Prints this help.");
  return true;
}

}  // namespace refract::doors::redis
