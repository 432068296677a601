// SPDX-License-Identifier: Apache-2.0
// A client of one socket that speaks the wire by hand, so that it can stop in the middle, read nothing, or
// lie.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "refract/base/prng.h"
#include "refract/base/report.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/memory/host/descriptor.h"

namespace refract::test {

class HandmadeClient {
 public:
  // Connects, or is_connected() says no.
  explicit HandmadeClient(const std::string& address);

  [[nodiscard]] bool is_connected() const noexcept { return static_cast<bool>(socket_); }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  void hang_up() noexcept { socket_ = Descriptor(); }
  void reset() noexcept;

  struct Versions {
    uint16_t newest = fabric::tcp::kWireVersion;
    uint16_t oldest = fabric::tcp::kWireVersionOldest;
    uint32_t shard = 0;
  };
  // The whole handshake, and the version that the node chose; or why the node refused. kMalformed,
  // kUnavailable: it answered with neither.
  [[nodiscard]] Reported<uint16_t> shake_hands(const Versions& versions,
                                               const fabric::tcp::Secret* secret = nullptr);
  [[nodiscard]] Reported<uint16_t> shake_hands() { return shake_hands(Versions{}); }

  // As much as the socket takes without waiting.
  size_t send_some(std::string_view bytes) noexcept;
  // All, waiting for the peer to read. False: the connection is over.
  bool send_all(std::string_view bytes) noexcept;

  struct Reply {
    uint64_t id = 0;
    Code code = Code::kOk;
    std::string body;
  };
  // Nothing: the connection is over, or nothing came for long.
  [[nodiscard]] std::optional<Reply> wait_for_reply();
  // Whether the node ended the connection, after reading all that it still sent; waits for it.
  [[nodiscard]] bool ends();

 private:
  [[nodiscard]] Reported<> wait_for_frame(fabric::tcp::HandshakeReader& reader, fabric::tcp::FrameKind kind);
  [[nodiscard]] bool wait_for(short events) const noexcept;

  Descriptor socket_;
  std::string received_;
};

// A whole frame that carries a call of kGet.
[[nodiscard]] std::string get_frame(uint64_t id, std::string_view key);
// A frame that carries these bytes as a message.
[[nodiscard]] std::string message_frame(std::string_view message);
// Frames of every kind with wrong lengths, codes and contents, and bytes that are no frames at all.
[[nodiscard]] std::string nonsense(Prng& prng);

}  // namespace refract::test
