// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/knobs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "refract/base/default_socket.h"
#include "refract/base/units.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/node/config/cluster_nodes.h"
#include "refract/node/config/config.h"
#include "refract/node/config/redis_address.h"

namespace refract::node {
namespace {

constexpr int64_t kTebibyte = int64_t{1} << 40;
constexpr int64_t kSizeMost = 64 * kTebibyte;

// The command line's have been made absolute before.
std::unexpected<Report> no_path(const std::string& text, std::string_view wanted) {
  return report(Code::kInvalidArgument, fmt::format("expected {}, found '{}'", wanted, text),
                "a path may be relative on the command line and in the environment, not in a file");
}

Reported<> store_socket_path(NodeConfig& config, const KnobValue& value) {
  if (!value.text.starts_with('/') || value.text.find('\0') != std::string::npos) {
    return no_path(value.text, "an absolute path");
  }
  if (value.text.size() > kSocketPathBytesMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected a path of at most {} bytes (the system allows no more "
                              "for a socket), found one of {}",
                              kSocketPathBytesMax, value.text.size()));
  }
  config.socket_path = value.text;
  return {};
}

// The word for what is not there, since an empty variable means that nothing was said.
constexpr std::string_view kNone = "none";

Reported<> store_rdma_device(NodeConfig& config, const KnobValue& value) {
  config.rdma_device = value.text == kNone ? std::string() : value.text;
  if (value.text.empty() || value.text.find_first_of(std::string_view("/ \0", 3)) != std::string::npos) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected the name of a device, found '{}'", value.text));
  }
  return {};
}

Reported<> store_rdma_connect_by(NodeConfig& config, const KnobValue& value) {
  const auto by = fabric::verbs::connect_by(value.text);
  if (!by) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected auto, exchange or cm, found '{}'", value.text));
  }
  config.rdma_connect_by = *by;
  return {};
}

Reported<> store_listen_address(NodeConfig& config, const KnobValue& value) {
  config.listen_address.clear();
  if (value.text == kNone) return {};
  if (auto sound = fabric::tcp::is_loopback(value.text); !sound) return report(sound.error());
  config.listen_address = value.text;
  return {};
}

template <auto kMember>
Reported<> store_secret_file(NodeConfig& config, const KnobValue& value) {
  (config.*kMember).clear();
  if (value.text == kNone) return {};
  if (!value.text.starts_with('/') || value.text.find('\0') != std::string::npos) {
    return no_path(value.text, "an absolute path or none");
  }
  config.*kMember = value.text;
  return {};
}

template <auto kMember>
std::string show_or_none(const NodeConfig& config) {
  return (config.*kMember).empty() ? std::string(kNone) : config.*kMember;
}

Reported<> store_backing(NodeConfig& config, const KnobValue& value) {
  Reported<Backing> backing = parse_backing(value.text);
  if (!backing) return report(backing.error());
  config.memory_backing = std::move(*backing);
  return {};
}

struct DurabilityName {
  std::string_view name;
  Durability durability;
};
constexpr std::array<DurabilityName, 3> kDurabilities = {
    {{"none", Durability::kNone}, {"everysec", Durability::kEverySecond}, {"always", Durability::kAlways}}};

Reported<> store_durability(NodeConfig& config, const KnobValue& value) {
  for (const DurabilityName& each : kDurabilities) {
    if (each.name != value.text) continue;
    config.durability = each.durability;
    return {};
  }
  return report(Code::kInvalidArgument,
                fmt::format("expected none, everysec or always, found '{}'", value.text));
}

std::string show_durability(const NodeConfig& config) {
  return std::string(kDurabilities[static_cast<size_t>(config.durability)].name);
}

struct EvictionName {
  std::string_view name;
  kv::EvictionPolicy policy;
};
constexpr std::array<EvictionName, 3> kEvictions = {{{"none", kv::EvictionPolicy::kNone},
                                                     {"lru", kv::EvictionPolicy::kLeastRecentlyUsed},
                                                     {"lfu", kv::EvictionPolicy::kLeastOftenUsed}}};

