// SPDX-License-Identifier: Apache-2.0
// The suite on its smallest provider.
#include "refract/fabric/conformance/loopback_domain.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "refract/base/testing/needed.h"
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

// The suite itself: what ends a channel behind a test's back is no crash of the test.
TEST(ConformanceEnd, is_a_failure_to_use_once_its_channel_has_ended_and_not_the_next_channel_there) {
  LoopbackFixture fixture({});
  Side client(fixture.client());
  Side server(fixture.server());
  const auto turns = [&] {
    for (int i = 0; i < 10; ++i) {
      client.poll();
      server.poll();
    }
  };
  const Channel* const made = test::needed(fixture.connect());
  turns();
  const End end = server.newest();
  EXPECT_GT(end->room(), 0u);
  client.end_of(made)->close();
  turns();
  EXPECT_EQ(server.newest(), nullptr);
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(end->room(), 0u), "its path was lost");
  EXPECT_TRUE(server.has_missed_a_channel());
  EXPECT_FALSE(client.has_missed_a_channel());
  (void)test::needed(fixture.connect());
  turns();
  EXPECT_EQ(server.opened(), 2u);
  EXPECT_GT(server.newest()->room(), 0u);
  EXPECT_EQ(end->room(), 0u) << "said once, and remains so";
  end->close();
  turns();
  EXPECT_EQ(client.count(Op::kClosed), 1u);
}

}  // namespace
}  // namespace refract::fabric
