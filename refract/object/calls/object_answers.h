// SPDX-License-Identifier: Apache-2.0
// What ObjectCalls gives and takes where nodes share their objects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/object/layout/object_paths_wire.h"
#include "refract/object/layout/object_wire.h"

namespace refract::object {

struct ObjectAnswers {
  struct Places {
    wire::WhereReply reply{};
    std::vector<std::string> nodes;
  };

  struct Path {
    std::string name;
    wire::PathEntry path;
  };
  struct Paths {
    std::vector<Path> paths;  // From number `first` on.
    uint32_t next = 0;        // 0: that is all.
  };

  // So many copies on different nodes; the call ends when there are so many, or behind `timeout_ns`. It is
  // sent once.
  struct KeptCopies {
    uint64_t birth = 0;
    uint64_t timeout_ns = 0;
    uint8_t wanted = 0;
  };

  struct RankedNode {
    std::string name;
    Code code = Code::kUnavailable;
    wire::RankedNode node{};
  };
  struct Ranked {
    std::vector<Code> ids;
    std::vector<RankedNode> nodes;
  };

  struct BroadcastNode {
    std::string name;
    Code code = Code::kUnavailable;
  };
  struct Broadcasted {
    wire::BroadcastReply reply{};
    std::vector<BroadcastNode> nodes;
  };
};

}  // namespace refract::object
