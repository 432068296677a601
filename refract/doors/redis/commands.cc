// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "refract/doors/admin/handlers.h"
#include "refract/doors/exec/body_commands.h"
#include "refract/doors/exec/handlers.h"
#include "refract/doors/messages/handlers.h"
#include "refract/doors/redis/handlers.h"
#include "refract/doors/writes/key_write.h"

namespace refract::doors::redis {
namespace {

// Of one key it needs no others' end.
Kind kind_of_del(Words words) {
  return words.size() == 2 ? Kind::kWrite : Kind::kAll;
}
// Replies that may be long wait for room, and for all before them.
Kind kind_of_set(Words words) {
  const auto is_get = [](std::string_view word) { return is_option(word, "get"); };
  return words.size() > 3 && std::ranges::any_of(words.subspan(3), is_get) ? Kind::kAll : Kind::kWrite;
}
Kind kind_of_getex(Words words) {
  return words.size() == 2 ? Kind::kRead : Kind::kAll;
}

constexpr std::string_view kOfSubscriptions = "pubsub noscript loading stale";

constexpr Row kRowsWithoutBodies[] = {
    {"append", 3, Kind::kWrite, nullptr, write_by_itself, "write denyoom fast", 1, 1, 1, false,
     &kAppendWrite},
    {"auth", -2, Kind::kLocal, auth, nullptr, "noscript loading stale fast no_auth allow_busy", 0, 0, 0,
     true},
    {"client", -2, Kind::kLocal, nullptr, nullptr, "", 0, 0, 0, false, nullptr, nullptr, client_rows},
    {"command", -1, Kind::kLocal, command, nullptr, "loading stale", 0, 0, 0, false, nullptr, nullptr,
     command_rows},
    {"config", -2, Kind::kLocal, nullptr, nullptr, "", 0, 0, 0, false, nullptr, nullptr, config_rows},
    {"copy", -3, Kind::kAll, nullptr, run_together, "write denyoom", 1, 2, 1},
    {"dbsize", 1, Kind::kAll, nullptr, dbsize, "readonly fast", 0, 0, 0},
    {"debug", -2, Kind::kAll, nullptr, debug, "admin noscript loading stale", 0, 0, 0},
    {"decr", 2, Kind::kWrite, nullptr, write_by_itself, "write denyoom fast", 1, 1, 1, false, &kIncrWrite},
    {"decrby", 3, Kind::kWrite, nullptr, write_by_itself, "write denyoom fast", 1, 1, 1, false, &kIncrWrite},
    {"del", -2, Kind::kAll, nullptr, del_together, "write", 1, -1, 1, false, &kDelWrite, kind_of_del},
    {"discard", 1, Kind::kLocal, discard, nullptr, "noscript loading stale fast allow_busy", 0, 0, 0},
    {"echo", 2, Kind::kLocal, echo, nullptr, "loading stale fast", 0, 0, 0},
    {"exec", 1, Kind::kAll, nullptr, exec, "noscript loading stale skip_slowlog", 0, 0, 0},
    {"exists", -2, Kind::kRead, exists_at_once, exists, "readonly fast", 1, -1, 1},
    {"expire", -3, Kind::kWrite, nullptr, write_by_itself, "write fast", 1, 1, 1, false, &kExpireWrite},
    {"expireat", -3, Kind::kWrite, nullptr, write_by_itself, "write fast", 1, 1, 1, false, &kExpireWrite},
    {"expiretime", 2, Kind::kRead, ttl_at_once, ttl, "readonly fast", 1, 1, 1},
    {"flushall", -1, Kind::kAll, nullptr, flush, "write", 0, 0, 0},
    {"flushdb", -1, Kind::kAll, nullptr, flush, "write", 0, 0, 0},
    {"get", 2, Kind::kRead, get_at_once, get, "readonly fast", 1, 1, 1},
    {"getdel", 2, Kind::kAll, nullptr, getdel, "write fast", 1, 1, 1},
    {"getex", -2, Kind::kAll, nullptr, getex, "write fast", 1, 1, 1, false, nullptr, kind_of_getex},
    {"getrange", 4, Kind::kRead, getrange_at_once, getrange, "readonly", 1, 1, 1},
    {"getset", 3, Kind::kAll, nullptr, getset, "write denyoom fast", 1, 1, 1},
    {"hello", -1, Kind::kLocal, hello, nullptr, "noscript loading stale fast no_auth allow_busy", 0, 0, 0,
     true},
    {"incr", 2, Kind::kWrite, nullptr, write_by_itself, "write denyoom fast", 1, 1, 1, false, &kIncrWrite},
    {"incrby", 3, Kind::kWrite, nullptr, write_by_itself, "write denyoom fast", 1, 1, 1, false, &kIncrWrite},
    {"incrbyfloat", 3, Kind::kWrite, nullptr, write_by_itself, "write denyoom fast", 1, 1, 1, false,
     &kIncrbyfloatWrite},
    {"info", -1, Kind::kAll, info_at_once, info, "loading stale", 0, 0, 0},
    {"keys", 2, Kind::kAll, nullptr, keys, "readonly", 0, 0, 0},
    {"latency", -2, Kind::kLocal, nullptr, nullptr, "", 0, 0, 0, false, nullptr, nullptr, latency_rows},
    {"lcs", -3, Kind::kAll, nullptr, lcs, "readonly", 1, 2, 1},
    {"memory", -2, Kind::kLocal, nullptr, nullptr, "", 0, 0, 0, false, nullptr, nullptr, memory_rows},
    {"mget", -2, Kind::kRead, nullptr, mget, "readonly fast", 1, -1, 1},
    {"mset", -3, Kind::kAll, nullptr, mset_together, "write denyoom", 1, -1, 2},
    {"msetnx", -3, Kind::kAll, nullptr, run_together, "write denyoom", 1, -1, 2},
    {"multi", 1, Kind::kLocal, multi, nullptr, "noscript loading stale fast allow_busy", 0, 0, 0},
    {"object", -2, Kind::kLocal, nullptr, nullptr, "", 0, 0, 0, false, nullptr, nullptr, object_rows},
    {"persist", 2, Kind::kWrite, nullptr, write_by_itself, "write fast", 1, 1, 1, false, &kPersistWrite},
    {"pexpire", -3, Kind::kWrite, nullptr, write_by_itself, "write fast", 1, 1, 1, false, &kExpireWrite},
    {"pexpireat", -3, Kind::kWrite, nullptr, write_by_itself, "write fast", 1, 1, 1, false, &kExpireWrite},
    {"pexpiretime", 2, Kind::kRead, ttl_at_once, ttl, "readonly fast", 1, 1, 1},
    {"ping", -1, Kind::kLocal, ping, nullptr, "fast", 0, 0, 0},
    {"psetex", 4, Kind::kWrite, nullptr, write_by_itself, "write denyoom", 1, 1, 1, false, &kSetexWrite},
    {"psubscribe", -2, Kind::kAll, psubscribe, nullptr, kOfSubscriptions, 0, 0, 0},
    {"pttl", 2, Kind::kRead, ttl_at_once, ttl, "readonly fast", 1, 1, 1},
    {"publish", 3, Kind::kAll, publish_at_once, publish, "pubsub loading stale fast", 0, 0, 0},
    {"pubsub", -2, Kind::kLocal, nullptr, nullptr, "", 0, 0, 0, false, nullptr, nullptr, pubsub_rows},
    {"punsubscribe", -1, Kind::kAll, punsubscribe, nullptr, kOfSubscriptions, 0, 0, 0},
    {"quit", -1, Kind::kLocal, quit, nullptr, "noscript loading stale fast no_auth allow_busy", 0, 0, 0,
     true},
    {"randomkey", 1, Kind::kAll, nullptr, randomkey, "readonly", 0, 0, 0},
    {"rename", 3, Kind::kAll, nullptr, run_together, "write", 1, 2, 1},
    {"renamenx", 3, Kind::kAll, nullptr, run_together, "write fast", 1, 2, 1},
    {"reset", 1, Kind::kAll, reset, nullptr, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, true},
    {"scan", -2, Kind::kAll, nullptr, scan, "readonly", 0, 0, 0},
    {"select", 2, Kind::kLocal, select, nullptr, "loading stale fast", 0, 0, 0},
    {"set", -3, Kind::kWrite, nullptr, set, "write denyoom", 1, 1, 1, false, &kSetWrite, kind_of_set},
    {"setex", 4, Kind::kWrite, nullptr, write_by_itself, "write denyoom", 1, 1, 1, false, &kSetexWrite},
    {"setnx", 3, Kind::kWrite, nullptr, write_by_itself, "write denyoom fast", 1, 1, 1, false, &kSetnxWrite},
    {"setrange", 4, Kind::kWrite, nullptr, write_by_itself, "write denyoom", 1, 1, 1, false, &kSetrangeWrite},
    {"slowlog", -2, Kind::kLocal, nullptr, nullptr, "", 0, 0, 0, false, nullptr, nullptr, slowlog_rows},
    {"spublish", 3, Kind::kAll, publish_at_once, publish, "pubsub loading stale fast", 1, 1, 1},
    {"ssubscribe", -2, Kind::kAll, ssubscribe, nullptr, kOfSubscriptions, 1, -1, 1},
    {"strlen", 2, Kind::kRead, strlen_at_once, strlen, "readonly fast", 1, 1, 1},
    {"subscribe", -2, Kind::kAll, subscribe, nullptr, kOfSubscriptions, 0, 0, 0},
    {"substr", 4, Kind::kRead, getrange_at_once, getrange, "readonly", 1, 1, 1},
    {"sunsubscribe", -1, Kind::kAll, sunsubscribe, nullptr, kOfSubscriptions, 1, -1, 1},
    {"time", 1, Kind::kLocal, time, nullptr, "loading stale fast", 0, 0, 0},
    {"touch", -2, Kind::kRead, exists_at_once, exists, "readonly fast", 1, -1, 1},
    {"ttl", 2, Kind::kRead, ttl_at_once, ttl, "readonly fast", 1, 1, 1},
    {"type", 2, Kind::kRead, type_at_once, type, "readonly fast", 1, 1, 1},
    {"unlink", -2, Kind::kAll, nullptr, del_together, "write fast", 1, -1, 1, false, &kDelWrite, kind_of_del},
    {"unsubscribe", -1, Kind::kAll, unsubscribe, nullptr, kOfSubscriptions, 0, 0, 0},
    {"unwatch", 1, Kind::kLocal, unwatch, nullptr, "noscript loading stale fast allow_busy", 0, 0, 0},
    {"wait", 3, Kind::kAll, nullptr, wait, "noscript", 0, 0, 0},
    {"watch", -2, Kind::kRead, nullptr, watch, "noscript loading stale fast allow_busy", 1, -1, 1},
};
constexpr size_t kNameBytesMax = 32;

// What each does inside of a transaction stands with those functions.
std::vector<Row> with_bodies() {
  std::vector<Row> all(std::begin(kRowsWithoutBodies), std::end(kRowsWithoutBodies));
  for (const BodyCommand& command : body_commands()) {
    const auto row = std::ranges::find(all, command.name, &Row::name);
    if (row != all.end()) row->in_body = command.run;
  }
  return all;
}

}  // namespace

std::span<const Row> rows() noexcept {
  static const std::vector<Row> kRows = with_bodies();
  return kRows;
}

const Row* row_of(std::string_view name) noexcept {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const Row*> by_name;
    for (const Row& row : rows()) by_name.emplace(row.name, &row);
    return by_name;
  }();
  std::array<char, kNameBytesMax> lower;
  if (name.size() > lower.size()) return nullptr;
  std::ranges::transform(name, lower.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  const auto found = kByName.find(std::string_view(lower.data(), name.size()));
  return found == kByName.end() ? nullptr : found->second;
}

const Row* subrow_of(const Row& row, std::string_view name) noexcept {
  if (row.subcommands == nullptr) return nullptr;
  for (const Row& one : row.subcommands()) {
    if (is(name, one.name.substr(row.name.size() + 1))) return &one;
  }
  return nullptr;
}

const Row* row_called_by(Words words) noexcept {
  const Row* const row = words.empty() ? nullptr : row_of(words[0]);
  const bool has_word = row != nullptr && row->subcommands != nullptr && words.size() > 1;
  return has_word ? subrow_of(*row, words[1]) : row;
}

const Row* row_of_full_name(std::string_view name) noexcept {
  const size_t bar = name.find('|');
  if (bar == std::string_view::npos) return row_of(name);
  const Row* const row = row_of(name.substr(0, bar));
  return row == nullptr ? nullptr : subrow_of(*row, name.substr(bar + 1));
}

bool runs_while_loading(const Row& row) noexcept {
  return row.flags.find("loading") != std::string_view::npos;
}

bool has_arity(const Row& row, size_t words) noexcept {
  const auto count = static_cast<int64_t>(words);
  return row.arity < 0 ? count >= -row.arity : count == row.arity;
}

// The first 128 bytes of the name, and of all words together; of each what stands in front of a zero.
std::string unknown_command(Words words) {
  constexpr size_t kShownMax = 128;
  const auto shown = [](std::string_view word, size_t most) {
    return word.substr(0, std::min(word.find('\0'), most));
  };
  std::string arguments;
  for (size_t i = 1; i < words.size() && arguments.size() < kShownMax; ++i) {
    arguments += fmt::format("'{}' ", shown(words[i], kShownMax - arguments.size()));
  }
  return fmt::format("ERR unknown command '{}', with args beginning with: {}", shown(words[0], kShownMax),
                     arguments);
}

std::string wrong_arity(std::string_view name) {
  return fmt::format("ERR wrong number of arguments for '{}' command", name);
}

std::string unknown_subcommand(const Row& row, std::string_view word) {
  std::string command(row.name);
  std::ranges::transform(command, command.begin(), [](char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
  });
  return fmt::format("ERR unknown subcommand '{}'. Try {} HELP.", word.substr(0, 128), command);
}

}  // namespace refract::doors::redis
