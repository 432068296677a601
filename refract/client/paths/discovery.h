// SPDX-License-Identifier: Apache-2.0
// From what a client was told to a connection to shard 0 of a node: which transports lead there, which one is
// taken, and why each other one is not. See docs/design/015-transports.md.
#pragma once

#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/client/link/settings.h"
#include "refract/client/paths/connection.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

struct Discovery {
  Connection::Owned connection;  // To shard 0; has been up.
  std::string address;           // Of shard 0, in the form of the transport.
  std::string chosen;            // Why this transport, for people.
  std::vector<OtherTransport> others;
  Target target;  // That led to the node.
};

// `settings` outlive the task. Ends in a turn of its own, in which connections may be retired.
[[nodiscard]] runtime::Task<Reported<Discovery>> find_node(runtime::Shard& shard, const Settings& settings,
                                                           Target target, uint64_t deadline_ns);
// The node that the settings name; of several the first one that answers.
[[nodiscard]] runtime::Task<Reported<Discovery>> find_node(runtime::Shard& shard, const Settings& settings,
                                                           uint64_t deadline_ns);

// Until the link has come up or ended, or the deadline has passed. Ends in a turn of its own, too.
[[nodiscard]] runtime::Task<> await_first_state(runtime::Shard& shard, Link& link, uint64_t deadline_ns);

// Whether it has come up, the server perhaps being away by now.
[[nodiscard]] inline bool has_come_up(const Connection& connection) noexcept {
  return connection.state() == Connection::State::kUp || connection.state() == Connection::State::kNoServer;
}

}  // namespace refract::client
