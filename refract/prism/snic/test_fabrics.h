// SPDX-License-Identifier: Apache-2.0
// Chains over any provider, as one suite. A provider is a row:
//
//   INSTANTIATE_TEST_SUITE_P(Loopback, PrismFabrics,
//                            testing::Values(Provider{"loopback", [] { return make_ends(); }}),
//                            provider_name);
//
// The claims are in fabrics_test.cc, the rows in fabrics_rows_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "refract/base/clock.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/wrap/count.h"
#include "refract/prism/client.h"
#include "refract/prism/snic/service.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic {

// Two domains that reach each other, and whatever moves what lies between them.
class Ends {
 public:
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  virtual ~Ends() = default;
  [[nodiscard]] virtual fabric::Domain& client() = 0;
  [[nodiscard]] virtual fabric::Domain& server() = 0;
  [[nodiscard]] virtual std::string address() = 0;
  virtual void pump() {}
};

struct Provider {
  std::string name;
  std::function<std::unique_ptr<Ends>()> make;
};
inline void PrintTo(const Provider& provider, std::ostream* out) {
  *out << provider.name;
}

[[nodiscard]] inline std::string provider_name(const testing::TestParamInfo<Provider>& provider) {
  return provider.param.name;
}

class PrismFabrics : public testing::TestWithParam<Provider> {
 protected:
  PrismFabrics() {
    service_.answer_through(&server_);
    EXPECT_TRUE(service_.offer({.store = "words", .region = test::kRegion, .rights = {ChainRights::kAll}})
                    .has_value());
  }

  void pump() {
    ends_->pump();
    (void)shard_.poll_once();
  }
  template <typename T>
  [[nodiscard]] T wait(runtime::Task<T> task) {
    shard_.refresh_now();
    task.start();
    while (!task.done()) pump();
    return task.take();
  }
  [[nodiscard]] std::unique_ptr<rpc::Session> connect() {
    auto session = std::make_unique<rpc::Session>(**counted_.connect(ends_->address()), shard_);
    while (session->state() == rpc::Session::State::kOpening) pump();
    EXPECT_EQ(session->state(), rpc::Session::State::kOpen);
    return session;
  }
  [[nodiscard]] uint64_t deadline() { return shard_.refresh_now() + 30 * kSecond_ns; }

  test::World world_;
  std::unique_ptr<Ends> ends_ = GetParam().make();
  runtime::Shard shard_{system_clock()};
  Service service_{world_.executor(), shard_};
  rpc::Server server_{service_, shard_};
  fabric::CountDomain counted_{ends_->client()};
  fabric::Dispatcher server_dispatcher_{ends_->server(), shard_, &server_};
  fabric::Dispatcher client_dispatcher_{counted_, shard_};
};

}  // namespace refract::prism::snic
