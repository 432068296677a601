// SPDX-License-Identifier: Apache-2.0
// So many puts of random entries in flight all the time, through one AsyncClient: as little round
// them as there can be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/load/entry.h"
#include "bench/measure/measure.h"

#include "refract/base/report.h"
#include "refract/client/async_client.h"
#include "refract/runtime/shard.h"

namespace refract::bench {

class PutLanes {
 public:
  // To the node at `socket_path`; every entry is put as it was loaded.
  [[nodiscard]] static Reported<std::unique_ptr<PutLanes>> connect(const std::string& socket_path,
                                                                   uint64_t entries);
  PutLanes(const PutLanes&) = delete;
  PutLanes& operator=(const PutLanes&) = delete;
  ~PutLanes();

  // So many puts at a time from now on; none have been begun before.
  void begin(size_t lanes);
  // One turn: takes answers, and begins the next puts.
  void turn() noexcept { (void)shard_.poll_once(); }
  // Lets the puts under way end and begins no more.
  void end();

  [[nodiscard]] uint64_t done() const noexcept { return done_; }
  // Of the first put that failed; kOk: none has.
  [[nodiscard]] Code trouble() const noexcept { return trouble_; }

 private:
  explicit PutLanes(uint64_t entries);
  [[nodiscard]] static runtime::Task<> put_on(PutLanes& lanes);

  runtime::Shard shard_;
  std::unique_ptr<AsyncClient> client_;
  Draw draw_;
  uint64_t done_ = 0;
  size_t under_way_ = 0;
  bool is_ending_ = false;
  Code trouble_ = Code::kOk;
};

}  // namespace refract::bench
