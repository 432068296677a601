// SPDX-License-Identifier: Apache-2.0
// The keeper's part of the doors: it listens for them, starts their process (refract-doors), and starts it
// again when it has died. See docs/design/076.
//
// Threads: the keeper's one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"
#include "refract/node/doors/birth.h"
#include "refract/node/doors/door_addresses.h"

namespace refract::node {

class DoorsKeeper {
 public:
  // Takes the sockets. kInvalidArgument: one is beyond this host, and there is no password.
  [[nodiscard]] static Reported<DoorsKeeper> open(const std::vector<DoorAddress>& addresses,
                                                  DoorsBirth birth);
  DoorsKeeper(const DoorsKeeper&) = delete;
  DoorsKeeper& operator=(const DoorsKeeper&) = delete;
  DoorsKeeper(DoorsKeeper&&) noexcept = default;
  DoorsKeeper& operator=(DoorsKeeper&&) = delete;
  ~DoorsKeeper() = default;

  [[nodiscard]] const std::vector<DoorListener>& listeners() const noexcept { return listeners_; }

  // Forks and executes. The process is told all behind its first word, which take_word() takes.
  void start();
  [[nodiscard]] bool is_running() const noexcept { return process_ > 0; }
  [[nodiscard]] pid_t process() const noexcept { return process_; }
  // When start() is due, while it does not run. By the system's clock.
  [[nodiscard]] uint64_t start_at_ns() const noexcept { return start_at_ns_; }
  // Readable where there is a word, or an end. -1: it does not run.
  [[nodiscard]] int link() const noexcept { return link_.get(); }
  // Tells it all where it has said that it can be told. False: nothing more comes.
  [[nodiscard]] bool take_word();
  // The node serves. The process knows it before this returns: it looks before it says that the node is
  // loading.
  void node_serves();
  // Its next process follows the end of this one, which is killed.
  void start_again() noexcept;
  // In a fork of the keeper: descriptors are closed, and nothing else is done.
  void leave_to_keeper() noexcept;
  // It has ended so.
  void on_ended(const std::string& cause);
  // What is under way there may end, and be replied to. It is not started again.
  void ask_to_end();
  // Kills it, and waits for its end.
  void end_now();

 private:
  DoorsKeeper(std::vector<DoorListener> listeners, DoorsBirth birth) noexcept
      : listeners_(std::move(listeners)), birth_(std::move(birth)) {}

  std::vector<DoorListener> listeners_;
  DoorsBirth birth_;
  Descriptor link_;
  pid_t process_ = -1;
  uint64_t started_ns_ = 0;
  uint64_t start_at_ns_ = 0;
  uint64_t pause_ns_ = 0;
  bool is_told_ = false;  // The process that runs.
  bool is_ending_ = false;
};

}  // namespace refract::node
