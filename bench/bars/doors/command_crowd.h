// SPDX-License-Identifier: Apache-2.0
// Many connections of one thread to a server that speaks Redis's protocol, one GET or SET in flight on each,
// as one client of a workload. The thread polls.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/load/store_driver.h"

#include "refract/memory/host/descriptor.h"

namespace refract::bench {

class CommandCrowd final : public StoreDriver {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<CommandCrowd>> connect(uint16_t port, size_t count,
                                                                       const Contents& contents);
  [[nodiscard]] Reported<> run(Workload& workload) override;
  [[nodiscard]] uint64_t requests_sent() const noexcept override { return asked_; }

 private:
  struct Line {
    Descriptor socket;
    Operation operation;
    std::string reply;
  };

  explicit CommandCrowd(const Contents& contents);
  [[nodiscard]] Reported<> begin_due(Workload& workload);
  [[nodiscard]] Reported<> ask(const Operation& operation);
  [[nodiscard]] Reported<> hear(Line& line, Workload& workload);
  [[nodiscard]] Code code_of(const Line& line);

  Contents contents_;
  Descriptor epoll_;
  std::vector<Line> lines_;
  std::vector<size_t> free_;
  std::vector<std::byte> value_;
  std::string key_;
  std::string command_;
  std::string value_head_;  // In front of a GET's value.
  Operation next_;
  bool has_next_ = false;  // It is not due yet, or no connection is free.
  bool has_ended_ = false;
  uint64_t asked_ = 0;
};

}  // namespace refract::bench
