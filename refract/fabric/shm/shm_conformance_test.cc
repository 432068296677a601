// SPDX-License-Identifier: Apache-2.0
// The claims of fabric/conformance.h over shared memory, with meeting, server and client in one process.
#include "refract/fabric/conformance.h"
#include "refract/fabric/shm/test_node.h"

namespace refract::fabric::shm {
namespace {

class ShmFixture final : public Fixture {
 public:
  [[nodiscard]] Domain& client() override { return *client_; }
  [[nodiscard]] Domain& server() override { return node_.server(); }
  [[nodiscard]] Reported<Channel*> connect() override { return client_->connect(node_.path()); }
  [[nodiscard]] std::string unused_address() override { return node_.path() + ".unused"; }
  void pump() override {
    if (node_.has_keeper()) node_.meeting().poll();
  }
  // The node dies, keeper and all: a server that dies alone comes back, which tests of this folder are about.
  [[nodiscard]] bool kill_server() override {
    node_.kill_server();
    node_.end_keeper();
    return true;
  }

 private:
  TestNode node_;
  std::unique_ptr<ClientDomain> client_ = make_client();
};

INSTANTIATE_TEST_SUITE_P(Shm, ChannelConformance,
                         testing::Values(Provider{"shm", [] { return std::make_unique<ShmFixture>(); }}),
                         provider_name);

}  // namespace
}  // namespace refract::fabric::shm
