// SPDX-License-Identifier: Apache-2.0
// One client of a Redis server over TCP, written to be as good as ours: pipelined GETs and SETs, one system
// call for all that goes out in a turn, values received straight into their place, and it polls or blocks as
// it is told.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/resp_reader.h"
#include "bench/store_driver.h"

#include "refract/memory/descriptor.h"

namespace refract::bench {

class RedisDriver final : public StoreDriver {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<RedisDriver>> connect(uint16_t port,
                                                                      const DriverOptions& options,
                                                                      const Contents& contents);
  RedisDriver(const RedisDriver&) = delete;
  RedisDriver& operator=(const RedisDriver&) = delete;
  ~RedisDriver() override = default;

  [[nodiscard]] Reported<> run(Workload& workload) override;
  // Commands, whether or not they shared a segment.
  [[nodiscard]] uint64_t requests_sent() const noexcept override { return asked_; }
  // Entries `first` to `end`, each once.
  [[nodiscard]] Reported<> fill(uint64_t first, uint64_t end);

 private:
  // What goes out: bytes of commands_, or a large value that lies elsewhere.
  struct Piece {
    const std::byte* large = nullptr;
    size_t bytes = 0;
  };
  struct Slot {
    Operation operation;
    std::vector<std::byte> value;  // To be put; large values only.
  };

  RedisDriver(Descriptor socket, const DriverOptions& options, const Contents& contents);
  [[nodiscard]] bool take_batch(Workload& workload);
  void append(Slot& slot);
  void append_text(std::string_view text);
  [[nodiscard]] Reported<> send();
  [[nodiscard]] Reported<bool> receive();
  [[nodiscard]] Reported<> wait_for_socket();
  [[nodiscard]] Reported<> take_replies(Workload* workload);
  [[nodiscard]] static Code outcome_of(const Reply& reply, const Operation& operation);
  [[nodiscard]] bool has_unsent() const noexcept { return first_piece_ < pieces_.size(); }

  Descriptor socket_;
  DriverOptions options_;
  Contents contents_;
  bool values_are_large_;
  std::vector<std::byte> target_;
  RespReader reader_;
  std::vector<Slot> slots_;       // A ring: answers come in the order of the questions.
  std::vector<Operation> batch_;  // Taken, but not all due yet.
  bool ended_ = false;
  uint64_t asked_ = 0;
  uint64_t answered_ = 0;
  std::string get_head_;
  std::string put_head_;
  std::string value_head_;
  std::string commands_;
  size_t commands_sent_ = 0;
  std::vector<Piece> pieces_;
  size_t first_piece_ = 0;
  std::vector<iovec> vectors_;
  uint64_t idle_since_ns_ = 0;
  uint64_t spin_ns_ = 0;
};

}  // namespace refract::bench
