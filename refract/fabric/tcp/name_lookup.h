// SPDX-License-Identifier: Apache-2.0
// Looks up the addresses of a host in a thread of its own, since the system's resolver waits, for many
// seconds where a name server is silent, and cannot be told to stop.
//
// A lookup that is given up ends in its thread, without effect. Threads: each object is one thread's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "refract/base/report.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::fabric::tcp {

class NameLookup {
 public:
  using Found = Reported<std::vector<SocketAddress>>;

  // kSystem: no thread or descriptor is available.
  [[nodiscard]] static Reported<NameLookup> begin(const HostAndPort& place);

  // Readable from the end on.
  [[nodiscard]] int descriptor() const noexcept;
  // Nothing: it has not ended. What was found is handed out once.
  [[nodiscard]] std::optional<Found> take();
  // Waits for the end, but no longer than so.
  void wait(uint64_t timeout_ns);

 private:
  struct State;
  explicit NameLookup(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  static void* run(void* handed);

  std::shared_ptr<State> state_;  // The thread's, too: the last of the two that leaves frees it.
};

// Looks names up, and waits no longer than so: kDeadlineExceeded. Addresses in numbers take no thread.
[[nodiscard]] Reported<std::vector<SocketAddress>> resolve_within(const HostAndPort& place,
                                                                  uint64_t timeout_ns);

}  // namespace refract::fabric::tcp