Reported<> store_eviction(NodeConfig& config, const KnobValue& value) {
  for (const EvictionName& each : kEvictions) {
    if (each.name != value.text) continue;
    config.memory_eviction = each.policy;
    return {};
  }
  return report(Code::kInvalidArgument, fmt::format("expected none, lru or lfu, found '{}'", value.text));
}

std::string show_eviction(const NodeConfig& config) {
  return std::string(kEvictions[static_cast<size_t>(config.memory_eviction)].name);
}

Reported<> store_data_folder(NodeConfig& config, const KnobValue& value) {
  if (!value.text.starts_with('/') || value.text.find('\0') != std::string::npos) {
    return no_path(value.text, "an absolute path");
  }
  config.data_folder = value.text;
  return {};
}

Reported<> store_log_level(NodeConfig& config, const KnobValue& value) {
  const Result<LogLevel> level = log_level_from_text(value.text);
  if (!level) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected error, warn, info or debug, found '{}'", value.text));
  }
  config.log_level = *level;
  return {};
}

// Stores a number that parse_value has found in range.
template <auto kMember>
Reported<> store_number(NodeConfig& config, const KnobValue& value) {
  using Number = std::remove_reference_t<decltype(config.*kMember)>;
  config.*kMember = static_cast<Number>(value.number);
  return {};
}
template <auto kMember>
std::string show_bytes(const NodeConfig& config) {
  return exact_bytes(config.*kMember);
}
template <auto kMember>
std::string show_duration(const NodeConfig& config) {
  return exact_duration(config.*kMember);
}
template <auto kMember>
std::string show_number(const NodeConfig& config) {
  return fmt::format("{}", config.*kMember);
}

Reported<> store_cluster_nodes(NodeConfig& config, const KnobValue& value) {
  config.cluster_nodes = value.text == kNone ? std::string() : value.text;
  return value.text == kNone ? Reported<>{} : check_cluster_nodes(value.text);
}

Reported<> store_directory(NodeConfig& config, const KnobValue& value) {
  config.objects_directory.clear();
  if (value.text == kNone) return {};
  if (auto sound = parse_redis_address(value.text); !sound) return report(sound.error());
  config.objects_directory = value.text;
  return {};
}

Reported<> store_cluster_self(NodeConfig& config, const KnobValue& value) {
  // Whatever it is, it must stand in the list, where names are checked.
  config.cluster_self = value.text;
  return {};
}

