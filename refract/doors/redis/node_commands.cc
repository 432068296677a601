// SPDX-License-Identifier: Apache-2.0
// Commands of the node as a whole; and what failures are called.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

struct ScanOptions {
  uint64_t cursor = 0;
  std::optional<std::string_view> pattern;
  size_t count = 10;
  bool is_of_strings = true;
  std::string_view wrong{};
};

ScanOptions scan_options_of(Words words) {
  ScanOptions options;
  const std::string_view cursor = words[1];
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), options.cursor);
  if (error != std::errc() || end != cursor.data() + cursor.size()) options.wrong = "ERR invalid cursor";
  for (size_t i = 2; i < words.size() && options.wrong.empty(); i += 2) {
    const std::string_view option = i + 1 < words.size() ? words[i] : std::string_view();
    if (is(option, "match")) {
      options.pattern = words[i + 1];
      if (words[i + 1].size() > kPatternBytesMax) options.wrong = kLongPattern;
    } else if (is(option, "count")) {
      const auto count = integer_of(words[i + 1]);
      if (!count) options.wrong = kNoInteger;
      if (count && *count < 1) options.wrong = kSyntaxError;
      if (count) options.count = static_cast<size_t>(std::clamp<int64_t>(*count, 1, 10'000));
    } else if (is(option, "type")) {
      options.is_of_strings = is(words[i + 1], "string");
    } else {
      options.wrong = kSyntaxError;
    }
  }
  return options;
}

// `stat` is null where the node's server does not tell.
std::string info_of(const Store& store, const NodeStat* stat) {
  const Facts& facts = store.facts;
  const Counts& counts = store.counts;
  std::string text = fmt::format(
      "# Server\r\nredis_version:{}\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\n"
      "process_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{}\r\nio_threads_active:{}\r\n"
      "refract_version:{}\r\nrefract_socket:{}\r\n\r\n",
      kRedisVersion, ::getpid(), facts.tcp_port, (system_clock().now_ns() - facts.begun_ns) / kSecond_ns,
      facts.threads, REFRACT_VERSION, facts.node);
  text += fmt::format("# Clients\r\nconnected_clients:{}\r\n\r\n", counts.connections.load());
  text += "# Memory\r\n";
  if (stat != nullptr) text += fmt::format("used_memory:{}\r\n", stat->bytes_live + stat->bytes_retired);
  text +=
      fmt::format("maxmemory:{}\r\nmaxmemory_policy:{}\r\n\r\n", facts.memory_limit_bytes, facts.eviction);
  text += fmt::format("# Persistence\r\nloading:{}\r\n\r\n", store.loading.is_so() ? 1 : 0);
  text += fmt::format(
      "# Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\nkeyspace_hits:{}\r\n"
      "keyspace_misses:{}\r\n",
      counts.received.load(), counts.commands.load(), counts.hits.load(), counts.misses.load());
  if (stat != nullptr) text += fmt::format("expired_keys:{}\r\n", stat->expired);
  text += "\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Keyspace\r\n";
  if (stat != nullptr && stat->entries != 0) {
    text += fmt::format("db0:keys={},expires={},avg_ttl=0\r\n", stat->entries, stat->expiring_entries);
  }
  return text;
}

// The sections of these names; nothing named, or "all" and the like: every one.
std::string sections_of(const std::string& text, Words names) {
  const bool is_all = names.empty() || std::ranges::any_of(names, [](std::string_view name) {
                        return is(name, "all") || is(name, "default") || is(name, "everything");
                      });
  if (is_all) return text;
  std::string wanted;
  for (size_t begin = text.find("# "); begin != std::string::npos;) {
    const size_t end = std::min(text.find("# ", begin + 2), text.size());
    const std::string_view section = std::string_view(text).substr(begin, end - begin);
    const std::string_view title = section.substr(2, section.find('\r') - 2);
    const auto is_named = [&](std::string_view name) {
      return std::ranges::equal(name, title, [](char a, char b) { return (a | ' ') == (b | ' '); });
    };
    if (std::ranges::any_of(names, is_named)) wanted += section;
    begin = end == text.size() ? std::string::npos : end;
  }
  return wanted;
}

}  // namespace

std::string error_of(Code code, const AsyncClient& client) {
  switch (code) {
    case Code::kNoSpace:
      return "OOM command not allowed when used memory > 'maxmemory'.";
    case Code::kReadOnly:
      return "MISCONF Errors writing to the AOF file: the node's log cannot be written";
    case Code::kTooLarge:
      return fmt::format("ERR {}: keys have at most 65535 bytes", info(code).sentence);
    case Code::kInvalidArgument:
      return "ERR keys have at least one byte";
    default:
      return fmt::format("ERR {}: {}", info(code).sentence, client.trouble().to_line());
  }
}

void fail_with(Pending& command, Code code, const AsyncClient& client) {
  if (code == Code::kIndeterminate) {
    command.breaks = true;
    return;
  }
  command.reply().error(error_of(code, client));
}

// Of a node that is not there yet.
bool info_at_once(Call& call) {
  if (call.store.client != nullptr) return false;
  call.reply.text(sections_of(info_of(call.store, nullptr), call.words.subspan(1)));
  return true;
}

Task<> info(Store& store, Pending& command) {
  const Result<NodeStat> stat = co_await store.client->stat();
  command.reply().text(sections_of(info_of(store, stat ? &*stat : nullptr), Words(command.words).subspan(1)));
}

Task<> dbsize(Store& store, Pending& command) {
  const Result<NodeStat> stat = co_await store.client->stat();
  if (!stat) co_return fail_with(command, stat.code(), *store.client);
  command.reply().number(static_cast<int64_t>(stat->entries));
}

Task<> scan(Store& store, Pending& command) {
  const ScanOptions options = scan_options_of(command.words);
  if (!options.wrong.empty()) co_return command.reply().error(options.wrong);
  const Result<ScanPage> page = co_await store.client->scan(options.cursor, options.count);
  if (page.code() == Code::kInvalidArgument) co_return command.reply().error("ERR invalid cursor");
  if (!page) co_return fail_with(command, page.code(), *store.client);
  std::vector<std::string_view> keys;
  keys.reserve(page->entries.size());
  for (const ScanEntry& entry : page->entries) {
    const bool is_wanted = !options.pattern || matches(*options.pattern, entry.key);
    if (is_wanted && options.is_of_strings) keys.emplace_back(entry.key);
  }
  Reply reply = command.reply();
  reply.array(2);
  reply.bulk(std::to_string(page->next));
  reply.array(keys.size());
  for (const std::string_view key : keys) reply.bulk(key);
}

}  // namespace refract::doors::redis
