// SPDX-License-Identifier: Apache-2.0
// A server on a thread of its own and a client on the caller's, over a provider of this machine.
//
// In a suite both poll for longer than an answer takes, so that what is measured is not how the kernel wakes
// threads. Threads: the caller's alone, but for what runs in `serve`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench/suites/suite.h"

#include "refract/base/report.h"
#include "refract/base/units.h"
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

// What polls for longer than an answer takes, and starves no other thread all the same.
inline constexpr runtime::ShardOptions kSuitePolling = {.spin_ns = kMillisecond_ns};

// A server on a thread of its own.
class RealServer {
 public:
  // Called once on the server's thread. What it makes lives until the thread ends.
  using Serve = std::function<Reported<std::unique_ptr<Served>>(runtime::Shard&, fabric::Domain&)>;
  struct Options {
    SuiteFabric fabric = SuiteFabric::kShm;  // Or kTcp.
    runtime::ShardOptions shard = kSuitePolling;
    std::optional<size_t> core = std::nullopt;  // As pin_to_core has it; none: anywhere.
  };

  // Returns when the server serves.
  [[nodiscard]] static Reported<std::unique_ptr<RealServer>> start(const Options& options, Serve serve);
  RealServer(const RealServer&) = delete;
  RealServer& operator=(const RealServer&) = delete;
  ~RealServer();

  // For connect() of a domain that open_client_domain made.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  // Processor time that its thread has taken so far.
  [[nodiscard]] uint64_t cpu_ns() const noexcept;

 private:
  struct Thread;

  RealServer();

  std::unique_ptr<Thread> thread_;
  std::string address_;
};

// Of clients. `fabric` is kShm or kTcp.
[[nodiscard]] Reported<std::unique_ptr<fabric::Domain>> open_client_domain(SuiteFabric fabric);

// Both ends, the client's on the caller's thread.
class RealEnds {
 public:
  // Returns when the server serves. `fabric` is kShm or kTcp.
  [[nodiscard]] static Reported<std::unique_ptr<RealEnds>> start(SuiteFabric fabric, RealServer::Serve serve);
  RealEnds(const RealEnds&) = delete;
  RealEnds& operator=(const RealEnds&) = delete;
  ~RealEnds() { shard_.drop_tasks(); }

  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] Reported<fabric::Channel*> connect() { return domain_->connect(server_->address()); }

 private:
  RealEnds();

  std::unique_ptr<RealServer> server_;
  runtime::Shard shard_;
  std::unique_ptr<fabric::Domain> domain_;
  std::unique_ptr<fabric::Dispatcher> dispatcher_;
};

}  // namespace refract::bench
