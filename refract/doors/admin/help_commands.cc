// SPDX-License-Identifier: Apache-2.0
// HELP of each command that has subcommands. Lines of syntax are Redis's, without those that are not there;
// what explains them is in our own words.
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
    "    Answers -1: the door tracks no keys.",
    "GETNAME",
    "    Tells the name that this connection has.",
    "ID",
    "    Tells the number that this connection has.",
    "INFO",
    "    Tells of this connection what LIST says of each.",
    "KILL <ip:port>",
    "    Ends the connection whose client has this address.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Ends each connection that all of these options mean:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      The client has this address.",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      The client came to this address of the door.",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      It is of this type. Subscribed ones are PUBSUB, all others NORMAL.",
    "    * USER <username>",
    "      It is of this user. The only one is default.",
    "    * SKIPME (YES|NO)",
    "      With NO the connection that asks may be ended, too.",
    "LIST [options ...]",
    "    Tells a line of each connection, or of those that an option means:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      They are of this type. Subscribed ones are PUBSUB, all others NORMAL.",
    "UNPAUSE",
    "    Ends a pause of writes before its time. One of all commands holds UNPAUSE, too.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Has all commands wait for <timeout> milliseconds, or with WRITE those that write.",
    "REPLY (ON|OFF|SKIP)",
    "    Turns replies on or off; SKIP leaves out the next one.",
    "SETNAME <name>",
    "    Names this connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Ends the wait of that connection's WAIT.",
    "NO-EVICT (ON|OFF)",
    "    With ON this connection is ended after all others when memory is short.",
};
constexpr Line kCommandHelp[] = {
    "(no subcommand)",
    "    Tells of each command how it is called.",
    "COUNT",
    "    Tells how many commands the door knows.",
    "LIST",
    "    Lists the names of commands and subcommands.",
    "INFO [<command-name> ...]",
    "    Tells how these commands are called, and where their keys stand.",
    "    Without a name: of all of them.",
    "DOCS [<command-name> ...]",
    "    Tells what these commands do, and which arguments they take.",
    "    Without a name: of all of them.",
    "GETKEYS <full-command>",
    "    Picks out the keys of a call.",
    "GETKEYSANDFLAGS <full-command>",
    "    Picks out the keys of a call, each with what the call does to it.",
};
constexpr Line kConfigHelp[] = {
    "GET <pattern>",
    "    Tells the settings whose names <pattern> means, with * ? and [].",
    "SET <directive> <value>",
    "    Changes a setting of the door's own. The node's stay as they are.",
    "RESETSTAT",
    "    Lets the counts of INFO begin at 0 again.",
    "REWRITE",
    "    Answers by an error: a door has no file of settings.",
};
constexpr Line kLatencyHelp[] = {
    "DOCTOR",
    "    Says where latencies are told: there are no samples here.",
    "GRAPH <event>",
    "    Answers by an error: no <event> has samples.",
    "HISTORY <event>",
    "    Answers by an empty list: no <event> has samples.",
    "LATEST",
    "    Answers by an empty list: there are no events.",
    "RESET [<event> ...]",
    "    Answers 0: there are no samples to forget.",
    "HISTOGRAM [COMMAND ...]",
    "    Answers by an empty map: no latencies are counted by command.",
};
constexpr Line kMemoryHelp[] = {
    "DOCTOR",
    "    Names the tools that look at the node's memory.",
    "PURGE",
    "    Answers OK: the node gives memory back by itself.",
    "STATS",
    "    Tells in numbers what the node's memory is used for.",
    "USAGE <key> [SAMPLES <count>]",
    "    Tells how many bytes of the node's memory <key> and its value take.",
    "    All of it is counted, so <count> changes nothing.",
};
constexpr Line kObjectHelp[] = {
    "ENCODING <key>", "    Tells in which form Redis would keep the value: int, embstr or raw.",
    "FREQ <key>",     "    Answers by an error where <key> is there: the door counts no reads of keys.",
    "IDLETIME <key>", "    Answers by an error where <key> is there: a read leaves no time behind.",
    "REFCOUNT <key>", "    Answers 1 where <key> is there: no two keys share a value.",
};
constexpr Line kPubsubHelp[] = {
    "CHANNELS [<pattern>]",
    "    Lists the channels that have subscribers, or those that <pattern> means.",
    "NUMPAT",
    "    Counts the patterns that have subscribers.",
    "NUMSUB [<channel> ...]",
    "    Counts the subscribers of each <channel>, those by patterns not among them.",
    "SHARDCHANNELS [<pattern>]",
    "    Lists the shard channels that have subscribers, or those that <pattern> means.",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Counts the subscribers of each <shardchannel>.",
};
constexpr Line kSlowlogHelp[] = {
    "GET [<count>]",
    "    Tells the last <count> calls that took long, or 10; -1 stands for all.",
    "    Each has its number, when it ended in seconds since 1970, how many microseconds",
    "    it took, its words, and the address and the name of its client.",
    "LEN",
    "    Counts the entries of this log.",
    "RESET",
    "    Empties this log.",
};

struct Help {
  std::string_view command;
  std::span<const Line> lines;
};
constexpr Help kHelps[] = {{"client", kClientHelp},   {"command", kCommandHelp}, {"config", kConfigHelp},
                           {"latency", kLatencyHelp}, {"memory", kMemoryHelp},   {"object", kObjectHelp},
                           {"pubsub", kPubsubHelp},   {"slowlog", kSlowlogHelp}};

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
  call.reply.simple("    Tells these lines.");
  return true;
}

}  // namespace refract::doors::redis
