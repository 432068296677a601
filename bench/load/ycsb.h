// SPDX-License-Identifier: Apache-2.0
// The standard loads of YCSB (Cooper et al., SoCC 2010), by their letters.
#pragma once

#include <span>
#include <string>

#include "bench/load/workload.h"

namespace refract::bench {

inline constexpr double kYcsbSkew = 0.99;

struct Ycsb {
  char letter = 'a';
  const char* what = "";
  // Of all operations; the rest are puts of keys that are there.
  double gets = 0;
  double inserts = 0;
  double scans = 0;
  double replaces = 0;
  bool reads_latest = false;

  [[nodiscard]] bool is_plain() const noexcept { return inserts + scans + replaces == 0; }
  void apply_to(WorkloadOptions& workload) const noexcept;
};

[[nodiscard]] std::span<const Ycsb> ycsb_loads() noexcept;
// Null: there is none of that name.
[[nodiscard]] const Ycsb* find_ycsb(const std::string& letter) noexcept;
// What is done here that readers might take for something else, in sentences; empty where there is nothing.
[[nodiscard]] std::string caveat_of(const Ycsb& load);

}  // namespace refract::bench
