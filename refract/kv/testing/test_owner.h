// SPDX-License-Identifier: Apache-2.0
// Everything a process has that owns a space with a table and serves it over one domain, for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/check.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/owner/chains/chain_server.h"
#include "refract/kv/owner/numbered/numbered_service.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/domain_windows.h"
#include "refract/kv/owner/service/remote_server.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/prism/operation.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/runtime/shard.h"

namespace refract::kv::test {

struct Owner {
  // Of a space that holds a table.
  struct Bytes {
    std::byte* base;
    uint64_t count;
    StoreLog* log = nullptr;
    bool hides_half = false;  // From remote readers, until tell_rest() is called.
  };
  Owner(runtime::Shard& shard, fabric::Domain& domain, const Clock& clock, const Bytes& bytes)
      : writer(bytes.base, bytes.log),
        heap(writer, pins),
        table(writer, heap, clock),
        windows(domain),
        service({.table = table,
                 .heap = heap,
                 .writer = writer,
                 .pins = session_pins,
                 .growth = growth,
                 .shard = shard,
                 .windows = &windows}),
        remote(domain, clock),
        chains({.table = table, .heap = heap, .writer = writer, .shard = shard}),
        numbered({.table = recovered(bytes),
                  .service = service,
                  .shard = shard,
                  .digest = [](const wire::SessionSecret&) noexcept { return SecretDigest{}; }}),
        services({{0, &service},
                  {wire::kRemoteMethodsBegin, &remote},
                  {wire::kNumberedMethodsBegin, &numbered},
                  {prism::kMethodsBegin, &chains.service()}}),
        server(services, shard),
        dispatcher(domain, shard, &server) {
    service.answer_through(&server);
    numbered.answer_through(&server);
    remote.answer_through(&server);
    chains.answer_through(&server);
  }

  void tell_rest() {
    std::byte* const rest = writer.base() + first_bytes;
    const bool is_told =
        remote.add({.start = {first_bytes}, .bytes = {rest, heap.end() - first_bytes}}).has_value();
    REFRACT_CHECK(is_told);
  }

  uint64_t first_bytes = 0;  // Of the first region.
  SessionPins session_pins;
  PinSources pins;
  NoGrowth growth;
  Writer writer;
  Heap heap;
  Table table;
  DomainWindows windows;
  TableService service;
  RemoteServer remote;
  ChainServer chains;
  NumberedService numbered;
  rpc::ServiceTable services;
  rpc::Server server;
  fabric::Dispatcher dispatcher;

 private:
  // Not before: the service of numbered writes looks at the sessions that were found.
  [[nodiscard]] Table& recovered(const Bytes& bytes) {
    pins.add(session_pins);
    heap.add({0}, bytes.count);
    chains.on_memory_added();
    // Two regions, so that remote readers meet both.
    first_bytes = bytes.count / kChunkBytes / 2 * kChunkBytes;
    REFRACT_CHECK(remote.add({.start = {0}, .bytes = {bytes.base, first_bytes}}).has_value());
    if (!bytes.hides_half) tell_rest();
    REFRACT_CHECK(table.recover().has_value());
    return table;
  }
};

}  // namespace refract::kv::test
