// SPDX-License-Identifier: Apache-2.0
// What a node tells each client that it has let in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace refract::fabric::tcp {

inline constexpr size_t kSocketPathBytesMax = 107;  // What a Unix socket's address holds.

struct NodeFacts {
  std::array<uint64_t, 2> identity{};  // Another identity is another node.
  uint64_t incarnation = 0;            // Of its server; raised by each restart.
  uint64_t hash_seed = 0;
  uint32_t shard_index = 0;  // Below the count, or the count itself: of the shard that has no keys.
  uint32_t shard_count = 1;  // Of those that have keys.
  uint32_t copies = 0;       // kv.copies of the node's store: how its keys are routed among the shards.
  bool is_spread = false;  // Other nodes have some of the slots: the node tells which nodes belong together.
  std::array<std::byte, 16> boot_id{};  // Of the host, so that a client can tell that it is on the same one.
  std::string socket_path;              // Where local clients meet this shard; may be empty.
};

}  // namespace refract::fabric::tcp
