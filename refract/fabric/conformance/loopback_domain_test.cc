// SPDX-License-Identifier: Apache-2.0
// The suite on its smallest provider.
#include "refract/fabric/conformance/loopback_domain.h"

#include <gtest/gtest.h>

#include "refract/fabric/conformance.h"

namespace refract::fabric {
namespace {

class LoopbackFixture final : public Fixture {
 public:
  explicit LoopbackFixture(const LoopbackOptions& options)
      : client_(hub_, "client", options),
        server_(std::make_unique<LoopbackDomain>(hub_, "server", options)) {}

  [[nodiscard]] Domain& client() override { return client_; }
  [[nodiscard]] Domain& server() override { return *server_; }
  [[nodiscard]] Reported<Channel*> connect() override { return client_.connect("server"); }
  [[nodiscard]] std::string unused_address() override { return "unused"; }
  [[nodiscard]] bool kill_server() override {
    server_.reset();
    return true;
  }

 private:
  LoopbackHub hub_;
  LoopbackDomain client_;
  std::unique_ptr<LoopbackDomain> server_;
};

std::function<std::unique_ptr<Fixture>()> with(const LoopbackOptions& options) {
  return [options] { return std::make_unique<LoopbackFixture>(options); };
}

INSTANTIATE_TEST_SUITE_P(Loopback, ChannelConformance,
                         testing::Values(Provider{"deep", with({})},
                                         Provider{"shallow", with({.depth = 5, .message_bytes_max = 64})}),
                         provider_name);

}  // namespace
}  // namespace refract::fabric
