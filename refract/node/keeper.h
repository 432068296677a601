// SPDX-License-Identifier: Apache-2.0
// The keeper: the small parent process that owns the meeting socket and every region, and keeps a server
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
#include <memory>

#include "refract/base/clock.h"
#include "refract/base/report.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/node/config.h"
#include "refract/node/link.h"
#include "refract/node/store_space.h"

namespace refract::node {

class Keeper {
 public:
  // Takes memory and socket; nothing runs yet. REQUIRES: the process has one thread.
  [[nodiscard]] static Reported<std::unique_ptr<Keeper>> open(const NodeConfig& config);
  ~Keeper();

  // Forks the server and serves until SIGINT or SIGTERM. Returns the process's exit code.
  [[nodiscard]] int run();

  // What the banner tells.
  [[nodiscard]] const StoreSpace& space() const noexcept { return space_; }
  [[nodiscard]] const NodeConfig& config() const noexcept { return config_; }

 private:
  Keeper(const NodeConfig& config, StoreSpace space) : config_(config), space_(std::move(space)) {}

  [[nodiscard]] Reported<> open_meeting();
  [[nodiscard]] Reported<> offer(const StoreSpace::Held& held);
  [[nodiscard]] Reported<> open_descriptors();
  void start_server();
  void on_server_ended(int status);
  void reap();
  void give_up(const char* why);
  void read_signals();
  void read_link();
  void on_want(uint64_t bytes);
  void grow();
  void finish_growth();
  void refuse_growth(const Report& why);
  void send(const LinkMessage& message, std::initializer_list<int> descriptors = {});
  void wait(int timeout_ms);
  [[nodiscard]] int timeout_ms() const;
  void stop_server();

  NodeConfig config_;
  StoreSpace space_;
  std::unique_ptr<fabric::shm::Meeting> meeting_;
  LinkEnd link_;
  Descriptor epoll_;
  Descriptor signals_;
  pid_t server_ = -1;             // -1: none runs.
  uint64_t start_at_ns_ = 0;      // When the next server is due, while none runs.
  std::deque<uint64_t> crashes_;  // Moments, of the last minute.
  bool gave_up_ = false;
  bool damaged_ = false;
  bool stopping_ = false;
  bool populated_ = false;  // The growing region waits for the server's mapping.
};

}  // namespace refract::node
