// SPDX-License-Identifier: Apache-2.0
// A history as text, so that a failing one can be kept, sent, read and judged again, and so that processes
// can each write their own.
//
//   client c0
//   key k0
//   committed client=0 began=100 ended=250
//    get key=0 found=present found_version=7 found_value=12
//    put key=0 value=13 version=9 want=version want_version=7
//
// A line for each client and key, which count from 0; then a line for each transaction, and behind it one for
// each of its operations, which begin with a space. A number that is not known is left out.
#pragma once

#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/base/testing/serialisability/history.h"

namespace refract::serialisability {

[[nodiscard]] std::string write_history(const History& history);

// An error names the line.
[[nodiscard]] Reported<History> read_history(std::string_view text);

}  // namespace refract::serialisability
