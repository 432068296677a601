// SPDX-License-Identifier: Apache-2.0
// How a node is set up: read once at start from flags, environment, a TOML file and defaults, in this order
// of precedence. Every value is checked in every source, also where another one wins.
//
// Control path only; call load_config() before any thread starts (it reads the environment it is given, and
// /proc and /sys for what memory.limit may be).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/log.h"
#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/fabric/verbs/connect_by.h"
#include "refract/kv/owner/table/slot_uses.h"
#include "refract/memory/host/backing.h"
#include "refract/memory/host/limits.h"

namespace refract::node {

inline constexpr uint32_t kShardsMax = 256;

inline constexpr std::string_view kRdmaAuto = "auto";

// When a change is acknowledged (docs/design/025-log.md).
enum class Durability : uint8_t {
  kNone,         // In memory.
  kEverySecond,  // In a log that outlives every process, and a second later the host.
  kAlways,       // On the disk.
};

// What each of a node's shards has of something that is divided among them, in whole 2 MiB.
[[nodiscard]] constexpr uint64_t share_of_shard(uint64_t bytes, uint32_t shards) noexcept {
  constexpr uint64_t kUnit = 2 * kMiB;
  return bytes / shards / kUnit * kUnit;
}

// What is in force. Field by field the knobs of knobs.h, whose table explains them.
struct NodeConfig {
  std::string socket_path;
  std::string listen_address;    // Empty: no TCP.
  std::string auth_secret_file;  // Empty: none is asked for.
  std::string rdma_device;       // kRdmaAuto: one that works, if there is one. Empty: no RDMA.
  fabric::verbs::ConnectBy rdma_connect_by{};
  uint64_t memory_limit_bytes = 0;    // A multiple of 2 MiB.
  uint64_t memory_initial_bytes = 0;  // Likewise, and not above the limit.
  Backing memory_backing;
  bool memory_in_core_dumps = false;
  kv::EvictionPolicy memory_eviction = kv::EvictionPolicy::kNone;
  Durability durability = Durability::kNone;
  std::string data_folder;              // Of logs and snapshots.
  bool is_data_folder_default = false;  // It was not named, so that folders above it are ours to make.
  uint64_t snapshot_every_ns = 0;       // 0: on demand only.
  uint64_t snapshot_bytes_a_second = 0;
  LogLevel log_level = LogLevel::kInfo;
  uint64_t server_spin_ns = 0;
  int32_t server_cpu = -1;  // Of shard 0; shard k has the k-th after it. -1: not pinned.
  uint32_t server_shards = 1;
  uint32_t clients_max = 0;
  uint32_t restart_limit = 0;  // Crashes within a minute after which the keeper gives up.
  uint64_t restart_backoff_ns = 0;
  uint64_t ttl_sweep_ns = 0;
  uint32_t kv_copies = 0;  // How keys are routed: kv/layout/routing.h.
  // Not a setting: cluster::placement_of() the list, where the slots are shared out among its nodes. 0: this
  // node has all keys.
  uint64_t kv_placement = 0;
  bool chains_write = false;
  uint64_t objects_limit_bytes = 0;  // Data and metadata of all objects. 0: no shard has objects.
  std::string objects_directory;     // "redis://HOST:PORT". Empty: each id has a home among the nodes.
  std::string objects_directory_secret_file;  // Empty: that Redis asks for no password.
  std::string doors_listen;                   // As door_addresses.h has it. Empty: no doors.
  uint32_t doors_threads = 1;
  std::string cluster_nodes;        // A list, or file:PATH. Empty: the node knows of no others.
  std::string cluster_self;         // The node's name in that list.
  std::string cluster_secret_file;  // Empty: no other node is let in as a node, and none is reached.
};

[[nodiscard]] constexpr bool has_objects(const NodeConfig& config) noexcept {
  return config.objects_limit_bytes > 0;
}
// The number of the shard that has the objects, where there are some: behind those of keys.
[[nodiscard]] constexpr uint32_t object_shard(const NodeConfig& config) noexcept {
  return config.server_shards;
}

// Which source a value came from, in the order of the knob table.
enum class Source : uint8_t { kDefault, kFile, kEnvironment, kFlag };
struct Origin {
  Source source = Source::kDefault;
  std::string
      place;  // "/etc/refract/refractd.toml:3", "REFRACT_MEMORY_LIMIT", "--memory-limit"; empty: default.
};

struct LoadInputs {
  std::span<const char* const> arguments = {};    // argv, the program's name included.
  std::span<const char* const> environment = {};  // "NAME=value", as in environ.
  std::string default_file =
      "/etc/refract/refractd.toml";  // Read if it is there and --config names no other.
  SystemRoot system = {};            // Where the memory that is available is looked up.
  std::string working_folder =
      {};  // Relative paths of flags and environment are below it; empty: the process's.
};

struct LoadedConfig {
  NodeConfig config;
  std::vector<Origin> origins;        // One a knob, in the order of knobs().
  std::string config_file;            // The file that was read; empty: none.
  std::vector<std::string> warnings;  // For the log: names that look like ours and are not.
  // --help, --version or --print-config was given: print this to stdout and exit with 0.
  std::string text_to_print;
};

// Errors name the place (file and line, flag or variable), the key, what was expected and what was found, and
// for an unknown key the nearest known one.
[[nodiscard]] Reported<LoadedConfig> load_config(const LoadInputs& inputs);

// Convenience for main: argv and environ as C gives them.
[[nodiscard]] Reported<LoadedConfig> load_config(int argc, const char* const* argv,
                                                 const char* const* environment);

// Valid TOML that loads to the same configuration, each value with its source in a comment.
[[nodiscard]] std::string print_config(const LoadedConfig& loaded);

[[nodiscard]] std::string help_text();
[[nodiscard]] std::string version_text();
[[nodiscard]] std::string configuration_page();  // docs/configuration.md, whole.

}  // namespace refract::node
