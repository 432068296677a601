// SPDX-License-Identifier: Apache-2.0
// The page that says how a node is: written by its keeper and its server, readable by every attached client,
// also while the server is stopped or dead.
//
// It lies alone in a memfd that is sealed against growing, shrinking and new writable mappings. Every field
// is a 64-bit word, stored with publish_u64 and read with observe_u64. Picture and worked example:
// docs/formats/shm.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "refract/memory/remote_visible.h"

namespace refract::fabric::shm {

enum class ServerState : uint64_t {
  kStarting = 1,
  kServing = 2,
  kRestarting = 3,  // The server died; the keeper is about to fork it again.
  kGivenUp = 4,     // It died too often. The regions can still be read.
  kStopping = 5,
};

inline constexpr uint64_t kNodePageMagic = 0x65646f6e'63667265;  // The bytes "erfcnode".
extern const uint64_t kNodePageVersion;                          // versions.cc
inline constexpr size_t kNodePageBytes = 4096;
inline constexpr size_t kRegionsMax = 249;

// In reads_per_use of a shard of objects: what is not there may be on another node, and its owner is asked.
inline constexpr uint64_t kObjectsAreShared = uint64_t{1} << 63;

struct RegionRow {
  uint64_t base;   // Of the region's first byte in the node's space.
  uint64_t bytes;  // A multiple of the page size.
};

struct NodePage {
  uint64_t magic;
  uint64_t layout_version;
  // 128 random bits, drawn when the keeper starts: a new keeper is a new node. All its shards have the same.
  uint64_t identity[2];
  uint64_t incarnation;  // Raised by the keeper before each fork of the server; never 0.
  uint64_t server_state;
  uint64_t server_pid;       // For display only: a client may live in another PID namespace.
  uint64_t space_bytes_max;  // What a reader reserves of its address space, once.

  uint64_t asleep;        // Not 0: the server's shard sleeps, and a sender must ring its doorbell.
  uint64_t region_count;  // Published after the row it counts.
  uint64_t shard_index;   // Whose page this is: each shard of a node has its own socket, page and regions.
  uint64_t shard_count;   // With keys, at least 1. Which keys are whose: kv/layout/routing.h.
  uint64_t tcp_port;      // Where the node listens on TCP, for all its shards; 0: nowhere.
  // Of so many direct reads clients write one down (memory/uses.h); 0: of none. With kObjectsAreShared.
  uint64_t reads_per_use;
  RegionRow regions[kRegionsMax];  // In the order they were offered.
};
static_assert(sizeof(NodePage) == kNodePageBytes);
static_assert(offsetof(NodePage, incarnation) == 32 && offsetof(NodePage, server_state) == 40);
static_assert(offsetof(NodePage, asleep) == 64 && offsetof(NodePage, region_count) == 72);
static_assert(offsetof(NodePage, shard_index) == 80 && offsetof(NodePage, tcp_port) == 96);
static_assert(offsetof(NodePage, reads_per_use) == 104 && offsetof(NodePage, regions) == 112);
static_assert(std::is_trivially_copyable_v<NodePage>);
static_assert(std::has_unique_object_representations_v<NodePage>, "no padding may be shared");

// Where shard `index` of the node at `path` is met: shard 0 at the path itself.
[[nodiscard]] inline std::string shard_socket_path(const std::string& path, uint32_t index) {
  return index == 0 ? path : path + "." + std::to_string(index);
}

[[nodiscard]] inline ServerState server_state(const NodePage& page) noexcept {
  return static_cast<ServerState>(observe_u64(&page.server_state));
}
inline void publish_server_state(NodePage& page, ServerState state) noexcept {
  publish_u64(&page.server_state, static_cast<uint64_t>(state));
}
[[nodiscard]] inline uint64_t incarnation(const NodePage& page) noexcept {
  return observe_u64(&page.incarnation);
}

}  // namespace refract::fabric::shm
