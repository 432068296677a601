// SPDX-License-Identifier: Apache-2.0
// The server: the process that changes the store, a thread for each shard. A fork of the keeper, never a
// program of its own, because no process could map the sealed regions writable any more.
//
// Shard 0 runs on the thread that was there before. When any shard ends, the process ends, and the keeper
// forks the next one: a node that has lost a shard is not a smaller node.
#pragma once

#include <sys/types.h>

#include <vector>

#include "refract/fabric/tcp/secret.h"
#include "refract/node/config/config.h"
#include "refract/node/server/shard_server.h"

namespace refract::node {

struct ServerBirth {
  const NodeConfig& config;
  std::vector<ShardBirth> shards;
  int listener = -1;                                    // For TCP, inherited; -1: none.
  const fabric::tcp::Secret* secret = nullptr;          // Null: TCP clients need none.
  const fabric::tcp::Secret* cluster_secret = nullptr;  // Null: no other node comes in as one.
  pid_t keeper;  // When this is no longer the parent, the server is an orphan and ends.
};

// Runs in the child. Recovers the store, serves until SIGTERM or the keeper's end; returns the exit code.
[[nodiscard]] int run_server(ServerBirth birth);

}  // namespace refract::node
