// SPDX-License-Identifier: Apache-2.0
// Everything a process has that owns a space with a table and serves it over one domain, for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/check.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/chain_server.h"
#include "refract/kv/domain_windows.h"
#include "refract/kv/growth_source.h"
#include "refract/kv/pin_sources.h"
#include "refract/kv/service.h"
#include "refract/kv/table.h"
#include "refract/memory/heap.h"
#include "refract/prism/operation.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_router.h"
#include "refract/runtime/shard.h"

namespace refract::kv::test {

struct Owner {
  // Of a space that holds a table.
  struct Bytes {
    std::byte* base;
    uint64_t count;
    StoreLog* log = nullptr;
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
        chains({.table = table, .heap = heap, .writer = writer, .shard = shard}),
        router(service, prism::kMethodsBegin, chains.service()),
        server(router, shard),
        dispatcher(domain, shard, &server) {
    pins.add(session_pins);
    heap.add({0}, bytes.count);
    chains.on_memory_added();
    REFRACT_CHECK(table.recover().has_value());
    service.answer_through(&server);
    chains.answer_through(&server);
  }

  SessionPins session_pins;
  PinSources pins;
  NoGrowth growth;
  Writer writer;
  Heap heap;
  Table table;
  DomainWindows windows;
  TableService service;
  ChainServer chains;
  rpc::ServiceRouter router;
  rpc::Server server;
  fabric::Dispatcher dispatcher;
};

}  // namespace refract::kv::test
