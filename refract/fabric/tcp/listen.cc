// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/listen.h"

#include <fmt/format.h>

#include <cerrno>

#include "refract/fabric/tcp/socket.h"
#include "refract/fabric/tcp/tuning.h"

namespace refract::fabric::tcp {
namespace {

Reported<SocketAddress> parse(std::string_view address) {
  const auto place = split_address(address);
  if (!place) return report(place.error());
  const auto found = resolve(*place, /*numbers_only=*/true);
  if (!found) return report(found.error());
  return found->front();
}

std::string next_step(int error_number, std::string_view address) {
  switch (error_number) {
    case EADDRINUSE:
      return fmt::format("another program listens on {}: stop it, or choose another port", address);
    case EADDRNOTAVAIL:
      return "this host has no such address: 'ip address' shows those it has";
    case EACCES:
      return "ports below 1024 need a privilege: choose a higher one";
    default:
      return {};
  }
}

}  // namespace

Reported<Descriptor> listen(std::string_view address) {
  const auto place = parse(address);
  if (!place) return report(place.error());
  const auto failed = [address](std::string_view what) {
    const int error_number = errno;
    return report(error_number == EADDRINUSE ? Code::kInUse : Code::kSystem,
                  fmt::format("cannot {} {}: {}", what, address, errno_text(error_number)),
                  next_step(error_number, address));
  };
  Descriptor socket(::socket(place->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("make a socket for");
  const int yes = 1;
  // Connections of a node that has just ended do not keep its port.
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(socket.get(), place->get(), place->bytes) != 0) return failed("listen on");
  if (::listen(socket.get(), kBacklog) != 0) return failed("listen on");
  return socket;
}

Reported<std::string> bound_address(int fd) {
  std::string text = local_address(fd).text();
  if (text.empty()) return report(Code::kInvalidArgument, fmt::format("descriptor {} is no TCP socket", fd));
  return text;
}

Reported<uint16_t> bound_port(int fd) {
  const uint16_t port = local_address(fd).port();
  if (port == 0) return report(Code::kInvalidArgument, fmt::format("descriptor {} is not bound", fd));
  return port;
}

Reported<bool> is_loopback(std::string_view address) {
  const auto place = parse(address);
  if (!place) return report(place.error());
  return place->is_loopback();
}

}  // namespace refract::fabric::tcp
