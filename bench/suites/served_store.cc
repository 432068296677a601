// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/served_store.h"

#include <utility>

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// Between two rounds of housekeeping, one of which takes some ten microseconds.
constexpr uint64_t kHouse_ns = 2 * kMillisecond_ns;

// Polled whenever the server's thread looks at anything, so never while it sleeps.
class ServedStore final : public Served, public runtime::Poller {
 public:
  ServedStore(runtime::Shard& shard, std::unique_ptr<StoreProcess> process)
      : shard_(shard), process_(std::move(process)), due_ns_(shard.now_ns() + kHouse_ns) {
    shard_.add(*this);
  }
  ServedStore(const ServedStore&) = delete;
  ServedStore& operator=(const ServedStore&) = delete;
  ~ServedStore() override { shard_.remove(*this); }

  size_t poll() noexcept override {
    if (shard_.now_ns() < due_ns_) return 0;
    process_->keep_house_now();
    due_ns_ = shard_.now_ns() + kHouse_ns;
    return 0;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "housekeeping"; }

 private:
  runtime::Shard& shard_;
  std::unique_ptr<StoreProcess> process_;
  uint64_t due_ns_;
};

}  // namespace

RealServer::Serve serving(const StoreSpec& spec) {
  return [spec](runtime::Shard& shard, fabric::Domain& domain) -> Reported<std::unique_ptr<Served>> {
    Reported<std::unique_ptr<StoreProcess>> process = StoreProcess::start(spec, shard, domain);
    if (!process) return report(process.error());
    return std::make_unique<ServedStore>(shard, std::move(*process));
  };
}

}  // namespace refract::bench
