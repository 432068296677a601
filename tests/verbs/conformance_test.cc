// SPDX-License-Identifier: Apache-2.0
// The claims of fabric/conformance.h over RDMA devices, introduced by TCP, with both ends in one thread.
#include "refract/fabric/conformance.h"

#include "tests/verbs/two_ends.h"

namespace refract::fabric::verbs {
namespace {

class VerbsFixture final : public Fixture {
 public:
  explicit VerbsFixture(const Options& server) : ends_(server) {}

  [[nodiscard]] Domain& client() override { return ends_.client(); }
  [[nodiscard]] Domain& server() override { return ends_.server(); }
  [[nodiscard]] Reported<Channel*> connect() override {
    return ends_.client().connect(ends_.node().address());
  }
  // Bound, but without a listener.
  [[nodiscard]] std::string unused_address() override { return "127.0.0.1:1"; }
  void pump() override {
    if (alive_ && ++turns_ % 4 == 0) ends_.pump();
  }
  [[nodiscard]] bool kill_server() override {
    ends_.kill_server();
    ends_.node().stop_listening();
    alive_ = false;
    return true;
  }
  // An emulated processor does in a second what a real one does in a few hundredths.
  [[nodiscard]] uint64_t scale(uint64_t count) const override { return count / 10; }

 private:
  TwoEnds ends_;
  bool alive_ = true;
  uint64_t turns_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Verbs, ChannelConformance,
    testing::Values(Provider{"whole", [] { return std::make_unique<VerbsFixture>(Options{}); }},
                    // As over a device whose registrations are too short for a region.
                    Provider{"chunked",
                             [] {
                               return std::make_unique<VerbsFixture>(
                                   Options{.device = {}, .channels_max = 0, .chunk_bytes_max = 40'000});
                             }}),
    provider_name);

// The client does as the server asks.
INSTANTIATE_TEST_SUITE_P(RdmaCm, ChannelConformance,
                         testing::Values(Provider{
                             "rdma_cm",
                             [] {
                               return std::make_unique<VerbsFixture>(Options{
                                   .device = {}, .channels_max = 0, .connect_by = ConnectBy::kRdmaCm});
                             }}),
                         provider_name);

}  // namespace
}  // namespace refract::fabric::verbs
