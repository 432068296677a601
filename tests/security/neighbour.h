// SPDX-License-Identifier: Apache-2.0
// What a process tries that wants more of a node than it was given. Each function counts what was permitted,
// and names it on the standard error, so that it can run in a fork whose exit code is the count.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/fabric/shm/wire.h"
#include "refract/memory/host/descriptor.h"

namespace refract::test {

// Whose node it is: an ordinary user where the test is root, else the test's own.
[[nodiscard]] uid_t owner();
inline constexpr uid_t kStranger = 65'533;

[[nodiscard]] bool is_root();
// False: it may not. The process can be looked into by its new user afterwards, as if it had begun so.
[[nodiscard]] bool become(uid_t user);
// A fork that is this user's; 125: it may not be.
[[nodiscard]] Process run_as(uid_t user, const std::function<int()>& body);

// A node of owner()'s.
[[nodiscard]] NodeOptions owned(std::vector<std::string> arguments = {});

// All that the keeper hands to a client, kept as descriptors.
struct Attached {
  struct Region {
    fabric::shm::RegionEntry entry;
    Descriptor descriptor;
  };
  fabric::shm::Welcome welcome{};
  Descriptor control;
  Descriptor page;
  Descriptor memory;
  Descriptor doorbell;
  std::vector<Region> regions;
};
// Meets the node by hand. Nothing: it was not let in.
[[nodiscard]] std::optional<Attached> attach(const std::string& socket_path);

// Ways to change memory by a descriptor of it: this one, and others that it leads to.
[[nodiscard]] int ways_to_write(int descriptor);
// Of everything that is to be read only.
[[nodiscard]] int ways_to_write(const Attached& attached);
// Ways into another process's memory, descriptors and environment.
[[nodiscard]] int ways_into(pid_t process);

// Whether the bytes stand anywhere in what the node offers.
[[nodiscard]] bool can_be_seen(const Attached& attached, std::string_view bytes);

}  // namespace refract::test
