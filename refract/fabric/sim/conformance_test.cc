// SPDX-License-Identifier: Apache-2.0
// The conformance suite on the simulated fabric, under kind and unkind networks.
#include "refract/fabric/conformance.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "refract/fabric/sim/world.h"

namespace refract::sim {
namespace {

class SimFixture final : public fabric::Fixture {
 public:
  explicit SimFixture(const WorldOptions& options) : world_(options) {}

  [[nodiscard]] fabric::Domain& client() override { return client_.domain(); }
  [[nodiscard]] fabric::Domain& server() override { return server_.domain(); }
  [[nodiscard]] Reported<fabric::Channel*> connect() override { return client_.domain().connect("server"); }
  [[nodiscard]] std::string unused_address() override { return "unused"; }
  void pump() override { EXPECT_TRUE(world_.run_for(20 * kMicrosecond_ns)); }
  [[nodiscard]] bool kill_server() override {
    world_.crash(server_);
    return true;
  }

 private:
  World world_;
  Host& client_ = world_.add_host("client");
  Host& server_ = world_.add_host("server");
};

WorldOptions options_with(uint64_t seed) {
  WorldOptions options = {.seed = seed};
  options.steps_max = UINT64_MAX;  // The suite polls by itself, and for as long as it likes.
  return options;
}

std::vector<fabric::Provider> providers() {
  std::vector<fabric::Provider> all;
  const auto add = [&all](std::string name, const WorldOptions& options) {
    all.push_back({std::move(name), [options] { return std::make_unique<SimFixture>(options); }});
  };
  add("usual", options_with(1));
  WorldOptions shallow = options_with(2);
  shallow.depth = 5;
  shallow.message_bytes_max = 64;
  add("shallow", shallow);
  // Every request in pieces, long tails, and a channel that is often full.
  for (uint64_t seed = 3; seed < 9; ++seed) {
    WorldOptions unkind = options_with(seed);
    unkind.depth = 16;
    unkind.message_bytes_max = 4096;
    unkind.short_post_chance = 0.3;
    unkind.link.torn_chance = 1;
    unkind.link.jitter_ns = 20'000;
    unkind.link.tail_chance = 0.05;
    add("unkind" + std::to_string(seed), unkind);
  }
  return all;
}

using fabric::ChannelConformance;

INSTANTIATE_TEST_SUITE_P(Sim, ChannelConformance, testing::ValuesIn(providers()), fabric::provider_name);

}  // namespace
}  // namespace refract::sim
