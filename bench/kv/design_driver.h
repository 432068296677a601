// SPDX-License-Identifier: Apache-2.0
// One client of a published design's store that a RealServer serves: one session, on which all operations in
// flight go, as those of our own client do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/load/lane_driver.h"
#include "bench/suites/suite.h"

#include "refract/fabric/dispatcher.h"
#include "refract/fabric/wrap/count.h"
#include "refract/kv/designs/designs.h"
#include "refract/rpc/session.h"

namespace refract::bench {

// Key and value together of the longest item that every design takes over every provider: it travels as one
// message.
inline constexpr size_t kDesignItemBytesMax = size_t{31} * 1024;

class DesignDriver final : public LaneDriver {
 public:
  struct Target {
    const kv::designs::Design* design = nullptr;
    SuiteFabric fabric = SuiteFabric::kShm;  // Or kTcp.
    std::string address;                     // The RealServer's.
  };
  // REQUIRES: batches of one, since no design can ask for several keys together.
  [[nodiscard]] static Reported<std::unique_ptr<DesignDriver>> connect(const Target& target,
                                                                       const DriverOptions& options,
                                                                       const Contents& contents);
  DesignDriver(const DesignDriver&) = delete;
  DesignDriver& operator=(const DesignDriver&) = delete;
  ~DesignDriver() override;

  // As the decorator counts them round the provider.
  [[nodiscard]] uint64_t requests_sent() const noexcept override;

 private:
  DesignDriver(const DriverOptions& options, const Contents& contents) : LaneDriver(options, contents) {}
  [[nodiscard]] runtime::Task<> work(Lane& lane) override;

  // From the one that goes last: a channel may write into the client's buffers until its domain is gone.
  std::unique_ptr<kv::designs::Client> client_;
  std::unique_ptr<fabric::Domain> domain_;
  std::unique_ptr<fabric::CountDomain> counted_;
  std::unique_ptr<fabric::Dispatcher> dispatcher_;
  std::unique_ptr<rpc::Session> session_;
};

}  // namespace refract::bench
