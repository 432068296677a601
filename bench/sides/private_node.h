// SPDX-License-Identifier: Apache-2.0
// A node of our own: refractd on a socket in a folder that goes away with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/beside.h"

#include "refract/base/report.h"

namespace refract::bench {

struct NodeOptions {
  std::string program;  // refractd; empty: the one beside this program.
  uint64_t memory_limit_bytes = 0;
  std::string backing = "memfd:";
  std::string spin = {};            // The knob server.spin; empty: its default.
  bool is_bound = true;             // The server to core 1, where there is one.
  uint64_t shards = 1;              // Bound ones sit on core 1 and those behind it.
  std::string listen_address = {};  // Numbers, without a port; empty: the node does not listen on TCP.
  std::string durability = {};      // The knob data.durability; empty: its default, none.
  std::string data_folder = {};     // Absolute; empty: one beside the socket, gone with the node.
  // Snapshots without a bound on their rate; else the knobs' defaults.
  bool snapshots_at_full_speed = false;
  uint64_t clients_max = 0;               // The knob clients.max; 0: its default.
  std::string eviction = {};              // The knob memory.eviction; empty: its default, none.
  uint64_t objects_limit_bytes = 0;       // The knob objects.limit; 0: its default, no objects.
  uint16_t listen_port = 0;               // With a listen_address; 0: one that is free.
  bool has_door = false;                  // For Redis's clients, on loopback; see door_port().
  std::vector<std::string> further = {};  // Arguments of refractd.
  // What the node is started by, such as "nsenter --net=FILE"; it must end up in the node's own process.
  std::vector<std::string> launcher = {};
};

class PrivateNode {
 public:
  // Returns when clients can connect, and where there is a door, when its process runs. The server is
  // restarted as often as it is killed, without a pause; knobs that the options do not name are at their
  // defaults. A node on other than a loopback address has a secret.
  [[nodiscard]] static Reported<PrivateNode> start(const NodeOptions& options);

  // In good order, with all that lies in its own folder. Not to be used any more.
  void stop() { process_.stop(); }

  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  // For a client: "refract://ADDRESS:PORT?transport=tcp", with the secret. Empty without a listen_address.
  [[nodiscard]] const std::string& tcp_address() const noexcept { return tcp_address_; }
  // Of its door for Redis's clients; 0: it has none.
  [[nodiscard]] uint16_t door_port() const noexcept { return door_port_; }
  [[nodiscard]] pid_t keeper() const noexcept { return process_.pid(); }
  // The one that runs now; -1: none.
  [[nodiscard]] pid_t server() const;
  // The process of the doors, likewise.
  [[nodiscard]] pid_t doors() const;

 private:
  PrivateNode(test::TemporaryFolder folder, test::Process process) noexcept
      : folder_(std::move(folder)),
        process_(std::move(process)),
        socket_path_(folder_.path() + "/node.sock") {}

  test::TemporaryFolder folder_;
  test::Process process_;
  std::string socket_path_;
  std::string tcp_address_;
  uint16_t door_port_ = 0;
};

// What keeper and server have resident together: each one's private pages, and the regions once, all of which
// is taken before it is used, whether an entry lies in it or not, and whether a client has it mapped.
// `region_bytes`: as the node says (NodeStat::bytes_total).
[[nodiscard]] uint64_t resident_bytes(const PrivateNode& node, uint64_t region_bytes);

// An error that names the call and what it said.
[[nodiscard]] std::unexpected<Report> failed(std::string_view call, Code code);
// refractd beside this program.
[[nodiscard]] std::string default_node_program();

}  // namespace refract::bench
