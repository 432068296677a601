// SPDX-License-Identifier: Apache-2.0
// What the keeper tells a process of doors, once that has made itself undumpable: one message over the Unix
// socket between them, with the listening sockets. See docs/design/076.
//
// Threads: any; control path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/report.h"

namespace refract::node {

// The descriptor that a process of doors finds its keeper at.
inline constexpr int kDoorsLink = 3;
inline constexpr std::string_view kDoorsProgram = "refract-doors";

struct DoorsBirth {
  std::string node;  // The path of the node's socket.
  uint32_t threads = 1;
  std::string password;  // Empty: none is asked for.
  uint16_t tcp_port = 0;
  uint64_t memory_limit_bytes = 0;
  std::string eviction;     // As Redis's maxmemory-policy has it.
  std::string durability;   // As data.durability has it.
  std::string folder;       // Of what the node keeps on a disk. Empty: it keeps nothing.
  bool is_loading = false;  // The node has not served yet; a byte on the link says when it does.
};

[[nodiscard]] std::string to_text(const DoorsBirth& birth);
[[nodiscard]] Reported<DoorsBirth> doors_birth_from(std::string_view text);

}  // namespace refract::node
