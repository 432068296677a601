// SPDX-License-Identifier: Apache-2.0
#include "tests/network/handmade_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/process/node_process.h"

#include "refract/fabric/tcp/socket.h"
#include "refract/kv/layout/wire.h"
#include "refract/rpc/message.h"

namespace refract::test {
namespace {

using fabric::tcp::FrameHeader;
using fabric::tcp::FrameKind;

template <typename T>
std::string bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string frame(const FrameHeader& header, std::string_view payload) {
  std::string bytes = bytes_of(header.word());
  bytes += payload;
  bytes.append(fabric::tcp::padding_of(payload.size()), '\0');
  return bytes;
}

std::string random_bytes(Prng& prng, uint64_t count) {
  std::string bytes(count, '\0');
  for (char& each : bytes) each = static_cast<char>(prng.next());
  return bytes;
}

}  // namespace

HandmadeClient::HandmadeClient(const std::string& address) {
  const auto parts = fabric::tcp::split_address(address);
  if (!parts) return;
  const auto places = fabric::tcp::resolve(*parts, /*numbers_only=*/true);
  if (!places || places->empty()) return;
  const fabric::tcp::SocketAddress& place = places->front();
  Descriptor made(::socket(place.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made || ::connect(made.get(), place.get(), place.bytes) != 0) return;
  fabric::tcp::tune(made.get());
  socket_ = std::move(made);
}

void HandmadeClient::reset() noexcept {
  const linger now{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  hang_up();
}

bool HandmadeClient::wait_for(short events) const noexcept {
  pollfd wanted{.fd = fd(), .events = events, .revents = 0};
  return ::poll(&wanted, 1, static_cast<int>(kPatience_ns / 1'000'000)) == 1;
}

Reported<> HandmadeClient::wait_for_frame(fabric::tcp::HandshakeReader& reader, FrameKind kind) {
  using Progress = fabric::tcp::HandshakeReader::Progress;
  reader.reset();
  for (;;) {
    if (!wait_for(POLLIN)) return report(Code::kUnavailable, "the node says nothing");
    const Progress progress = reader.read(fd());
    if (progress == Progress::kMore) continue;
    if (progress != Progress::kFrame) return report(Code::kUnavailable, "the node hung up");
    if (reader.kind() == kind) return {};
    const auto refused = reader.frame<fabric::tcp::Refused>();
    if (reader.kind() != FrameKind::kRefused || !refused) {
      return report(Code::kMalformed, "the node speaks out of turn");
    }
    return report(fabric::tcp::refused_from_wire(*refused));
  }
}

Reported<uint16_t> HandmadeClient::shake_hands(const Versions& versions, const fabric::tcp::Secret* secret) {
  fabric::tcp::Hello hello{.magic = fabric::tcp::kWireMagic,
                           .version = versions.newest,
                           .version_oldest = versions.oldest,
                           .shard = versions.shard,
                           .role = 0,
                           .nonce = {}};
  secure_random(hello.nonce);
  fabric::tcp::HandshakeReader reader;
  if (!fabric::tcp::send_handshake(fd(), FrameKind::kHello, hello)) {
    return report(Code::kUnavailable, "the node hung up before the hello");
  }
  if (auto came = wait_for_frame(reader, FrameKind::kChallenge); !came) return report(came.error());
  const auto challenge = reader.frame<fabric::tcp::Challenge>();
  if (!challenge) return report(Code::kMalformed, "a challenge that is too short");
  fabric::tcp::Proof proof{};
  if (secret != nullptr) {
    proof.mac = fabric::tcp::client_mac(*secret, {.client_nonce = hello.nonce,
                                                  .node_nonce = challenge->nonce,
                                                  .version = challenge->version,
                                                  .client_version = hello.version,
                                                  .client_version_oldest = hello.version_oldest,
                                                  .shard = hello.shard});
  }
  if (!fabric::tcp::send_handshake(fd(), FrameKind::kProof, proof)) {
    return report(Code::kUnavailable, "the node hung up before the proof");
  }
  if (auto came = wait_for_frame(reader, FrameKind::kWelcome); !came) return report(came.error());
  return challenge->version;
}

size_t HandmadeClient::send_some(std::string_view bytes) noexcept {
  const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent > 0 ? static_cast<size_t>(sent) : 0;
}

bool HandmadeClient::send_all(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::optional<HandmadeClient::Reply> HandmadeClient::wait_for_reply() {
  char piece[64 * 1024];
  for (;;) {
    if (received_.size() >= fabric::tcp::kHeaderBytes) {
      uint64_t word = 0;
      std::memcpy(&word, received_.data(), sizeof(word));
      const FrameHeader header = FrameHeader::from(word);
      const uint64_t whole = fabric::tcp::frame_bytes(header.bytes);
      if (received_.size() >= whole) {
        const std::string payload = received_.substr(fabric::tcp::kHeaderBytes, header.bytes);
        received_.erase(0, whole);
        const auto decoded = rpc::decode(std::as_bytes(std::span(payload)));
        if (header.kind != FrameKind::kMessage || !decoded) return std::nullopt;
        return Reply{.id = decoded->header.id,
                     .code = static_cast<Code>(decoded->header.code),
                     .body = payload.substr(sizeof(rpc::MessageHeader))};
      }
    }
    if (!wait_for(POLLIN)) return std::nullopt;
    const ssize_t got = ::recv(fd(), piece, sizeof(piece), 0);
    if (got <= 0) return std::nullopt;
    received_.append(piece, static_cast<size_t>(got));
  }
}

bool HandmadeClient::ends() {
  char piece[64 * 1024];
  while (wait_for(POLLIN)) {
    if (::recv(fd(), piece, sizeof(piece), 0) <= 0) return true;
  }
  return false;
}

std::string message_frame(std::string_view message) {
  return frame({.bytes = message.size(), .kind = FrameKind::kMessage}, message);
}

std::string get_frame(uint64_t id, std::string_view key) {
  const kv::wire::KeyRef key_ref{
      .key_bytes = static_cast<uint16_t>(key.size()), .staged = 0, .flags = 0, .value_bytes = 0};
  const std::string body = bytes_of(key_ref) + std::string(key);
  const rpc::MessageHeader header{.id = id,
                                  .method = static_cast<uint16_t>(kv::wire::Method::kGet),
                                  .code = 0,
                                  .bytes = static_cast<uint32_t>(body.size())};
  return message_frame(bytes_of(header) + body);
}

std::string nonsense(Prng& prng) {
  const uint64_t bytes = prng.below(200);
  switch (prng.below(4)) {
    case 0:
      return random_bytes(prng, 1 + bytes);
    case 1: {  // A header that says anything.
      const FrameHeader header{.bytes = prng.next() >> prng.below(64) & FrameHeader::kBytesMax,
                               .kind = static_cast<FrameKind>(prng.below(24)),
                               .code = static_cast<uint8_t>(prng.below(2) == 0 ? 0 : prng.next())};
      return frame(header, random_bytes(prng, bytes));
    }
    case 2: {  // A call that says anything, in a frame that is right.
      const rpc::MessageHeader header{.id = prng.next(),
                                      .method = static_cast<uint16_t>(prng.below(20)),
                                      .code = 0,
                                      .bytes = static_cast<uint32_t>(bytes)};
      return message_frame(bytes_of(header) + random_bytes(prng, bytes));
    }
    default: {  // A call that is right but for a byte or two.
      std::string call = get_frame(prng.next(), "key");
      for (uint64_t wrong = 1 + prng.below(2); wrong > 0; --wrong) {
        call[prng.below(call.size())] = static_cast<char>(prng.next());
      }
      return call;
    }
  }
}

}  // namespace refract::test
