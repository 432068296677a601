// SPDX-License-Identifier: Apache-2.0
// The keeper: the small parent process that owns the meeting sockets and every region, and keeps a server
// running.
//
// It starts no thread and touches no entry, so that there is little that could end it. Clients attach through
// it, so they can while the server is stopped; the server is its fork and dies with it; when the server
// crashes it forks the next one, which finds all mappings and connections in place. After too many crashes
// within a minute it leaves the regions readable and gives up.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/report.h"
#include "refract/cluster/members.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/memory/host/descriptor.h"
#include "refract/node/config/config.h"
#include "refract/node/doors/doors_keeper.h"
#include "refract/node/durable/data_folder.h"
#include "refract/node/keeper/keeper_shard.h"
#include "refract/node/server/stores.h"

namespace refract::node {

class Keeper {
 public:
  // Takes sockets and memory; nothing runs yet, and where something is refused nothing is left behind. The
  // RDMA device's name, the list of nodes, the secret and the TCP address are looked at first. REQUIRES: the
  // process has one thread.
  [[nodiscard]] static Reported<std::unique_ptr<Keeper>> open(const NodeConfig& config,
                                                              const NodeStores& stores = built_in_stores());
  ~Keeper();

  // Forks the server and serves until SIGINT or SIGTERM. `on_ready` is called once, when every shard serves
  // for the first time. Returns the process's exit code: 0; 3 when the store is damaged; 1 when no server
  // ever served, or not everything that shall outlive the node is where it should be. A node that was never
  // ready does not stay, whatever the cause.
  [[nodiscard]] int run(const std::function<void()>& on_ready);

  // What the banner tells of the shards of keys.
  struct Memory {
    uint64_t bytes = 0;
    uint64_t bytes_max = 0;
    bool existed = false;  // A store was found, not made.
  };
  [[nodiscard]] Memory memory() const noexcept;
  [[nodiscard]] const NodeConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::string& tcp_address() const noexcept { return tcp_address_; }  // Empty: none.
  // Nothing: there are none.
  [[nodiscard]] const std::optional<DoorsKeeper>& doors() const noexcept { return doors_; }
  [[nodiscard]] const std::optional<cluster::Members>& members() const noexcept { return members_; }
  [[nodiscard]] bool was_ready() const noexcept { return was_ready_; }
  // Behind run(): everything that shall outlive the node does. If not, the log has said what is missing.
  [[nodiscard]] bool is_settled() const noexcept { return is_settled_; }

 private:
  Keeper(const NodeConfig& config, const NodeStores& stores) : config_(config), stores_(stores) {}

  [[nodiscard]] Reported<> check_device() const;
  [[nodiscard]] Reported<> open_members();
  [[nodiscard]] Reported<> open_tcp();
  [[nodiscard]] Reported<> open_doors();
  void look_after_doors();
  void stop_doors();
  [[nodiscard]] Reported<> open_shards();
  [[nodiscard]] Reported<> open_descriptors();
  [[nodiscard]] bool watch(int descriptor, uint64_t what) const noexcept;
  void start_server();
  [[noreturn]] void become_server(std::vector<LinkEnd> links, pid_t keeper);
  void on_server_ended(int status);
  void reap();
  void give_up(const char* why);
  void read_signals();
  void read_link(KeeperShard& shard);
  void look_after_shards(const std::function<void()>& on_ready);
  void set_server_state(fabric::shm::ServerState state);
  void wait(int timeout_ms);
  [[nodiscard]] bool wants_growth() const noexcept;
  [[nodiscard]] int timeout_ms() const;
  void stop_server();
  void stop_running_server();
  void settle_data();
  [[nodiscard]] bool wants_mending() const noexcept;
  void look_after_rings();
  void mend_rings();
  [[nodiscard]] bool prepare_rings();
  void settled(const Reported<>& outcome);

  NodeConfig config_;
  NodeStores stores_;
  std::optional<cluster::Members> members_;  // Nothing: the node knows of no others.
  fabric::tcp::Secret secret_;
  fabric::tcp::Secret cluster_secret_;
  fabric::tcp::Secret redis_secret_;
  Descriptor listener_;  // Kept here, so that the port and who waits in its backlog outlive every server.
  std::string tcp_address_;
  uint16_t tcp_port_ = 0;
  std::optional<DoorsKeeper> doors_;
  std::optional<DataFolder> data_;                    // Nothing is kept on disk where there is none.
  std::vector<std::unique_ptr<KeeperShard>> shards_;  // In the order of their numbers.
  bool existed_ = false;
  Descriptor epoll_;
  Descriptor signals_;
  pid_t server_ = -1;             // -1: none runs.
  uint64_t start_at_ns_ = 0;      // When the next server is due, while none runs.
  uint64_t mend_at_ns_ = 0;       // When a ring that lost its name is to get it back; 0: none has.
  uint64_t mend_every_ns_ = 0;    // How long it waits after a try that failed.
  bool ends_server_ = false;      // The keeper itself ends it, to start the next one.
  bool met_bus_error_ = false;    // The last server did.
  std::deque<uint64_t> crashes_;  // Moments, of the last minute.
  bool was_ready_ = false;
  bool gave_up_ = false;
  bool damaged_ = false;
  bool stopping_ = false;
  bool is_settled_ = true;
};

}  // namespace refract::node
