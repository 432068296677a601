// SPDX-License-Identifier: Apache-2.0
// Objects served over the simulated network, by a process that can crash and come back to the same memory.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "refract/fabric/sim/visible_memory.h"
#include "refract/fabric/sim/world.h"
#include "refract/object/testing/test_objects.h"

namespace refract::object::test {

// The host "server" and the memory that outlives its process.
class SimNode {
 public:
  static constexpr uint64_t kChunks = 64;
  static constexpr uint64_t kLimit = 40 * kMiB;

  explicit SimNode(sim::World& world, uint64_t limit = kLimit)
      : host(world.add_host("server")),
        limit_(limit),
        memory_({.bytes = kChunks * kChunkBytes, .bytes_max = kChunks * kChunkBytes, .seed = 1},
                empty(host)) {
    host.attach(&memory_);
    host.on_restart([this](sim::Host&) { start(); });
    start();
  }

  sim::Host& host;
  Owner* process = nullptr;  // What lives on the host now.

 private:
  static std::vector<std::byte> empty(sim::Host& host) {
    struct alignas(4096) Page {
      std::byte bytes[4096];
    };
    std::vector<Page> pages(kChunks * kChunkBytes / sizeof(Page));
    auto* base = static_cast<std::byte*>(pages.data()->bytes);
    format_space(base, 2, kChunks, host.clock());
    return {base, base + 2 * kChunkBytes};
  }
  void start() {
    process = &host.emplace<Owner>(
        host.shard(), host.domain(), host.clock(),
        OwnerOptions{
            .base = memory_.owner(), .chunks = kChunks, .log = &memory_, .limit = limit_, .growth = nullptr});
  }

  const uint64_t limit_;
  sim::VisibleMemory memory_;
};

}  // namespace refract::object::test
