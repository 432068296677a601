// SPDX-License-Identifier: Apache-2.0
// The decoders of the handshake on arbitrary bytes: the reader takes one frame and not a byte behind it,
// facts and refusals come out sound or not at all.
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "refract/base/check.h"
#include "refract/fabric/tcp/handshake.h"

using namespace refract::fabric::tcp;  // NOLINT(google-build-using-namespace)
using refract::Descriptor;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::array<int, 2> sockets{};
  REFRACT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()) == 0);
  const Descriptor node(sockets[1]);
  Descriptor peer(sockets[0]);
  HandshakeReader reader;
  size_t sent = 0;
  auto progress = HandshakeReader::Progress::kMore;
  // In two parts, so that frames are cut somewhere.
  for (const size_t part : {bytes / 2, bytes - bytes / 2}) {
    if (part > 0) (void)::send(peer.get(), data + sent, part, MSG_NOSIGNAL);
    sent += part;
    if (progress == HandshakeReader::Progress::kMore) progress = reader.read(node.get());
  }
  peer = Descriptor();
  if (progress == HandshakeReader::Progress::kMore) progress = reader.read(node.get());
  REFRACT_CHECK(progress != HandshakeReader::Progress::kMore);
  if (progress != HandshakeReader::Progress::kFrame) return 0;

  std::array<std::byte, 4096> behind;
  const ssize_t left = ::recv(node.get(), behind.data(), behind.size(), MSG_DONTWAIT);
  FrameHeader header;
  uint64_t word = 0;
  std::copy_n(data, sizeof(word), reinterpret_cast<uint8_t*>(&word));
  header = FrameHeader::from(word);
  const size_t expected = std::min(bytes - kHeaderBytes - header.bytes, behind.size());
  REFRACT_CHECK(static_cast<size_t>(std::max<ssize_t>(left, 0)) == expected);

  (void)reader.frame<Hello>();
  (void)reader.frame<Challenge>();
  if (const auto welcome = reader.frame<Welcome>()) {
    if (const auto facts = facts_from_wire(welcome->facts)) {
      REFRACT_CHECK(facts->socket_path.size() <= kSocketPathBytesMax);
      REFRACT_CHECK(facts->shard_index <= facts->shard_count);
    }
  }
  if (const auto refused = reader.frame<Refused>()) {
    const refract::Report report = refused_from_wire(*refused);
    REFRACT_CHECK(report.code != refract::Code::kOk);
    for (const char each : report.what + report.next) REFRACT_CHECK(static_cast<unsigned char>(each) >= 0x20);
  }
  return 0;
}
