// SPDX-License-Identifier: Apache-2.0
// What the keeper holds of one shard: its memory, the socket where its clients meet it, the link to the
// server that runs now, and the region that is growing.
//
// Threads: one, the keeper's only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>

#include "refract/base/report.h"
#include "refract/cluster/members.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/node/config/config.h"
#include "refract/node/hosted/shard_plan.h"
#include "refract/node/server/link.h"
#include "refract/node/space/store_space.h"

namespace refract::node {

class KeeperShard {
 public:
  struct Options {
    const NodeConfig& config;  // Outlives the shard.
    const ShardPlan& plan;
    StoreOrigin origin;
    std::array<uint64_t, 2> identity{};
    uint16_t tcp_port = 0;
  };
  // Takes memory and socket.
  [[nodiscard]] static Reported<std::unique_ptr<KeeperShard>> open(const Options& options);
  KeeperShard(const KeeperShard&) = delete;
  KeeperShard& operator=(const KeeperShard&) = delete;
  ~KeeperShard();

  [[nodiscard]] const ShardPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] StoreSpace& space() noexcept { return space_; }
  [[nodiscard]] fabric::shm::Meeting& meeting() noexcept { return *meeting_; }
  [[nodiscard]] int link_descriptor() const noexcept { return link_.descriptor(); }

  // Before a fork: begins the next incarnation and returns the server's end of the link to it.
  [[nodiscard]] Reported<LinkEnd> begin_server();
  // In the child, and where there was no child: this end is of no use.
  void drop_link() noexcept { link_.close(); }
  // Hears what it said last and finishes what it had begun: the next server inherits it.
  void on_server_ended();

  // What the server said since the last look. False: the link has ended, and the server with it.
  [[nodiscard]] bool read_link();
  [[nodiscard]] bool is_serving() const noexcept { return serving_; }
  [[nodiscard]] bool is_damaged() const noexcept { return damaged_; }
  // The server has stopped reading and is of no more use.
  [[nodiscard]] bool is_deaf() const noexcept { return deaf_; }

  // The server that runs, if one does, has this list from now on. REQUIRES: it was born with one.
  void tell(const cluster::Members& members);

  // There is memory to be taken, some milliseconds' worth by each grow().
  [[nodiscard]] bool wants_growth() const noexcept { return space_.is_growing() && !populated_; }
  void grow();

 private:
  KeeperShard(const ShardPlan& plan, StoreSpace space) : plan_(plan), space_(std::move(space)) {}

  [[nodiscard]] Reported<> open_meeting(const Options& options);
  [[nodiscard]] Reported<> offer(const StoreSpace::Held& held);
  void send(const LinkMessage& message, std::initializer_list<int> descriptors = {});
  void on_want(uint64_t bytes);
  void finish_growth();
  void refuse_growth(const Report& why);

  ShardPlan plan_;
  StoreSpace space_;
  std::unique_ptr<fabric::shm::Meeting> meeting_;
  LinkEnd link_;
  bool populated_ = false;  // The growing region waits for the server's mapping.
  bool serving_ = false;
  bool damaged_ = false;
  bool deaf_ = false;
};

}  // namespace refract::node
