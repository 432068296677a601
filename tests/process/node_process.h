// SPDX-License-Identifier: Apache-2.0
// A node in processes of its own, refractd as it is built: killed when its owner goes, and when the test
// itself dies. Nothing here asserts on time: deadlines are so long that only what hangs meets them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "refract/base/testing/processes/process.h"
#include "refract/client/client.h"

namespace refract::test {

struct NodeOptions {
  std::vector<std::string> arguments = {};  // Further flags.
  std::vector<std::string> launcher = {};   // Stands before the program: "unshare --pid ...".
  std::string program = {};                 // Empty: refractd.
  std::function<void()> before = {};        // In the child, before it executes.
  std::string socket_path = {};             // Empty: in the node's folder.
  bool waits = true;                        // For the banner, or the end.
};

// refractd with a socket in a folder of its own, its configuration file ignored.
class Node {
 public:
  // Waits for the banner, which says that every shard serves, or for the end; unless told not to.
  explicit Node(NodeOptions options = {});

  // The banner came.
  [[nodiscard]] bool is_up();
  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  // Where it listens on TCP, as the banner says: "127.0.0.1:7400"; empty: nowhere.
  [[nodiscard]] std::string tcp_address() const;
  [[nodiscard]] Process& process() noexcept { return process_; }
  [[nodiscard]] pid_t keeper() const noexcept { return process_.pid(); }
  // The one that runs now; -1: none.
  [[nodiscard]] pid_t server() const;
  // Waits for one that is not `before`.
  [[nodiscard]] pid_t next_server(pid_t before) const;
  [[nodiscard]] std::string output() const { return read_whole(folder_.path() + "/output"); }
  [[nodiscard]] std::string errors() const { return read_whole(folder_.path() + "/errors"); }
  // SIGKILL to keeper and server, as nearly at one moment as may be: the keeper first, which would bring the
  // server's last changes to the disk. Returns when both are gone.
  void kill_everything();
  // SIGTERM, and the exit code.
  [[nodiscard]] int stop();
  // A client, after waiting for a node that is about to come; fails the test and ends it if there is none.
  [[nodiscard]] Client connect(const ClientOptions& options = {.timeout_ns = kPatience_ns}) const;
  // Likewise, over TCP.
  [[nodiscard]] Client connect_tcp(const ClientOptions& options = {.timeout_ns = kPatience_ns}) const;

 private:
  [[nodiscard]] Client connect_to(const std::string& address, const ClientOptions& options) const;

  TemporaryFolder folder_;
  std::string socket_path_;
  Process process_;
};

}  // namespace refract::test
