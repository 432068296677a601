// SPDX-License-Identifier: Apache-2.0
// What a node says over TCP when it lets a client in, as connections want it; RDMA is introduced by TCP.
#pragma once

#include "refract/client/link/transport.h"
#include "refract/fabric/tcp/facts.h"

namespace refract::client {

[[nodiscard]] inline NodeFacts facts_of(const fabric::tcp::NodeFacts& facts) {
  return {.identity = facts.identity,
          .hash_seed = facts.hash_seed,
          .shard_index = facts.shard_index,
          .shard_count = facts.shard_count,
          .copies = facts.copies,
          .is_spread = facts.is_spread,
          .boot_id = facts.boot_id,
          .socket_path = facts.socket_path};
}

// Of a node that is reached over TCP.
[[nodiscard]] inline std::string shard_address_at_host(const std::string& address, uint32_t shard) {
  return address + "/" + std::to_string(shard);
}

}  // namespace refract::client
