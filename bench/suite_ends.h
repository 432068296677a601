// SPDX-License-Identifier: Apache-2.0
// A server on a thread of its own and a client on the caller's, over a provider of this machine.
//
// Both poll for longer than an answer takes, so that what is measured is not how the kernel wakes threads.
// Threads: the caller's alone, but for what runs in `serve`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/suite.h"

#include "refract/base/report.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/dispatcher.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/shard_thread.h"

namespace refract::bench {

// What a server consists of, beside its shard and domain.
class Served {
 public:
  Served() = default;
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  virtual ~Served() = default;
};

class RealEnds {
 public:
  // Called once on the server's thread. What it makes lives until the thread ends.
  using Serve = std::function<Reported<std::unique_ptr<Served>>(runtime::Shard&, fabric::Domain&)>;

  // Returns when the server serves. `fabric` is kShm or kTcp.
  [[nodiscard]] static Reported<std::unique_ptr<RealEnds>> start(SuiteFabric fabric, Serve serve);
  RealEnds(const RealEnds&) = delete;
  RealEnds& operator=(const RealEnds&) = delete;
  ~RealEnds();

  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] Reported<fabric::Channel*> connect() { return domain_->connect(address_); }

 private:
  struct Server;

  RealEnds();

  std::unique_ptr<Server> server_;
  runtime::Shard shard_;
  std::unique_ptr<fabric::Domain> domain_;
  std::unique_ptr<fabric::Dispatcher> dispatcher_;
  std::string address_;
};

}  // namespace refract::bench
