// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/tcp_socket.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace refract::bench {
namespace {

Reported<sockaddr_in> parse(const std::string& address, uint16_t port) {
  sockaddr_in where = {};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &where.sin_addr) == 1) return where;
  return report(Code::kInvalidArgument, fmt::format("'{}' is no IPv4 address", address));
}

}  // namespace

Reported<Descriptor> listen_on(const std::string& address) {
  const Reported<sockaddr_in> where = parse(address, 0);
  if (!where) return report(where.error());
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* name = reinterpret_cast<const sockaddr*>(&*where);
  if (!socket || ::bind(socket.get(), name, sizeof(*where)) != 0 || ::listen(socket.get(), 1) != 0) {
    return report(Code::kSystem, fmt::format("cannot listen on {}: {}", address, errno_text(errno)));
  }
  return socket;
}

uint16_t port_of(const Descriptor& socket) {
  sockaddr_in where = {};
  socklen_t bytes = sizeof(where);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&where), &bytes) != 0) return 0;
  return ntohs(where.sin_port);
}

Reported<uint16_t> free_port() {
  const Reported<Descriptor> socket = listen_on("127.0.0.1");
  if (!socket) return report(socket.error());
  return port_of(*socket);
}

Reported<Descriptor> connect_tcp(const std::string& address, uint16_t port, int receive_buffer_bytes) {
  const Reported<sockaddr_in> where = parse(address, port);
  if (!where) return report(where.error());
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* name = reinterpret_cast<const sockaddr*>(&*where);
  if (receive_buffer_bytes != 0) {
    // Before connecting, because the window's scale is settled then.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer_bytes,
                 sizeof(receive_buffer_bytes));
  }
  if (!socket || ::connect(socket.get(), name, sizeof(*where)) != 0) {
    return report(Code::kUnavailable,
                  fmt::format("cannot connect to {}:{}: {}", address, port, errno_text(errno)));
  }
  send_at_once(socket);
  return socket;
}

void send_at_once(const Descriptor& socket) {
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace refract::bench
