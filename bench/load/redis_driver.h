// SPDX-License-Identifier: Apache-2.0
// One client of a Redis server over TCP: pipelined GETs and SETs. A kReplace is a GET and a SET, a kScan some
// SCANs and an MGET.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/pipelined_driver.h"
#include "bench/load/resp_reader.h"

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

  void append_key(uint64_t index);
  void ask_for_value(Slot& slot);
  void ask_to_set(Slot& slot);
  void ask_for_keys(uint64_t cursor, uint64_t count);
  void ask_for_values(Slot& slot);
  [[nodiscard]] static Answer refused(std::string_view command, const Reply& reply);
  [[nodiscard]] Answer take_single(Slot& slot, const Reply& reply);
  [[nodiscard]] Answer take_of_keys(Slot& slot, const Reply& reply);
  [[nodiscard]] Answer take_of_values(Slot& slot, const Reply& reply);
  [[nodiscard]] Answer walk_on(Slot& slot);
  [[nodiscard]] Answer scan_on(Slot& slot);

  RespReader reader_;
  std::string get_head_;
  std::string put_head_;
  std::string key_head_;  // In an MGET.
  std::string value_head_;
  // Where scans may begin: Redis takes only cursors that it gave.
  std::vector<uint64_t> cursors_;
  bool is_walking_ = false;  // Over all keys, to have them.
  // Of the answer that is being taken apart.
  uint64_t part_ = 0;
  uint64_t parts_ = 0;
  uint64_t next_cursor_ = 0;
  Code scan_code_ = Code::kOk;
};

}  // namespace refract::bench
