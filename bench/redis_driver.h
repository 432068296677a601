// SPDX-License-Identifier: Apache-2.0
// One client of a Redis server over TCP: pipelined GETs and SETs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/pipelined_driver.h"
#include "bench/resp_reader.h"

namespace refract::bench {

class RedisDriver final : public PipelinedDriver {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<RedisDriver>> connect(uint16_t port,
                                                                      const DriverOptions& options,
                                                                      const Contents& contents);

 private:
  RedisDriver(Descriptor socket, const DriverOptions& options, const Contents& contents);
  void ask(Slot& slot) override;
  [[nodiscard]] Answer take_answer(Slot* slot) override;
  [[nodiscard]] std::span<iovec> room() noexcept override { return reader_.room(); }
  void received(size_t bytes) noexcept override { reader_.received(bytes); }

  RespReader reader_;
  std::string get_head_;
  std::string put_head_;
  std::string value_head_;
};

}  // namespace refract::bench
