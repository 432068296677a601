// SPDX-License-Identifier: Apache-2.0
// The claims of fabric/conformance.h over real sockets of the loopback, with both ends in one thread.
#include "refract/base/testing/needed.h"
#include "refract/fabric/conformance.h"
#include "refract/fabric/tcp/test_node.h"

namespace refract::fabric::tcp {
namespace {

class TcpFixture final : public Fixture {
 public:
  explicit TcpFixture(const Secret* secret)
      : node_({.secret = secret}), client_(test::needed(ClientDomain::create({.secret = secret}))) {}

  [[nodiscard]] Domain& client() override { return *client_; }
  [[nodiscard]] Domain& server() override { return node_.server(); }
  [[nodiscard]] Reported<Channel*> connect() override { return client_->connect(node_.address()); }
  // Bound, but without a listener.
  [[nodiscard]] std::string unused_address() override { return "127.0.0.1:1"; }
  void pump() override {
    // Kernel sockets take no part in the turns, so handshakes alone are moved.
    if (alive_ && ++turns_ % 4 == 0) node_.pump();
  }
  [[nodiscard]] bool kill_server() override {
    node_.kill_server();
    node_.stop_listening();
    alive_ = false;
    return true;
  }

 private:
  TestNode node_;
  std::unique_ptr<ClientDomain> client_;
  bool alive_ = true;
  uint64_t turns_ = 0;
};

const Secret& shared_secret() {
  static const Secret secret = secret_of("a secret of the conformance suite");
  return secret;
}

INSTANTIATE_TEST_SUITE_P(
    Tcp, ChannelConformance,
    testing::Values(Provider{"open", [] { return std::make_unique<TcpFixture>(nullptr); }},
                    Provider{"secret", [] { return std::make_unique<TcpFixture>(&shared_secret()); }}),
    provider_name);

}  // namespace
}  // namespace refract::fabric::tcp
