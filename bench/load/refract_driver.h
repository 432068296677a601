// SPDX-License-Identifier: Apache-2.0
// One client of a Refract node: the public AsyncClient. Batches of one are get_into() and put(),
// larger ones multi_get() and multi_put(). A kReplace is get_into() and a put() of the version that it
// brought, a kScan some scan() and a multi_get().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/load/lane_driver.h"

#include "refract/client/async_client.h"

namespace refract::bench {

class RefractDriver final : public LaneDriver {
 public:
  struct Target {
    std::string address;  // As client.h has it.
    ClientOptions client = {};
  };
  [[nodiscard]] static Reported<std::unique_ptr<RefractDriver>> connect(const Target& target,
                                                                        const DriverOptions& options,
                                                                        const Contents& contents);
  RefractDriver(const RefractDriver&) = delete;
  RefractDriver& operator=(const RefractDriver&) = delete;
  ~RefractDriver() override;

  [[nodiscard]] AsyncClient& client() noexcept { return *client_; }
  [[nodiscard]] uint64_t requests_sent() const noexcept override { return client_->messages_sent(); }

 private:
  // What multi_get and multi_put take, for each lane.
  struct Items {
    std::vector<GetItem> gets;
    std::vector<PutItem> puts;
  };

  // What scans bring, for each lane.
  struct Scan {
    std::vector<std::string> keys;
    std::vector<GetItem> items;
  };

  RefractDriver(const DriverOptions& options, const Contents& contents);
  [[nodiscard]] runtime::Task<> work(Lane& lane) override;
  [[nodiscard]] runtime::Task<> execute_batch(Lane& lane);
  [[nodiscard]] runtime::Task<> execute_replace(Lane& lane);
  [[nodiscard]] runtime::Task<> execute_scan(Lane& lane);
  // `code`: of the last page.
  [[nodiscard]] static runtime::Task<> collect_cursors(RefractDriver& driver, Code& code);

  std::vector<Items> items_;
  std::vector<Scan> scans_;
  std::vector<uint64_t> cursors_;  // Where scans may begin: one for each page of a walk over all keys.
  std::unique_ptr<AsyncClient> client_;
};

}  // namespace refract::bench
