// SPDX-License-Identifier: Apache-2.0
// Clients of published designs under a workload, over both providers of this machine: that what they bring is
// right, and that what is counted are their round trips.
#include "bench/kv/design_driver.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "bench/suites/served_store.h"

namespace refract::bench {
namespace {

constexpr uint64_t kKeys = 500;
constexpr uint64_t kOperations = 2'000;

class DesignDrivers : public testing::TestWithParam<std::tuple<std::string_view, SuiteFabric>> {
 protected:
  DesignDrivers() {
    target_.design = kv::designs::find(std::get<0>(GetParam()));
    target_.fabric = std::get<1>(GetParam());
    options_.seconds = 600;
  }

  void serve() {
    const StoreSpec spec = {.design = target_.design,
                            .capacity = {.keys_max = kKeys,
                                         .key_bytes_max = static_cast<uint32_t>(options_.key_bytes),
                                         .value_bytes_min = static_cast<uint32_t>(options_.value_bytes),
                                         .value_bytes_max = static_cast<uint32_t>(options_.value_bytes)}};
    Reported<std::unique_ptr<RealServer>> server =
        RealServer::start({.fabric = target_.fabric, .shard = {}}, serving(spec));
    ASSERT_TRUE(server) << server.error().what;
    server_ = std::move(*server);
    target_.address = server_->address();
  }

  // What became of the options' operations, by a client of its own.
  [[nodiscard]] WorkloadResult run(const DriverOptions& driver) {
    const Contents contents(options_.key_bytes, options_.value_bytes);
    const Reported<std::unique_ptr<DesignDriver>> client = DesignDriver::connect(target_, driver, contents);
    EXPECT_TRUE(client) << client.error().what;
    if (!client) return {};
    Workload workload(options_, Timer::calibrate());
    const Reported<WorkloadResult> result = run_workload(**client, workload);
    EXPECT_TRUE(result) << result.error().what;
    return result ? *result : WorkloadResult{};
  }
  [[nodiscard]] WorkloadResult fill() {
    WorkloadOptions filling = options_;
    filling.get_share = 0;
    filling.in_order = true;
    std::swap(filling, options_);
    const WorkloadResult result = run({.depth = 16, .batch = 1});
    options_ = filling;
    return result;
  }
  [[nodiscard]] double trips(double get_share, size_t depth) {
    options_.get_share = get_share;
    options_.operations = kOperations;
    const WorkloadResult result = run({.depth = depth, .batch = 1});
    EXPECT_EQ(result.operations, kOperations);
    EXPECT_EQ(result.missing, 0U);
    EXPECT_EQ(result.overloaded, 0U);
    return static_cast<double>(result.requests) / static_cast<double>(kOperations);
  }

  DesignDriver::Target target_;
  WorkloadOptions options_{.keys = kKeys};
  std::unique_ptr<RealServer> server_;
};

// A colliding key costs another one, so the counts are at least the published ones, and below the next.
TEST_P(DesignDrivers, send_as_many_requests_as_the_design_has_round_trips) {
  serve();
  EXPECT_EQ(fill().operations, kKeys);
  const bool is_pilaf = std::get<0>(GetParam()) == "pilaf";
  for (const size_t depth : {size_t{1}, size_t{8}}) {
    const double gets = trips(1, depth);
    EXPECT_GE(gets, is_pilaf ? 2 : 1);
    EXPECT_LT(gets, is_pilaf ? 4 : 2);
    const double puts = trips(0, depth);
    EXPECT_GE(puts, is_pilaf ? 1 : 2);
    EXPECT_LT(puts, is_pilaf ? 1.001 : 3);
  }
  EXPECT_GT(server_->cpu_ns(), 0U);
}

// As long as one message takes: the limit that is refused beyond.
TEST_P(DesignDrivers, take_items_up_to_the_limit_that_is_named) {
  options_.keys = 20;
  options_.value_bytes = kDesignItemBytesMax - options_.key_bytes;
  serve();
  EXPECT_EQ(fill().operations, options_.keys);
  (void)trips(0.5, 2);
}

INSTANTIATE_TEST_SUITE_P(Designs, DesignDrivers,
                         testing::Combine(testing::Values("pilaf", "prism"),
                                          testing::Values(SuiteFabric::kShm, SuiteFabric::kTcp)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) + "_" +
                                  std::string(text(std::get<1>(tested.param)));
                         });

}  // namespace
}  // namespace refract::bench
