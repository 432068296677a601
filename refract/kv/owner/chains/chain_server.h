// SPDX-License-Identifier: Apache-2.0
// A table offered to chains: its space as one region of a software NIC, under the store's name, readable by
// every session, and writable as far as the guard allows.
//
//   ChainServer chains({.table = table, .heap = heap, .writer = writer, .shard = shard,
//                       .upkeep = &table_service});
//   rpc::ServiceTable services({{0, &table_service}, {prism::kMethodsBegin, &chains.service()}});
//   rpc::Server server(services, shard);
//   chains.answer_through(&server);
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/kv/owner/chains/chain_buffers.h"
#include "refract/kv/owner/chains/chain_guard.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/writer.h"
#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/service.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"

namespace refract::kv {

class ChainServer final : private prism::snic::ReplyGate {
 public:
  // All outlive the server.
  struct Parts {
    Table& table;
    Heap& heap;
    Writer& writer;
    runtime::Shard& shard;
    bool may_write = true;          // Else chains only read.
    ChainUpkeep* upkeep = nullptr;  // The table's service; null: none. A table with a log needs it.
    prism::snic::ServiceOptions service = {};
    prism::snic::Guard* guard = nullptr;  // In place of its own: for tests that break its rules.
  };
  explicit ChainServer(const Parts& parts);
  ChainServer(const ChainServer&) = delete;
  ChainServer& operator=(const ChainServer&) = delete;
  ~ChainServer() override = default;

  [[nodiscard]] prism::snic::Service& service() noexcept { return service_; }
  // Before the first session opens; null: sessions have ended.
  void answer_through(rpc::Server* server) noexcept { service_.answer_through(server); }
  // The heap has more memory: the region ends where it does.
  void on_memory_added() noexcept;

  [[nodiscard]] prism::snic::Executor& executor() noexcept { return executor_; }
  [[nodiscard]] const prism::snic::Executor& executor() const noexcept { return executor_; }
  [[nodiscard]] const prism::snic::Service& service() const noexcept { return service_; }
  [[nodiscard]] const ChainGuard& guard() const noexcept { return guard_; }

 private:
  [[nodiscard]] bool keeps_reply(const rpc::Responder& to,
                                 std::span<const std::byte> reply) noexcept override;

  Heap& heap_;
  ChainUpkeep* upkeep_;
  uint64_t answered_installs_ = 0;
  ChainBufferSizes sizes_;
  ChainBuffers buffers_;
  ChainGuard guard_;
  prism::snic::Executor executor_;
  prism::snic::Service service_;
};

}  // namespace refract::kv
