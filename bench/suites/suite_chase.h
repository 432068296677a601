// SPDX-License-Identifier: Apache-2.0
// Following a pointer in another machine's memory, the two ways that a suite compares: two READs, of which
// the second needs the first one's answer, or a chain of one indirect READ. For every fabric: the server
// belongs to a shard and its domain, the client to a session.
#pragma once

#include <cstdint>
#include <vector>

#include "refract/base/report.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/dispatcher.h"
#include "refract/memory/writer.h"
#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/service.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::bench {

// A region of pointers, each to an object that says which one it is.
class ChaseServer {
 public:
  static constexpr uint64_t kObjects = 64;

  // Shard and domain outlive it.
  ChaseServer(runtime::Shard& shard, fabric::Domain& domain, uint64_t object_bytes);
  // Before a client connects.
  [[nodiscard]] Reported<> start();

  // What a client of READs must know.
  struct Place {
    RemoteKey key;
    uint64_t object_bytes = 0;
  };
  [[nodiscard]] const Place& place() const noexcept { return place_; }

 private:
  std::vector<uint64_t> words_;
  Writer writer_;
  fabric::Domain& domain_;
  prism::snic::Executor executor_;
  prism::snic::Service service_;
  rpc::Server rpc_server_;
  fabric::Dispatcher dispatcher_;
  Place place_;
};

struct Chase {
  ChaseServer::Place place;
  bool by_chain = false;
  uint64_t operations = 0;
  uint64_t run_ns = UINT64_MAX;  // No longer, even where that is fewer operations.
  // Filled in.
  std::vector<uint64_t> latencies_ns = {};
  Code failed = Code::kOk;
  bool is_over = false;
};

// Follows pointers, one after the other. All outlive the task. Time is the shard's clock.
[[nodiscard]] runtime::Task<> follow(Chase& chase, rpc::Session& session, runtime::Shard& shard);

}  // namespace refract::bench
