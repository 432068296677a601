// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/design_driver.h"

#include <fmt/core.h>

#include <numeric>
#include <utility>

#include "bench/suites/suite_ends.h"
#include "bench/suites/suite_store.h"

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::bench {

using runtime::Task;

namespace {

constexpr uint64_t kAnswerPatience_ns = 5 * kSecond_ns;

}  // namespace

Reported<std::unique_ptr<DesignDriver>> DesignDriver::connect(const Target& target,
                                                              const DriverOptions& options,
                                                              const Contents& contents) {
  REFRACT_CHECK(options.batch == 1);
  std::unique_ptr<DesignDriver> driver(new DesignDriver(options, contents));
  runtime::Shard& shard = driver->shard();
  Reported<std::unique_ptr<fabric::Domain>> domain = open_client_domain(target.fabric);
  if (!domain) return report(domain.error());
  driver->domain_ = std::move(*domain);
  driver->counted_ = std::make_unique<fabric::CountDomain>(*driver->domain_);
  driver->dispatcher_ = std::make_unique<fabric::Dispatcher>(*driver->counted_, shard);
  const Reported<fabric::Channel*> channel = driver->counted_->connect(target.address);
  if (!channel) return report(channel.error());
  driver->session_ = std::make_unique<rpc::Session>(**channel, shard);
  driver->client_ = target.design->make_client({.session = *driver->session_, .shard = shard});
  const uint64_t deadline_ns = shard.refresh_now() + kAnswerPatience_ns;
  const Result<> attached =
      runtime::block_on(shard, attach_when_open(*driver->client_, *driver->session_, shard, deadline_ns));
  if (attached) return driver;
  return report(attached.error().code,
                fmt::format("{}: attaching: {}", target.design->name, info(attached.error().code).sentence));
}

DesignDriver::~DesignDriver() {
  if (client_ != nullptr && session_->state() == rpc::Session::State::kOpen) {
    // What is not told, the server finds out later; a client that leaves has no caller to report to.
    const uint64_t deadline_ns = shard().refresh_now() + kAnswerPatience_ns;
    static_cast<void>(runtime::block_on(shard(), client_->settle(deadline_ns)));
  }
  idle(0);
}

uint64_t DesignDriver::requests_sent() const noexcept {
  const auto& requests = counted_->counts().requests;
  return std::accumulate(requests.begin(), requests.end(), uint64_t{0});
}

Task<> DesignDriver::work(Lane& lane) {
  ValueRoom room(lane.values);
  while (take_batch(lane)) {
    const uint64_t early_ns = ns_until_due(lane);
    if (early_ns > 0) co_await shard().sleep_for(early_ns);
    const Operation& operation = lane.operations.front();
    if (operation.is_get()) {
      const Result<uint64_t> got = co_await client_->get(lane.keys, room, 0);
      finish_get(operation, got.code(), lane.values, got ? *got : 0);
    } else {
      const Result<> put = co_await client_->put(lane.keys, lane.values, 0);
      finish(operation, put.code());
    }
  }
}

}  // namespace refract::bench
