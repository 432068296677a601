// SPDX-License-Identifier: Apache-2.0
// The server: the process that changes the store. A fork of the keeper, never a program of its own, because
// nobody could map the sealed regions writable any more.
#pragma once

#include <sys/types.h>

#include "refract/fabric/shm/meeting.h"
#include "refract/node/config.h"
#include "refract/node/link.h"
#include "refract/node/store_space.h"

namespace refract::node {

struct ServerBirth {
  const NodeConfig& config;
  StoreSpace& space;
  fabric::shm::Meeting& meeting;
  LinkEnd link;
  pid_t keeper;  // When this is no longer the parent, the server is an orphan and ends.
};

// Runs in the child. Recovers the store, serves until SIGTERM or the keeper's end; returns the exit code.
[[nodiscard]] int run_server(ServerBirth birth);

}  // namespace refract::node
