// SPDX-License-Identifier: Apache-2.0
// What keeper and server of one node say to each other: small messages over a socket pair, descriptors with
// them.
//
// Both ends are our own code and trust each other; a message of another length ends the process that sent it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/remote_pointer.h"

namespace refract::node {

enum class LinkKind : uint32_t {
  // Keeper to server.
  kAttach = 1,   // id, base: its process, bytes: its user; descriptors: the connection memory, the server's
                 // end of the doorbell.
  kDetach,       // id
  kMapRegion,    // region, base, bytes; descriptor: the region, writable. Answer kMapped.
  kRegionReady,  // region, base, bytes, key: sealed and offered to readers; use it.
  kRefused,      // bytes: no region will come for a value of this length, or a longer one; code says why.
  kMembers,      // descriptor: sealed memory that is the new list of nodes, a page of cluster/members_wire.h.
  // Server to keeper.
  kServing,
  kWant,     // bytes: a value of this length must fit.
  kMapped,   // region
  kDamaged,  // base: the offset of what recovery found. The server ends now, and must not be started again.
};

struct LinkMessage {
  LinkKind kind{};
  uint32_t code = 0;
  uint64_t id = 0;
  uint64_t region = 0;
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t key = 0;
};
static_assert(sizeof(LinkMessage) == 48 && std::is_trivially_copyable_v<LinkMessage>);

// One end. Sending does not wait, and receiving does not.
class LinkEnd {
 public:
  LinkEnd() = default;
  explicit LinkEnd(Descriptor socket) noexcept : socket_(std::move(socket)) {}

  struct Received {
    LinkMessage message;
    std::array<Descriptor, 2> descriptors;
  };

  // False: the other end is gone, or does not read; either way its process is of no more use.
  [[nodiscard]] bool send(const LinkMessage& message, std::initializer_list<int> descriptors = {}) noexcept;
  // Nothing: no message now. `ended` is set when none will ever come.
  [[nodiscard]] std::optional<Received> receive(bool& ended) noexcept;
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  void close() noexcept { socket_ = Descriptor(); }

 private:
  Descriptor socket_;
};

// A connected pair; both ends close on exec.
struct LinkPair {
  LinkEnd keeper;
  LinkEnd server;
};
[[nodiscard]] Reported<LinkPair> make_link();

}  // namespace refract::node
