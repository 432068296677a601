// SPDX-License-Identifier: Apache-2.0
// The providers that `refract-bench fabric` measures, a row each: how an end that serves is opened, and the
// domain from which it is reached. What is measured over them is the same code for all.
//
// Threads: an end and its domain belong to the thread that opened them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/node/doctor/serving_end.h"

namespace refract::bench {

inline constexpr uint16_t kFabricRegion = node::ServingEnd::kRegion;
inline constexpr size_t kFabricBytesMax = 4 * kMiB;  // Of one request.

// What each end registers: an area that the peer reads, one that it writes, the words that it changes by
// atomics, and this end's own local bytes, so that a device finds those registered as well.
struct FabricLayout {
  static constexpr uint64_t kRead = 0;
  static constexpr uint64_t kWritten = kFabricBytesMax;
  static constexpr uint64_t kWords = 2 * kFabricBytesMax;
  static constexpr uint64_t kLocal = kWords + kFabricBytesMax;
  static constexpr uint64_t kBytes = kLocal + 2 * kFabricBytesMax;
};

using node::ClientEnd;
using node::ServingEnd;

struct FabricRow {
  std::string_view name;
  std::string_view address;  // Where a server of our own listens; empty: in a folder that goes with it.
  Reported<std::unique_ptr<ServingEnd>> (*serve)(const std::string& address);
  // kUnsupported: this host has not what the provider needs; the sentence says what.
  Reported<ClientEnd> (*connect)();
};

[[nodiscard]] std::span<const FabricRow> fabric_rows() noexcept;
// kUnsupported, with the names there are, where no row has this name.
[[nodiscard]] Reported<const FabricRow*> fabric_row(std::string_view name);

}  // namespace refract::bench
