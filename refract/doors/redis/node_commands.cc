// SPDX-License-Identifier: Apache-2.0
// Commands of the node as a whole; and what failures are called.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "refract/doors/admin/info.h"
#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"
#include "refract/kv/layout/contract.h"

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

// As strtoul reads it: with a sign, and nothing is 0.
std::optional<uint64_t> cursor_of(std::string_view word) {
  word = word.substr(0, word.find('\0'));
  if (word.empty()) return 0;
  const bool is_negative = word.front() == '-';
  if (is_negative || word.front() == '+') word.remove_prefix(1);
  uint64_t cursor = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), cursor);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return is_negative ? -cursor : cursor;
}

ScanOptions scan_options_of(Words words) {
  ScanOptions options;
  const std::optional<uint64_t> cursor = cursor_of(words[1]);
  options.cursor = cursor.value_or(0);
  if (!cursor) options.wrong = "ERR invalid cursor";
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

void fail_batch(Pending& command, Code code, const AsyncClient& client) {
  if (code != Code::kTooLarge) return fail_with(command, code, client);
  command.reply().error(fmt::format(
      "ERR this is more than one transaction may have: at most {} conditions and writes (MSETNX has "
      "two a key), and {} MiB of keys and values; at a node with a log the writes to one shard have "
      "some 4 MiB",
      kv::kBatchKeysMax, kv::kBatchBytesMax / kMiB));
}

// Of a node that is loading.
bool info_at_once(Call& call) {
  if (call.store.client != nullptr || !call.store.loading.is_so()) return false;
  call.reply.text(info_text(call.store, nullptr, call.words.subspan(1)));
  return true;
}

Task<> info(Store& store, Pending& command) {
  const NodeStat* const stat = co_await look_at_node(store);
  command.reply().text(info_text(store, stat, Words(command.words).subspan(1)));
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

// There is one database, and either way the reply says that all are gone. What others write meanwhile may go
// or stay.
Task<> flush(Store& store, Pending& command) {
  const auto& words = command.words;
  const bool makes_sense =
      words.size() == 1 || (words.size() == 2 && (is(words[1], "async") || is(words[1], "sync")));
  if (!makes_sense) co_return command.reply().error(kSyntaxError);
  const Result<uint64_t> erased = co_await store.client->clear();
  if (!erased) co_return fail_with(command, erased.code(), *store.client);
  command.reply().ok();
}

}  // namespace refract::doors::redis