constexpr std::array kTable = {
    Knob{.key = "socket.path",
         .type = KnobType::kText,
         .fallback = "",
         .fallback_words =
             "$XDG_RUNTIME_DIR/refract/node.sock; without that variable /run/refract/node.sock for root "
             "and /tmp/refract-UID/node.sock for others",
         .path = PathForm::kPath,
         .choices = "a path of at most 107 bytes",
         .sentence = "The Unix socket on which clients of this host meet the node.",
         .store = store_socket_path,
         .show = [](const NodeConfig& config) { return config.socket_path; }},
    Knob{.key = "listen.address",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .choices = "ADDRESS:PORT, such as 127.0.0.1:7400 or [::]:7400; or none",
         .sentence =
             "Where the node listens for TCP clients. Port 0 takes one that is free, which the banner "
             "names. Anything but an address of this host alone needs auth.secret_file.",
         .store = store_listen_address,
         .show = show_or_none<&NodeConfig::listen_address>},
    Knob{.key = "auth.secret_file",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .path = PathForm::kPathOrNone,
         .choices = "a path, or none",
         .sentence = "The file with the secret that TCP clients must know: 16 to 1024 bytes, readable by its "
                     "owner alone. The secret itself never crosses the network.",
         .store = store_secret_file<&NodeConfig::auth_secret_file>,
         .show = show_or_none<&NodeConfig::auth_secret_file>},
    Knob{.key = "rdma.device",
         .type = KnobType::kText,
         .fallback = kRdmaAuto,
         .fallback_words = "",
         .choices = "auto, the name of a device as refract doctor lists them, or none",
         .sentence =
             "The RDMA device by which clients reach the node that met it at listen.address. auto takes "
             "one that works, if there is one; with a device that is named the node does not start "
             "unless it works.",
         .store = store_rdma_device,
         .show = show_or_none<&NodeConfig::rdma_device>},
    Knob{.key = "rdma.connect_by",
         .type = KnobType::kText,
         .fallback = "auto",
         .fallback_words = "",
         .choices = "auto, exchange or cm",
         .sentence =
             "How RDMA connections are set up: by exchange of their numbers over TCP, by librdmacm (cm), or "
             "by "
             "exchange and, where that leads nowhere, by librdmacm. cm is for networks that only let through "
             "what the connection manager has set up; exchange keeps the node from listening there.",
         .store = store_rdma_connect_by,
         .show = [](const NodeConfig& config) { return std::string(text(config.rdma_connect_by)); }},
    Knob{.key = "memory.limit",
         .type = KnobType::kBytes,
         .fallback = "",
         .fallback_words = "1GiB, or half of the memory that is available if that is less",
         .least = 16 << 20,
         .most = kSizeMost,
         .may_be_share = true,
         .choices = "",
         .sentence =
             "What the store may grow to; beyond it, puts are answered with no_space. A share is "
             "taken of what "
             "the machine and the cgroups leave at the start. Divided evenly among the shards, rounded "
             "down to 2MiB.",
         .store = store_number<&NodeConfig::memory_limit_bytes>,
         .show = show_bytes<&NodeConfig::memory_limit_bytes>},
    Knob{
        .key = "memory.initial",
        .type = KnobType::kBytes,
        .fallback = "64MiB",
        .fallback_words = "",
        .least = 2 << 20,
        .most = kSizeMost,
        .choices = "",
        .sentence =
            "What the store takes at the start, at least 16MiB a shard if it is not set; it grows by further "
            "regions up to memory.limit. Divided and rounded likewise.",
        .store = store_number<&NodeConfig::memory_initial_bytes>,
        .show = show_bytes<&NodeConfig::memory_initial_bytes>},
    Knob{.key = "memory.backing",
         .type = KnobType::kText,
         .fallback = "memfd:",
         .fallback_words = "",
         .path = PathForm::kBehindFile,
         .choices = "memfd:, hugetlb: or file:FOLDER",
         .sentence = "What the memory lies in: pages as the kernel grants them, huge pages that were set "
                     "aside, or files in a folder, "
                     "which outlive the node, but no crash of the host: what that leaves is refused.",
         .store = store_backing,
         .show = [](const NodeConfig& config) { return to_uri(config.memory_backing); }},
    Knob{.key = "memory.dump",
         .type = KnobType::kBool,
         .fallback = "false",
         .fallback_words = "",
         .most = 1,
         .choices = "",
         .sentence =
             "Whether a dump that root takes of the node's processes contains the stored data. A crash "
             "writes none, whatever this says.",
         .store = store_number<&NodeConfig::memory_in_core_dumps>,
         .show = show_number<&NodeConfig::memory_in_core_dumps>},
    Knob{.key = "memory.eviction",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .choices = "none, lru or lfu",
         .sentence = "What becomes of a put for which there is no room at memory.limit. none: it is answered "
                     "with no_space, and nothing is lost. lru and lfu make the node a cache: entries go that "
                     "were used least recently, or least often.",
         .store = store_eviction,
         .show = show_eviction},
    Knob{.key = "data.durability",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .choices = "none, everysec or always",
         .sentence =
             "When a write is acknowledged. none: once it is in memory, which outlives the server but not "
             "the node. everysec: once it is in a log that outlives every process, and that is on the disk "
             "within a second. always: once it is on the disk.",
         .store = store_durability,
         .show = show_durability},
    Knob{.key = "data.folder",
         .type = KnobType::kText,
         .fallback = "",
         .fallback_words = "$XDG_STATE_HOME/refract; without that variable /var/lib/refract for root and "
                           "$HOME/.local/state/refract for others",
         .path = PathForm::kPath,
         .choices = "a path",
         .sentence = "Where log and snapshots lie, unless data.durability is none; made if it is missing (of "
                     "the default "
                     "its parents, too). A node has a folder of its own.",
         .store = store_data_folder,
         .show = [](const NodeConfig& config) { return config.data_folder; }},
    Knob{.key = "data.snapshot_every",
         .type = KnobType::kDuration,
         .fallback = "1h",
         .fallback_words = "",
         .most = 86'400'000'000'000 * 30,
         .choices = "",
         .sentence =
             "How often a snapshot is written, if something was, so that the log does not grow for ever; 0s: "
             "only when refract snapshot asks for one. No client waits for it.",
         .store = store_number<&NodeConfig::snapshot_every_ns>,
         .show = show_duration<&NodeConfig::snapshot_every_ns>},
    Knob{.key = "data.snapshot_rate",
         .type = KnobType::kBytes,
         .fallback = "128MiB",
         .fallback_words = "",
         .least = 1 << 20,
         .most = kSizeMost,
         .choices = "",
         .sentence = "How much a shard's snapshot writes in a second at most.",
         .store = store_number<&NodeConfig::snapshot_bytes_a_second>,
         .show = show_bytes<&NodeConfig::snapshot_bytes_a_second>},
    Knob{.key = "log.level",
         .type = KnobType::kText,
         .fallback = "info",
         .fallback_words = "",
         .choices = "error, warn, info or debug",
         .sentence = "The least important messages that are still written to stderr.",
         .store = store_log_level,
         .show = [](const NodeConfig& config) { return std::string(text(config.log_level)); }},
    Knob{.key = "server.spin",
         .type = KnobType::kDuration,
         .fallback = "50us",
         .fallback_words = "",
         .most = 10'000'000,
         .choices = "",
         .sentence =
             "How long the server looks for further requests before it sleeps. Longer answers faster after a "
             "pause and costs processor time.",
         .store = store_number<&NodeConfig::server_spin_ns>,
         .show = show_duration<&NodeConfig::server_spin_ns>},
    Knob{.key = "server.shards",
         .type = KnobType::kInteger,
         .fallback = "1",
         .fallback_words = "",
         .least = 1,
         .most = kShardsMax,
         .choices = "",
         .sentence =
             "How many threads serve, each with its own part of the keys and of the memory. More than "
             "there are processors helps nothing. A store over files keeps the number it was made with.",
         .store = store_number<&NodeConfig::server_shards>,
         .show = show_number<&NodeConfig::server_shards>},
    Knob{.key = "server.cpu",
         .type = KnobType::kInteger,
         .fallback = "-1",
         .fallback_words = "",
         .least = -1,
         .most = 4095,
         .choices = "",
         .sentence =
             "The CPU that the server's first shard is bound to, the further ones to those behind it; "
             "-1 leaves the choice to the system.",
         .store = store_number<&NodeConfig::server_cpu>,
         .show = show_number<&NodeConfig::server_cpu>},
    Knob{.key = "clients.max",
         .type = KnobType::kInteger,
         .fallback = "256",
         .fallback_words = "",
         .least = 1,
         .most = 16384,
         .choices = "",
         .sentence =
             "How many clients each shard serves at the same time, and as many again over TCP; further ones "
             "are refused with a reason.",
         .store = store_number<&NodeConfig::clients_max>,
         .show = show_number<&NodeConfig::clients_max>},
    Knob{.key = "restart.limit",
         .type = KnobType::kInteger,
         .fallback = "5",
         .fallback_words = "",
         .least = 1,
         .most = 1000,
         .choices = "",
         .sentence = "After this many crashes within a minute the server is not started again; the data stay "
                     "readable.",
         .store = store_number<&NodeConfig::restart_limit>,
         .show = show_number<&NodeConfig::restart_limit>},
    Knob{.key = "restart.backoff",
         .type = KnobType::kDuration,
         .fallback = "100ms",
         .fallback_words = "",
         .most = 60'000'000'000,
         .choices = "",
         .sentence =
             "The pause before the second restart within a minute, doubled for each further one; the first "
             "restart is immediate.",
         .store = store_number<&NodeConfig::restart_backoff_ns>,
         .show = show_duration<&NodeConfig::restart_backoff_ns>},
    Knob{
        .key = "ttl.sweep",
        .type = KnobType::kDuration,
        .fallback = "60s",
        .fallback_words = "",
        .least = 1'000'000'000,
        .most = 86'400'000'000'000,
        .choices = "",
        .sentence =
            "The time in which the whole table is looked through once for expired entries, whose memory is "
            "then used again; while none has expired, it is not. Readers never see an expired entry, however "
            "long this is.",
        .store = store_number<&NodeConfig::ttl_sweep_ns>,
        .show = show_duration<&NodeConfig::ttl_sweep_ns>},
    Knob{
        .key = "chains.write",
        .type = KnobType::kBool,
        .fallback = "true",
        .fallback_words = "",
        .most = 1,
        .choices = "",
        .sentence =
            "Whether clients may replace values by chains, within what a guard allows: no more than a put by "
            "the server could do. If not, chains read, and every put goes to the server.",
        .store = store_number<&NodeConfig::chains_write>,
        .show = show_number<&NodeConfig::chains_write>},
    Knob{.key = "objects.limit",
         .type = KnobType::kBytes,
         .fallback = "0B",
         .fallback_words = "",
         .most = kSizeMost,
         .may_be_share = true,
         .choices = "",
         .sentence =
             "What objects may have together, data and metadata; beyond it those go that are not used, and "
             "then a create is answered with no_space. They have memory and a thread of their own, and "
             "memory.limit does not count them; that memory may grow to an eighth and 64MiB more. A share "
             "is taken as for memory.limit. 0B: the node has no objects, and they cost nothing.",
         .store = store_number<&NodeConfig::objects_limit_bytes>,
         .show = show_bytes<&NodeConfig::objects_limit_bytes>},
    Knob{.key = "objects.directory",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .choices = "redis://HOST:PORT, redis://USER@HOST:PORT/DATABASE, or none",
         .sentence =
             "The Redis that knows which node of cluster.nodes has which object; the objects themselves stay "
             "on the nodes. The same in all of them. none: the nodes know it, each of a part of the ids.",
         .store = store_directory,
         .show = show_or_none<&NodeConfig::objects_directory>},
    Knob{
        .key = "objects.directory_secret_file",
        .type = KnobType::kText,
        .fallback = "none",
        .fallback_words = "",
        .path = PathForm::kPathOrNone,
        .choices = "a path, or none",
        .sentence =
            "The file with the password of the Redis in objects.directory: 16 to 1024 bytes, readable by its "
            "owner alone. It crosses the network as it is, as Redis wants it.",
        .store = store_secret_file<&NodeConfig::objects_directory_secret_file>,
        .show = show_or_none<&NodeConfig::objects_directory_secret_file>},
    Knob{.key = "cluster.nodes",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .path = PathForm::kBehindFile,
         .choices = "NAME=HOST:PORT,NAME=HOST:PORT, ..., file:PATH, or none",
         .sentence =
             "The nodes that belong together, this one among them, which each of them tells its clients. The "
             "list has a version: version=N before the nodes, else 1. A file has version = N in its first "
             "line, then a line NAME = HOST:PORT for each node; SIGHUP has the keeper read it again, and a "
             "list with a higher version replaces the one before without a restart. A node that has a list "
             "is not stopped by SIGHUP.",
         .store = store_cluster_nodes,
         .show = show_or_none<&NodeConfig::cluster_nodes>},
    Knob{.key = "cluster.self",
         .type = KnobType::kText,
         .fallback = "",
         .fallback_words = "the name of the host",
         .choices = "1 to 63 letters, digits and . - _",
         .sentence = "This node's name in cluster.nodes. A node that is not in the list does not start.",
         .store = store_cluster_self,
         .show = [](const NodeConfig& config) { return config.cluster_self; }},
    Knob{.key = "cluster.secret_file",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .path = PathForm::kPathOrNone,
         .choices = "a path, or none",
         .sentence =
             "The file with the secret by which the nodes of cluster.nodes know each other, the same in all "
             "of "
             "them: 16 to 1024 bytes, readable by its owner alone. It is another one than clients have, and "
             "never crosses the network. Without it a node asks no other, and none is answered as a node.",
         .store = store_secret_file<&NodeConfig::cluster_secret_file>,
         .show = show_or_none<&NodeConfig::cluster_secret_file>},
};
static_assert(kTable.size() <= kKnobsMax);

}  // namespace

std::span<const Knob> knobs() noexcept {
  return kTable;
}

const Knob* find_knob(std::string_view key) noexcept {
  const auto* knob = std::ranges::find(kTable, key, &Knob::key);
  return knob == kTable.end() ? nullptr : knob;
}

}  // namespace refract::node
