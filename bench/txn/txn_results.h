// SPDX-License-Identifier: Apache-2.0
// What `refract-bench txn` found, for people and for programs.
#pragma once

#include <string>

#include "bench/report/findings.h"
#include "bench/txn/txn_load.h"

namespace refract::bench {

[[nodiscard]] std::string lines_of(const TxnLoad& load, const TxnResult& result);
[[nodiscard]] Findings findings_of(const TxnLoad& load, const TxnResult& result);

}  // namespace refract::bench
