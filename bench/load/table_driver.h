// SPDX-License-Identifier: Apache-2.0
// A client of a table in this process: its own thread does the work, one operation after the other, and
// there is nothing to wait for.
#pragma once

#include <vector>

#include "bench/load/byte_table.h"
#include "bench/load/store_driver.h"

namespace refract::bench {

class TableDriver final : public StoreDriver {
 public:
  // The table outlives it.
  TableDriver(ByteTable& table, const Contents& contents);

  [[nodiscard]] Reported<> run(Workload& workload) override;
  [[nodiscard]] uint64_t requests_sent() const noexcept override { return 0; }

 private:
  [[nodiscard]] Code execute(const Operation& operation);

  ByteTable& table_;
  Contents contents_;
  std::vector<std::byte> key_;
  std::vector<std::byte> target_;
  std::vector<std::byte> value_;  // To be put.
};

// Puts the entries 0 to `keys`.
void fill_table(ByteTable& table, const Contents& contents, uint64_t keys);

}  // namespace refract::bench
