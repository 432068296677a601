// SPDX-License-Identifier: Apache-2.0
// For tests of this folder: a peer that speaks the wire by hand, and may lie; and two ends whose turns a test
// takes.
#pragma once

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/tcp/socket.h"
#include "refract/fabric/tcp/test_node.h"

namespace refract::fabric::tcp {

// Only something broken ever waits for so long.
inline constexpr std::chrono::seconds kPatience{30};

[[nodiscard]] inline bool settle_with(const std::function<void()>& turn, const std::function<bool()>& done) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    turn();
  }
  return true;
}

// What came out of a domain, with the bytes copied.
struct Received {
  Completion completion;
  std::string bytes;
};

class End {
 public:
  explicit End(Domain& domain) : domain_(&domain) {}
  void turn() {
    const size_t count = domain_->poll(completions_);
    for (const Completion& each : std::span(completions_).first(count)) {
      events.push_back(
          {each, std::string(reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size())});
    }
    domain_->flush();
  }
  [[nodiscard]] size_t count(Op op, const Channel* channel = nullptr) const {
    return static_cast<size_t>(std::ranges::count_if(events, [&](const Received& each) {
      return each.completion.op == op && (channel == nullptr || each.completion.channel == channel);
    }));
  }
  [[nodiscard]] const Completion* last(Op op) const {
    for (auto each = events.rbegin(); each != events.rend(); ++each) {
      if (each->completion.op == op) return &each->completion;
    }
    return nullptr;
  }

  std::vector<Received> events;

 private:
  Domain* domain_;
  std::array<Completion, 64> completions_;
};

[[nodiscard]] inline Request send_of(std::string_view text, uint64_t token = 0) {
  // Posting only reads.
  auto* const data = const_cast<char*>(text.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return {.token = token,
          .local = {reinterpret_cast<std::byte*>(data), text.size()},
          .tail = {},
          .op = Op::kSend};
}

// A node and a client of it, in one thread.
struct Ends {
  explicit Ends(const TestNodeOptions& node_options = {}, ClientOptions client_options = {})
      : node(node_options) {
    if (client_options.secret == nullptr) client_options.secret = node_options.secret;
    client_domain = test::needed(ClientDomain::create(client_options));
    client = std::make_unique<End>(*client_domain);
    server = std::make_unique<End>(node.server());
  }
  void turn() {
    client->turn();
    node.pump();
    if (server) server->turn();
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) {
    return settle_with([this] { turn(); }, done);
  }
  // Null: a failure has been recorded.
  Channel* open(const std::string& suffix = "") {
    const size_t before = client->count(Op::kOpened);
    const size_t accepted = server->count(Op::kOpened);
    const auto channel = client_domain->connect(node.address() + suffix);
    const bool opened = channel && settle([&] {
                          return client->count(Op::kOpened) > before && server->count(Op::kOpened) > accepted;
                        });
    if (!opened || client->last(Op::kOpened)->code != Code::kOk) {
      ADD_FAILURE() << "the channel did not open: " << client_domain->last_refusal().to_string();
      return nullptr;
    }
    accepted_channel = server->last(Op::kOpened)->channel;
    return *channel;
  }

  TestNode node;
  std::unique_ptr<ClientDomain> client_domain;
  std::unique_ptr<End> client;
  std::unique_ptr<End> server;
  Channel* accepted_channel = nullptr;
};

// A socket that a test drives.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) {
    const auto place =
        test::needed(resolve(test::needed(split_address(address)), /*numbers_only=*/true)).front();
    socket_ = Descriptor(::socket(place.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket_.get(), place.get(), place.bytes), 0);
    tune(socket_.get());
  }
  explicit RawPeer(Descriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  void hang_up() { socket_ = Descriptor(); }
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    (void)::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    hang_up();
  }

  void send(std::string_view bytes) const { (void)::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  template <typename T>
  void send_frame(FrameKind kind, const T& payload) const {
    ASSERT_TRUE(send_handshake(fd(), kind, payload));
  }
  void send_header(const FrameHeader& header) const {
    const uint64_t word = header.word();
    send({reinterpret_cast<const char*>(&word), sizeof(word)});
  }

  // Whatever has come, waiting not at all. Ended: see has_ended().
  std::string take() {
    std::string bytes(64 * 1024, '\0');
    const ssize_t got = ::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) ended_ = true;
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  [[nodiscard]] bool has_ended() {
    if (!ended_) (void)take();
    return ended_;
  }
  // A whole handshake frame, if it is here.
  [[nodiscard]] bool take_frame(HandshakeReader& reader) {
    const auto progress = reader.read(fd());
    if (progress == HandshakeReader::Progress::kEnded) ended_ = true;
    return progress == HandshakeReader::Progress::kFrame;
  }

  [[nodiscard]] static Hello hello(uint32_t shard = 0) {
    Hello hello{.magic = kWireMagic,
                .version = kWireVersion,
                .version_oldest = kWireVersionOldest,
                .shard = shard,
                .role = 0,
                .nonce = {}};
    secure_random(hello.nonce);
    return hello;
  }
  [[nodiscard]] static Transcript transcript_of(const Hello& hello, const Challenge& challenge) {
    return {.client_nonce = hello.nonce,
            .node_nonce = challenge.nonce,
            .version = challenge.version,
            .client_version = hello.version,
            .client_version_oldest = hello.version_oldest,
            .shard = hello.shard,
            .role = static_cast<Role>(hello.role)};
  }

  // The whole handshake, truthfully; `turn` moves the node.
  [[nodiscard]] bool shake_hands(const std::function<void()>& turn, const Secret* secret = nullptr,
                                 Role role = Role::kClient) {
    Hello greeting = hello();
    greeting.role = static_cast<uint32_t>(role);
    send_frame(FrameKind::kHello, greeting);
    HandshakeReader reader;
    if (!settle_with(turn, [&] { return take_frame(reader) || ended_; }) || ended_) return false;
    const auto challenge = reader.frame<Challenge>();
    if (reader.kind() != FrameKind::kChallenge || !challenge) return false;
    Proof proof{};
    if (secret != nullptr) proof.mac = client_mac(*secret, transcript_of(greeting, *challenge));
    send_frame(FrameKind::kProof, proof);
    reader.reset();
    if (!settle_with(turn, [&] { return take_frame(reader) || ended_; }) || ended_) return false;
    return reader.kind() == FrameKind::kWelcome;
  }

 private:
  Descriptor socket_;
  bool ended_ = false;
};

}  // namespace refract::fabric::tcp
