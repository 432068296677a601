// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks/socket_pieces.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bench/measure/tcp_socket.h"

namespace refract::bench {

PieceHolder::~PieceHolder() {
  // Where no puller ever came.
  if (listening_) (void)::shutdown(listening_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

Reported<uint16_t> PieceHolder::start(const std::string& address, std::span<const std::byte> bytes) {
  Reported<Descriptor> listening = listen_on(address);
  if (!listening) return report(listening.error());
  listening_ = std::move(*listening);
  bytes_ = bytes;
  thread_ = std::thread([this] { serve(); });
  return port_of(listening_);
}

void PieceHolder::serve() const {
  const Descriptor socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  send_at_once(socket);
  uint64_t wanted = 0;
  while (::recv(socket.get(), &wanted, sizeof(wanted), MSG_WAITALL) == sizeof(wanted) &&
         wanted <= bytes_.size()) {
    for (uint64_t at = 0; at < wanted;) {
      const size_t piece = std::min<uint64_t>(kSocketPieceBytes, wanted - at);
      const ssize_t sent = ::send(socket.get(), bytes_.data() + at, piece, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<uint64_t>(sent);
    }
  }
}

Reported<> PiecePuller::connect(const std::string& address, uint16_t port) {
  Reported<Descriptor> socket = connect_tcp(address, port);
  if (!socket) return report(socket.error());
  socket_ = std::move(*socket);
  return {};
}

Reported<> PiecePuller::pull(std::span<std::byte> into) {
  const uint64_t wanted = into.size();
  if (::send(socket_.get(), &wanted, sizeof(wanted), MSG_NOSIGNAL) != sizeof(wanted))
    return report(Code::kUnavailable, "the holder by the socket has gone");
  while (!into.empty()) {
    const size_t piece = std::min(kSocketPieceBytes, into.size());
    const ssize_t got = ::recv(socket_.get(), into.data(), piece, MSG_WAITALL);
    if (got <= 0) return report(Code::kUnavailable, "the holder by the socket has gone");
    into = into.subspan(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace refract::bench
