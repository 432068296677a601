// SPDX-License-Identifier: Apache-2.0
// The connecting end: finds the node, shakes hands, and comes back after the peer was lost.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/tcp/connection.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::fabric::tcp {

struct NodeAddress {
  std::string text;  // As the caller wrote it.
  HostAndPort place;
  uint32_t shard = 0;
};
// "host:port" or "host:port/SHARD".
[[nodiscard]] Reported<NodeAddress> parse_node_address(std::string_view text);

class ClientLink final : public Connection {
 public:
  ClientLink(Hub& hub, const ClientOptions& options, NodeAddress address,
             std::vector<SocketAddress> candidates)
      : Connection(hub),
        options_(options),
        address_(std::move(address)),
        candidates_(std::move(candidates)) {}

  // Begins the first attempt.
  void begin() noexcept;
  void close() noexcept override;
  void hear(uint32_t events) noexcept override;
  // Its moment has come: an attempt has lasted too long, or a pause is over.
  void due() noexcept;
  [[nodiscard]] uint64_t due_ns() const noexcept { return due_ns_; }
  // kClosed with value 1 has been given out.
  void begin_waiting() noexcept;

  // A failed kOpened, or the last kClosed while reconnecting, is to be given out; then the link is dead.
  [[nodiscard]] bool has_verdict() const noexcept { return has_verdict_; }
  [[nodiscard]] Completion take_verdict() noexcept;

  [[nodiscard]] const Report& refusal() const noexcept { return refusal_; }
  [[nodiscard]] const NodeFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] bool is_attempting() const noexcept {
    return stage_ != Stage::kNone && stage_ != Stage::kPause;
  }

 private:
  enum class Stage : uint8_t { kNone, kConnect, kChallenge, kWelcome, kPause };

  void peer_lost() noexcept override;
  void peer_left() noexcept override;
  void attempt() noexcept;
  void attempt_failed(Report why) noexcept;
  void give_up(Report why) noexcept;
  void stop_attempt() noexcept;
  void step() noexcept;
  [[nodiscard]] Reported<> connected() noexcept;
  [[nodiscard]] Reported<> take_frame();
  [[nodiscard]] Reported<> take_challenge(const Challenge& challenge);
  [[nodiscard]] Reported<> take_welcome(const Welcome& welcome);

  const ClientOptions& options_;
  NodeAddress address_;
  std::vector<SocketAddress> candidates_;
  size_t candidate_ = 0;
  Stage stage_ = Stage::kNone;
  Descriptor attempt_;
  HandshakeReader reader_;
  Transcript transcript_;
  NodeFacts facts_;
  Report refusal_{Code::kOk, "", ""};
  bool was_open_ = false;
  bool has_verdict_ = false;
  uint64_t due_ns_ = kForever_ns;
  uint64_t opened_ns_ = 0;
  uint64_t lost_ns_ = 0;
  uint64_t pause_ns_ = kPauseFirst_ns;
  Prng prng_{secure_random_u64()};
};

}  // namespace refract::fabric::tcp
