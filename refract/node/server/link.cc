// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server/link.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "refract/fabric/shm/descriptors.h"

namespace refract::node {

bool LinkEnd::send(const LinkMessage& message, std::initializer_list<int> descriptors) noexcept {
  return fabric::shm::send_message(socket_.get(), std::as_bytes(std::span(&message, 1)),
                                   std::span(descriptors.begin(), descriptors.size()));
}

std::optional<LinkEnd::Received> LinkEnd::receive(bool& ended) noexcept {
  Received received;
  std::array<std::byte, sizeof(LinkMessage) + 1> bytes;
  const auto got = fabric::shm::receive_message(socket_.get(), bytes, received.descriptors);
  using Outcome = fabric::shm::ReceivedMessage::Outcome;
  if (got.outcome == Outcome::kNothing) return std::nullopt;
  if (got.outcome == Outcome::kEnded || got.bytes != sizeof(LinkMessage) || got.truncated) {
    ended = true;
    return std::nullopt;
  }
  std::memcpy(&received.message, bytes.data(), sizeof(LinkMessage));
  return received;
}

Reported<LinkPair> make_link() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return report(Code::kSystem, "cannot make a socket pair for keeper and server: " + errno_text(errno),
                  "raise the limit of open files (ulimit -n)");
  }
  return LinkPair{.keeper = LinkEnd(Descriptor(ends[0])), .server = LinkEnd(Descriptor(ends[1]))};
}

}  // namespace refract::node
