// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/info.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {
namespace {

// As Redis writes it: "1.50M".
std::string human(uint64_t bytes) {
  constexpr std::array<char, 5> kUnits = {'K', 'M', 'G', 'T', 'P'};
  if (bytes < 1024) return fmt::format("{}B", bytes);
  double number = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  return fmt::format("{:.2f}{}", number, kUnits[unit]);
}

uint64_t memory_of_machine() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long bytes = ::sysconf(_SC_PAGE_SIZE);
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
}

std::string server_section(Store& store, const NodeStat* /*stat*/) {
  const Facts& facts = store.facts;
  utsname system{};
  (void)::uname(&system);
  const uint64_t up_s = (system_clock().now_ns() - facts.begun_ns) / kSecond_ns;
  return fmt::format(
      "redis_version:{}\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0\r\nredis_mode:standalone\r\n"
      "os:{} {} {}\r\narch_bits:64\r\nmultiplexing_api:epoll\r\nprocess_id:{}\r\ntcp_port:{}\r\n"
      "server_time_usec:{}\r\nuptime_in_seconds:{}\r\nuptime_in_days:{}\r\nio_threads_active:{}\r\n"
      "refract_version:{}\r\nrefract_socket:{}\r\n",
      kRedisVersion, system.sysname, system.release, system.machine, ::getpid(), facts.tcp_port,
      system_clock().wall_ns() / kMicrosecond_ns, up_s, up_s / 86'400, facts.threads, REFRACT_VERSION,
      facts.node);
}

std::string clients_section(Store& store, const NodeStat* /*stat*/) {
  return fmt::format(
      "connected_clients:{}\r\ncluster_connections:0\r\nmaxclients:{}\r\nblocked_clients:{}\r\n"
      "tracking_clients:0\r\nclients_in_timeout_table:0\r\n",
      store.common.connections.load(), store.facts.lines_max, store.common.blocked.load());
}

// Of the node's memory; what the doors hold for their clients is not in it, as it is in Redis.
std::string memory_section(Store& store, const NodeStat* stat) {
  const Facts& facts = store.facts;
  std::string text;
  if (stat != nullptr) {
    const uint64_t used = stat->bytes_live;
    const uint64_t taken = stat->bytes_total - std::min(stat->bytes_free, stat->bytes_total);
    text = fmt::format(
        "used_memory:{}\r\nused_memory_human:{}\r\nused_memory_rss:{}\r\nused_memory_rss_human:{}\r\n"
        "used_memory_dataset:{}\r\nmem_fragmentation_ratio:{:.2f}\r\nmem_fragmentation_bytes:{}\r\n",
        used, human(used), taken, human(taken), used - std::min(stat->bytes_retired, used),
        static_cast<double>(taken) / static_cast<double>(std::max<uint64_t>(used, 1)),
        static_cast<int64_t>(taken) - static_cast<int64_t>(used));
  }
  const uint64_t machine = memory_of_machine();
  text += fmt::format(
      "total_system_memory:{}\r\ntotal_system_memory_human:{}\r\nmaxmemory:{}\r\nmaxmemory_human:{}\r\n"
      "maxmemory_policy:{}\r\nmem_allocator:refract\r\nactive_defrag_running:0\r\n",
      machine, human(machine), facts.memory_limit_bytes, human(facts.memory_limit_bytes), facts.eviction);
  return text;
}

std::string persistence_section(Store& store, const NodeStat* /*stat*/) {
  return fmt::format(
      "loading:{}\r\nasync_loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:{}\r\n"
      "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\nrefract_durability:{}\r\n",
      store.loading.is_so() ? 1 : 0, store.facts.durability == "none" ? 0 : 1, store.facts.durability);
}

