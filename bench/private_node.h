// SPDX-License-Identifier: Apache-2.0
// A node of our own: refractd on a socket in a folder that goes away with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/child_process.h"

#include "refract/base/report.h"

namespace refract::bench {

struct NodeOptions {
  std::string program;  // refractd; empty: the one beside this program.
  uint64_t memory_limit_bytes = 0;
  std::string backing = "memfd:";
  std::vector<std::string> arguments = {};  // Further flags.
};

class PrivateNode {
 public:
  // Returns when clients can connect. The server is bound to core 1 where there is one, and is restarted as
  // often as it is killed, without a pause; all other knobs are at their defaults.
  [[nodiscard]] static Reported<PrivateNode> start(const NodeOptions& options);

  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  [[nodiscard]] pid_t keeper() const noexcept { return process_.pid(); }
  // The one that runs now; -1: none.
  [[nodiscard]] pid_t server() const;

 private:
  PrivateNode(TemporaryFolder folder, ChildProcess process) noexcept
      : folder_(std::move(folder)),
        process_(std::move(process)),
        socket_path_(folder_.path() + "/node.sock") {}

  TemporaryFolder folder_;
  ChildProcess process_;
  std::string socket_path_;
};

// refractd beside this program.
[[nodiscard]] std::string default_node_program();

}  // namespace refract::bench
