// SPDX-License-Identifier: Apache-2.0
// The connections of one thread of the doors: takes newcomers, receives, has their sessions take what came,
// and sends what they reply.
//
// One receive and one send for each connection and turn. What is not a whole request yet lies in memory of
// its connection; one that is idle has none. Where those of a thread hold more than 1 GiB, the one that holds
// most is ended.
//
// Threads: that of its shard.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/doors/admin/crew.h"
#include "refract/doors/redis/session.h"
#include "refract/memory/host/descriptor.h"
#include "refract/runtime/poller.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::doors {

class Sockets final : public runtime::Poller, private redis::Lines {
 public:
  // Listening sockets may be other threads', too; they outlive it, as the store does. At most `lines_max`
  // connections of all threads: further ones are told so, and ended.
  [[nodiscard]] static Reported<std::unique_ptr<Sockets>> create(runtime::Shard& shard, redis::Store& store,
                                                                 const std::vector<int>& listeners,
                                                                 size_t lines_max);
  // REQUIRES: count() is 0; or the process ends.
  ~Sockets() override;
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "doors"; }

  // Connections, those included that have gone and whose commands are not over.
  [[nodiscard]] size_t count() const noexcept { return lines_.size(); }
  // The store has its client now.
  void node_has_come();
  // Takes no further one. Those that there are end once what they have asked for is replied to.
  void finish();
  // Ends all at once; a turn later count() may be 0.
  void close() noexcept;

 private:
  class Line;

  Sockets(runtime::Shard& shard, redis::Store& store) noexcept;
  void visit(const Visit& visit) override;
  void visit_ended(const Visit& visit) override;
  [[nodiscard]] bool listen() noexcept;
  void stop_listening() noexcept;
  void rest() noexcept;
  [[nodiscard]] static runtime::Task<> listen_later(Sockets& sockets);
  size_t look() noexcept;
  void accept_some(int listener);
  void serve(Line& line);
  [[nodiscard]] bool is_worth_waiting(Line& line) noexcept;
  void receive(Line& line);
  void send(Line& line);
  void count_memory(Line& line);
  [[nodiscard]] size_t all_held_bytes() const noexcept;
  bool end_largest() noexcept;
  void watch_pins(Line& line);
  [[nodiscard]] static runtime::Task<> watch(Sockets& sockets);
  void watch_backlog(Line& line);
  [[nodiscard]] static runtime::Task<> watch_backlogs(Sockets& sockets);
  void end_slow(Line& line) noexcept;
  void end(Line& line) noexcept;
  void bury();
  void call_up(Line& line);
  void note_rates() noexcept;

  runtime::Shard& shard_;
  redis::Store& store_;
  Descriptor epoll_;
  std::vector<int> listeners_;
  std::list<std::unique_ptr<Line>> lines_;
  std::vector<Line*> ready_;  // Those to be served, each once.
  std::vector<Line*> serving_;
  std::vector<Line*> ended_;    // Until their commands are over, and they are subscribed to nothing.
  bool is_leaving_ = false;     // Some of these are.
  std::vector<Line*> pinning_;  // Those that have not sent all that they hold of the node's memory.
  bool is_watching_ = false;
  std::vector<Line*> backlogs_;  // Those that messages wait for, more than may wait for long.
  bool is_watching_backlogs_ = false;
  size_t held_bytes_ = 0;   // By all: requests and replies.
  size_t held_shared_ = 0;  // And long messages, as often as they are held.
  size_t lines_max_ = 0;
  std::vector<char> received_;
};

}  // namespace refract::doors
