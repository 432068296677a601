// SPDX-License-Identifier: Apache-2.0
// The connections of one thread of the doors: takes newcomers, receives, has their sessions take what came,
// and sends what they reply.
//
// One receive and one send for each connection and turn. What is not a whole request yet lies in memory of
// its connection; one that is idle has none.
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
#include "refract/doors/redis/session.h"
#include "refract/memory/host/descriptor.h"
#include "refract/runtime/poller.h"
#include "refract/runtime/shard.h"

namespace refract::doors {

class Sockets final : public runtime::Poller {
 public:
  // Listening sockets may be other threads', too; they outlive it, as the store does.
  [[nodiscard]] static Reported<std::unique_ptr<Sockets>> create(runtime::Shard& shard, redis::Store& store,
                                                                 const std::vector<int>& listeners);
  // REQUIRES: count() is 0; or the process ends.
  ~Sockets() override;
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "doors"; }

  // Connections, those included that have gone and whose commands are not over.
  [[nodiscard]] size_t count() const noexcept { return lines_.size(); }
  // Takes no further one, and ends those that there are; a turn later count() may be 0.
  void close() noexcept;

 private:
  class Line;

  Sockets(runtime::Shard& shard, redis::Store& store) noexcept : shard_(shard), store_(store) {}
  size_t look() noexcept;
  void accept_some(int listener);
  void refuse_one(int listener) noexcept;
  void serve(Line& line);
  [[nodiscard]] bool is_worth_waiting(Line& line) noexcept;
  void receive(Line& line);
  void send(Line& line) noexcept;
  void end(Line& line) noexcept;
  void bury();
  void call_up(Line& line);

  runtime::Shard& shard_;
  redis::Store& store_;
  Descriptor epoll_;
  Descriptor spare_;  // Given up for a moment to tell a newcomer that there is no room for it.
  std::vector<int> listeners_;
  std::list<std::unique_ptr<Line>> lines_;
  std::vector<Line*> ready_;  // Those to be served, each once.
  std::vector<Line*> serving_;
  size_t ended_ = 0;  // Lines that wait for the end of their commands.
  std::vector<char> received_;
};

}  // namespace refract::doors