std::string stats_section(Store& store, const NodeStat* stat) {
  const CountSums counts = store.common.counts.sums();
  const Rates::Sums sums{
      .commands = counts.commands, .bytes_in = counts.bytes_in, .bytes_out = counts.bytes_out};
  const Rates::Sums rates = store.common.rates.of_a_second(store.shard.refresh_now(), sums);
  std::string text = fmt::format(
      "total_connections_received:{}\r\ntotal_commands_processed:{}\r\ninstantaneous_ops_per_sec:{}\r\n"
      "total_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\ninstantaneous_input_kbps:{:.2f}\r\n"
      "instantaneous_output_kbps:{:.2f}\r\nrejected_connections:{}\r\n",
      counts.received, sums.commands, rates.commands, sums.bytes_in, sums.bytes_out,
      static_cast<double>(rates.bytes_in) / 1024, static_cast<double>(rates.bytes_out) / 1024,
      counts.rejected);
  if (stat != nullptr) {
    const NodeCounts counted =
        store.common.counts.since({.expired = stat->expired, .evicted = stat->evicted});
    text += fmt::format("expired_keys:{}\r\nevicted_keys:{}\r\n", counted.expired, counted.evicted);
  }
  text += fmt::format(
      "evicted_clients:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\npubsub_channels:{}\r\n"
      "pubsub_patterns:{}\r\npubsubshard_channels:{}\r\n",
      counts.evicted, counts.hits, counts.misses, store.common.board.topics(TopicKind::kChannel),
      store.common.board.topics(TopicKind::kPattern), store.common.board.topics(TopicKind::kShardChannel));
  return text;
}

std::string replication_section(Store& /*store*/, const NodeStat* /*stat*/) {
  return "role:master\r\nconnected_slaves:0\r\nmaster_repl_offset:0\r\n";
}

// Of the doors' process.
std::string cpu_section(Store& /*store*/, const NodeStat* /*stat*/) {
  rusage used{};
  (void)::getrusage(RUSAGE_SELF, &used);
  return fmt::format("used_cpu_sys:{}.{:06}\r\nused_cpu_user:{}.{:06}\r\n", used.ru_stime.tv_sec,
                     used.ru_stime.tv_usec, used.ru_utime.tv_sec, used.ru_utime.tv_usec);
}

std::string modules_section(Store& /*store*/, const NodeStat* /*stat*/) {
  return {};
}

// What is answered at once takes no time here: nothing looks at the clock for it.
std::string commandstats_section(Store& store, const NodeStat* /*stat*/) {
  std::string text;
  for (const CommandSums& one : store.common.command_counts.sums()) {
    const uint64_t us = one.ns / kMicrosecond_ns;
    const double each = one.calls == 0 ? 0 : static_cast<double>(us) / static_cast<double>(one.calls);
    text +=
        fmt::format("cmdstat_{}:calls={},usec={},usec_per_call={:.2f},rejected_calls={},failed_calls={}\r\n",
                    one.row->name, one.calls, us, each, one.rejected, one.failed);
  }
  return text;
}

std::string cluster_section(Store& /*store*/, const NodeStat* /*stat*/) {
  return "cluster_enabled:0\r\n";
}

std::string keyspace_section(Store& /*store*/, const NodeStat* stat) {
  if (stat == nullptr || stat->entries == 0) return {};
  return fmt::format("db0:keys={},expires={},avg_ttl=0\r\n", stat->entries, stat->expiring_entries);
}

struct Section {
  std::string_view name;   // In lower letters.
  std::string_view title;  // As it stands above it.
  std::string (*text)(Store& store, const NodeStat* stat);
  bool is_default = true;  // It is told where none is named.
};
constexpr Section kSections[] = {
    {"server", "Server", server_section},
    {"clients", "Clients", clients_section},
    {"memory", "Memory", memory_section},
    {"persistence", "Persistence", persistence_section},
    {"stats", "Stats", stats_section},
    {"replication", "Replication", replication_section},
    {"cpu", "CPU", cpu_section},
    {"modules", "Modules", modules_section},
    {"commandstats", "Commandstats", commandstats_section, /*is_default=*/false},
    {"cluster", "Cluster", cluster_section},
    {"keyspace", "Keyspace", keyspace_section},
};

}  // namespace

std::string info_text(Store& store, const NodeStat* stat, Words names) {
  const auto is_named = [names](std::string_view wanted) {
    return std::ranges::any_of(names, [wanted](std::string_view name) { return is(name, wanted); });
  };
  const bool is_all = is_named("all") || is_named("everything");
  const bool is_default = names.empty() || is_named("default");
  std::string text;
  for (const Section& section : kSections) {
    const bool is_wanted = is_all || (is_default && section.is_default) || is_named(section.name);
    if (!is_wanted) continue;
    if (!text.empty()) text += "\r\n";
    text += fmt::format("# {}\r\n{}", section.title, section.text(store, stat));
  }
  return text;
}

}  // namespace refract::doors::redis
