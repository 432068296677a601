// SPDX-License-Identifier: Apache-2.0
// The subcommands: a row for each, as in commands.cc.
#include "refract/doors/admin/handlers.h"

namespace refract::doors::redis {
namespace {

constexpr std::string_view kOfAdmin = "admin noscript loading stale";
constexpr std::string_view kOfLine = "noscript loading stale";
constexpr std::string_view kOfHelp = "loading stale";

constexpr Row kClientRows[] = {
    {"client|getname", 2, Kind::kLocal, client_getname, nullptr, kOfLine, 0, 0, 0},
    {"client|getredir", 2, Kind::kLocal, client_getredir, nullptr, kOfLine, 0, 0, 0},
    {"client|help", 2, Kind::kLocal, help, nullptr, kOfHelp, 0, 0, 0},
    {"client|id", 2, Kind::kLocal, client_id, nullptr, kOfLine, 0, 0, 0},
    {"client|info", 2, Kind::kLocal, client_info, nullptr, kOfLine, 0, 0, 0},
    {"client|kill", -3, Kind::kAll, nullptr, client_kill, kOfAdmin, 0, 0, 0},
    {"client|list", -2, Kind::kAll, nullptr, client_list, kOfAdmin, 0, 0, 0},
    {"client|no-evict", 3, Kind::kLocal, client_no_evict, nullptr, kOfAdmin, 0, 0, 0},
    {"client|pause", -3, Kind::kLocal, client_pause, nullptr, kOfAdmin, 0, 0, 0},
    {"client|reply", 3, Kind::kLocal, client_reply, nullptr, kOfLine, 0, 0, 0},
    {"client|setinfo", 4, Kind::kLocal, client_setinfo, nullptr, kOfLine, 0, 0, 0},
    {"client|setname", 3, Kind::kLocal, client_setname, nullptr, kOfLine, 0, 0, 0},
    {"client|unblock", -3, Kind::kLocal, client_unblock, nullptr, kOfAdmin, 0, 0, 0},
    {"client|unpause", 2, Kind::kLocal, client_unpause, nullptr, kOfAdmin, 0, 0, 0},
};

constexpr Row kCommandRows[] = {
    {"command|count", 2, Kind::kLocal, command_count, nullptr, kOfHelp, 0, 0, 0},
    {"command|docs", -2, Kind::kLocal, command_docs, nullptr, kOfHelp, 0, 0, 0},
    {"command|getkeys", -4, Kind::kLocal, command_getkeys, nullptr, kOfHelp, 0, 0, 0},
    {"command|getkeysandflags", -4, Kind::kLocal, command_getkeysandflags, nullptr, kOfHelp, 0, 0, 0},
    {"command|help", 2, Kind::kLocal, help, nullptr, kOfHelp, 0, 0, 0},
    {"command|info", -2, Kind::kLocal, command_info, nullptr, kOfHelp, 0, 0, 0},
    {"command|list", -2, Kind::kLocal, command_list, nullptr, kOfHelp, 0, 0, 0},
};

constexpr Row kConfigRows[] = {
    {"config|get", -3, Kind::kLocal, config_get, nullptr, kOfAdmin, 0, 0, 0},
    {"config|help", 2, Kind::kLocal, help, nullptr, kOfHelp, 0, 0, 0},
    {"config|resetstat", 2, Kind::kAll, nullptr, config_resetstat, kOfAdmin, 0, 0, 0},
    {"config|rewrite", 2, Kind::kLocal, config_rewrite, nullptr, kOfAdmin, 0, 0, 0},
    {"config|set", -4, Kind::kLocal, config_set, nullptr, kOfAdmin, 0, 0, 0},
};

constexpr Row kLatencyRows[] = {
    {"latency|doctor", 2, Kind::kLocal, latency_doctor, nullptr, kOfAdmin, 0, 0, 0},
    {"latency|graph", 3, Kind::kLocal, latency_graph, nullptr, kOfAdmin, 0, 0, 0},
    {"latency|help", 2, Kind::kLocal, help, nullptr, kOfHelp, 0, 0, 0},
    {"latency|histogram", -2, Kind::kLocal, latency_histogram, nullptr, kOfAdmin, 0, 0, 0},
    {"latency|history", 3, Kind::kLocal, latency_none, nullptr, kOfAdmin, 0, 0, 0},
    {"latency|latest", 2, Kind::kLocal, latency_none, nullptr, kOfAdmin, 0, 0, 0},
    {"latency|reset", -2, Kind::kLocal, latency_reset, nullptr, kOfAdmin, 0, 0, 0},
};

constexpr Row kMemoryRows[] = {
    {"memory|doctor", 2, Kind::kLocal, memory_doctor, nullptr, "", 0, 0, 0},
    {"memory|help", 2, Kind::kLocal, help, nullptr, kOfHelp, 0, 0, 0},
    {"memory|purge", 2, Kind::kLocal, memory_purge, nullptr, "", 0, 0, 0},
    {"memory|stats", 2, Kind::kAll, nullptr, memory_stats, "", 0, 0, 0},
    {"memory|usage", -3, Kind::kRead, nullptr, memory_usage, "readonly", 2, 2, 1},
};

constexpr Row kObjectRows[] = {
    {"object|encoding", 3, Kind::kRead, nullptr, object_encoding, "readonly", 2, 2, 1},
    {"object|freq", 3, Kind::kRead, nullptr, object_freq, "readonly", 2, 2, 1},
    {"object|help", 2, Kind::kLocal, help, nullptr, kOfHelp, 0, 0, 0},
    {"object|idletime", 3, Kind::kRead, nullptr, object_idletime, "readonly", 2, 2, 1},
    {"object|refcount", 3, Kind::kRead, nullptr, object_refcount, "readonly", 2, 2, 1},
};

constexpr Row kSlowlogRows[] = {
    {"slowlog|get", -2, Kind::kLocal, slowlog_get, nullptr, "admin loading stale", 0, 0, 0},
    {"slowlog|help", 2, Kind::kLocal, help, nullptr, kOfHelp, 0, 0, 0},
    {"slowlog|len", 2, Kind::kLocal, slowlog_len, nullptr, "admin loading stale", 0, 0, 0},
    {"slowlog|reset", 2, Kind::kLocal, slowlog_reset, nullptr, "admin loading stale", 0, 0, 0},
};

}  // namespace

std::span<const Row> client_rows() noexcept {
  return kClientRows;
}
std::span<const Row> command_rows() noexcept {
  return kCommandRows;
}
std::span<const Row> config_rows() noexcept {
  return kConfigRows;
}
std::span<const Row> latency_rows() noexcept {
  return kLatencyRows;
}
std::span<const Row> memory_rows() noexcept {
  return kMemoryRows;
}
std::span<const Row> object_rows() noexcept {
  return kObjectRows;
}
std::span<const Row> slowlog_rows() noexcept {
  return kSlowlogRows;
}

}  // namespace refract::doors::redis
