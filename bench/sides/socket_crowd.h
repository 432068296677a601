// SPDX-License-Identifier: Apache-2.0
// Many plain connections of one thread to a store, one get in flight on each: of our node, whose frames are
// made by hand here, and of Redis. The client is the same code for both and as lean as it gets, so that what
// grows with the connections is the server's.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/measure/measure.h"

#include "refract/base/histogram.h"
#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

enum class CrowdSide : uint8_t { kRefract, kRedis };

struct CrowdTurn {
  uint64_t operations = 0;
  uint64_t rounds = 0;  // Looks at the sockets that found some ready.
  double seconds = 0;
  Histogram latency_ns = {};
};

class SocketCrowd {
 public:
  // `count` connections to a port of loopback, each with one answered get behind it. The store holds the
  // entries 0 to `entries` of entry.h.
  [[nodiscard]] static Reported<SocketCrowd> connect(CrowdSide side, uint16_t port, size_t count,
                                                     uint64_t entries);

  // Gets on all connections at once, for that long. A wrong answer is an error.
  [[nodiscard]] Reported<CrowdTurn> run(const Timer& timer, double seconds, uint64_t seed);

 private:
  struct Talk {
    Descriptor socket;
    uint64_t index = 0;  // What was asked for.
    uint64_t asked_ticks = 0;
    size_t received = 0;
    std::string answer;
  };

  SocketCrowd(CrowdSide side, uint64_t entries) : side_(side), entries_(entries) {}
  [[nodiscard]] Reported<> join(uint16_t port);
  // How long answers are, and where the value lies in them, from the first one.
  [[nodiscard]] Reported<> learn(Talk& talk);
  [[nodiscard]] Reported<> ask(Talk& talk, uint64_t index);
  // Whether the answer is whole.
  [[nodiscard]] Reported<bool> hear(Talk& talk);
  [[nodiscard]] Reported<> finish(Talk& talk);

  CrowdSide side_;
  uint64_t entries_;
  Descriptor epoll_;
  std::vector<Talk> talks_;
  std::string question_;
  size_t key_at_ = 0;
  size_t answer_bytes_ = 0;
  size_t value_at_ = 0;
};

// Has this process, and those that it starts, hold so many descriptors, if the system allows it.
[[nodiscard]] Reported<> allow_descriptors(uint64_t count);

}  // namespace refract::bench
