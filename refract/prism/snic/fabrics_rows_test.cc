// SPDX-License-Identifier: Apache-2.0
// The providers that the suite of test_fabrics.h runs over, but for RDMA's, which needs devices.
#include <memory>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/fabric/shm/test_node.h"
#include "refract/fabric/sim/world.h"
#include "refract/fabric/tcp/test_node.h"
#include "refract/prism/snic/test_fabrics.h"

namespace refract::prism::snic {
namespace {

class LoopbackEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return client_; }
  [[nodiscard]] fabric::Domain& server() override { return server_; }
  [[nodiscard]] std::string address() override { return "server"; }

 private:
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain client_{hub_, "client"};
  fabric::LoopbackDomain server_{hub_, "server"};
};

class SimEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return client_.domain(); }
  [[nodiscard]] fabric::Domain& server() override { return server_.domain(); }
  [[nodiscard]] std::string address() override { return "server"; }
  void pump() override { EXPECT_TRUE(world_.run_for(20 * kMicrosecond_ns)); }

 private:
  [[nodiscard]] static sim::WorldOptions options() {
    sim::WorldOptions options = {.seed = 5};
    options.steps_max = UINT64_MAX;  // The test polls as long as it likes.
    return options;
  }
  sim::World world_{options()};
  sim::Host& client_ = world_.add_host("client");
  sim::Host& server_ = world_.add_host("server");
};

class ShmEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return *client_; }
  [[nodiscard]] fabric::Domain& server() override { return node_.server(); }
  [[nodiscard]] std::string address() override { return node_.path(); }
  void pump() override { node_.meeting().poll(); }

 private:
  fabric::shm::TestNode node_;
  std::unique_ptr<fabric::shm::ClientDomain> client_ = fabric::shm::make_client();
};

class TcpEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return *client_; }
  [[nodiscard]] fabric::Domain& server() override { return node_.server(); }
  [[nodiscard]] std::string address() override { return node_.address(); }
  void pump() override { node_.pump(); }

 private:
  fabric::tcp::TestNode node_;
  std::unique_ptr<fabric::tcp::ClientDomain> client_ =
      refract::test::needed(fabric::tcp::ClientDomain::create({}));
};

INSTANTIATE_TEST_SUITE_P(All, PrismFabrics,
                         testing::Values(Provider{"loopback",
                                                  [] { return std::make_unique<LoopbackEnds>(); }},
                                         Provider{"sim", [] { return std::make_unique<SimEnds>(); }},
                                         Provider{"shm", [] { return std::make_unique<ShmEnds>(); }},
                                         Provider{"tcp", [] { return std::make_unique<TcpEnds>(); }}),
                         provider_name);

}  // namespace
}  // namespace refract::prism::snic
