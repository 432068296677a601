// SPDX-License-Identifier: Apache-2.0
// Where a client is told to find its node:
//
//   PATH, shm:PATH, refract:///PATH   a node of this host; nothing: the default socket
//   tcp:HOST:PORT, verbs:HOST:PORT    over TCP only; over RDMA, introduced by TCP
//   refract://HOST:PORT?transport=auto|shm|verbs|tcp
//                                     the best that leads there, or the one that is named
//   refract://HOST:PORT,HOST:PORT     some of the nodes that share out the keys of one store
//
// Behind refract:// a query may follow; `&` separates transport=NAME, path=direct|chain|rpc
// (ClientOptions::paths, where direct is the best that the transport has), secret_file=PATH and
// device=NAME|auto|none (ClientOptions::rdma_device), `%2f` stands for a byte that has a meaning there. A
// host is a name, an IPv4 address, or an IPv6 address in brackets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/client/types.h"

namespace refract::client {

enum class Preference : uint8_t {
  kAuto,  // Shared memory where the node is on this host, else RDMA where both ends have it, else TCP.
  kShm,
  kVerbs,
  kTcp,
};

struct Place {
  std::string host;  // Without brackets.
  uint16_t port = 0;
};

struct Target {
  Preference preference = Preference::kAuto;
  std::string socket_path;  // Of a node of this host. Empty: there is a host.
  std::string host;         // Without brackets.
  uint16_t port = 0;
  std::string secret_file;     // Empty: the address names none.
  std::string rdma_device;     // Likewise.
  std::optional<Paths> paths;  // Nothing: the address names none.
  std::vector<Place> others;   // Behind the first host, where the address names several.

  [[nodiscard]] bool is_path() const noexcept { return host.empty(); }
  // Whether the host's name says that it is this one.
  [[nodiscard]] bool is_loopback() const noexcept;
  // "host:port", with brackets where they are needed; a path as it is.
  [[nodiscard]] std::string text() const;
  // The same with this host and port alone. By TCP or RDMA as before; the best that leads there, where this
  // one is a path.
  [[nodiscard]] Target at(Place place) const;
  // One for each of the hosts; itself where there are no others.
  [[nodiscard]] std::vector<Target> each() const;
};

// kInvalidArgument: no such form, with what is wrong and what to write; kUnsupported: no such transport.
[[nodiscard]] Reported<Target> parse_address(std::string_view address);

// The socket's path, for what works on this host only. kUnsupported: it names a host.
[[nodiscard]] Reported<std::string> socket_path_of(std::string_view address);

}  // namespace refract::client
