// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/knobs.h"

#include <algorithm>
#include <array>

#include "refract/node/config/config.h"
#include "refract/node/config/knob_values.h"

namespace refract::node {
namespace {

using knob_values::show_bytes;
using knob_values::show_durability;
using knob_values::show_duration;
using knob_values::show_eviction;
using knob_values::show_number;
using knob_values::show_or_none;
using knob_values::store_backing;
using knob_values::store_cluster_nodes;
using knob_values::store_cluster_self;
using knob_values::store_copies;
using knob_values::store_data_folder;
using knob_values::store_directory;
using knob_values::store_doors;
using knob_values::store_durability;
using knob_values::store_eviction;
using knob_values::store_listen_address;
using knob_values::store_log_level;
using knob_values::store_number;
using knob_values::store_rdma_connect_by;
using knob_values::store_rdma_device;
using knob_values::store_secret_file;
using knob_values::store_socket_path;

constexpr int64_t kTebibyte = int64_t{1} << 40;
constexpr int64_t kSizeMost = 64 * kTebibyte;

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
    Knob{.key = "doors.listen",
         .type = KnobType::kText,
         .fallback = "none",
         .fallback_words = "",
         .choices = "redis:HOST:PORT or redis:/PATH, several with commas; or none",
         .sentence =
             "Where clients of other protocols come in: those of Redis at a TCP address, such as "
             "redis:127.0.0.1:6379, or at a Unix socket. A process of its own speaks with them. Anything but "
             "an address of this host alone needs auth.secret_file.",
         .store = store_doors,
         .show = show_or_none<&NodeConfig::doors_listen>},
    Knob{.key = "doors.threads",
         .type = KnobType::kInteger,
         .fallback = "1",
         .fallback_words = "",
         .least = 1,
         .most = 64,
         .choices = "",
         .sentence = "How many threads serve the doors. Each reads the node's memory by itself.",
         .store = store_number<&NodeConfig::doors_threads>,
         .show = show_number<&NodeConfig::doors_threads>},
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
    Knob{.key = "kv.copies",
         .type = KnobType::kInteger,
         .fallback = "0",
         .fallback_words = "",
         .choices = "0 or 1",
         .sentence =
             "How keys are shared out. 0: among the shards of this node, by their hash. 1: by their "
             "slot, as in Redis Cluster, and a slot lies in one shard, so that keys with the same tag "
             "do: order:{42} and item:{42}. With cluster.nodes it lies on one of these nodes, and each "
             "has its part of the keys. A store keeps the value it was made with, and with 1 the names "
             "in cluster.nodes.",
         .store = store_copies,
         .show = show_number<&NodeConfig::kv_copies>},
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
