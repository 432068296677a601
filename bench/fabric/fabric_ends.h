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

namespace refract::bench {

inline constexpr uint16_t kFabricRegion = 1;
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

// An end that lets clients in and serves the region.
class ServingEnd {
 public:
  ServingEnd() = default;
  ServingEnd(const ServingEnd&) = delete;
  ServingEnd& operator=(const ServingEnd&) = delete;
  virtual ~ServingEnd() = default;

  [[nodiscard]] virtual fabric::Domain& domain() noexcept = 0;
  // For clients, as the row's domain takes it.
  [[nodiscard]] virtual const std::string& address() const noexcept = 0;
  // FabricLayout::kBytes, zeroed at first.
  [[nodiscard]] virtual std::byte* memory() noexcept = 0;
  [[nodiscard]] virtual RemoteKey key() const noexcept = 0;
  // Moves what polling the domain does not: handshakes. A system call or two.
  virtual void let_in() noexcept = 0;
};

// A client's domain, and the one that introduces it to its peers, where it needs one.
struct ClientEnd {
  std::unique_ptr<fabric::Domain> introducer;  // May be null.
  std::unique_ptr<fabric::Domain> domain;
};

struct FabricRow {
  std::string_view name;
  std::string_view sentence;
  bool is_of_one_host;       // The address is a path.
  std::string_view address;  // Where a server of our own listens; empty: in a folder that goes with it.
  Reported<std::unique_ptr<ServingEnd>> (*serve)(const std::string& address);
  // kUnsupported: this host has not what the provider needs; the sentence says what.
  Reported<ClientEnd> (*connect)();
};

[[nodiscard]] std::span<const FabricRow> fabric_rows() noexcept;
// kUnsupported, with the names there are, where no row has this name.
[[nodiscard]] Reported<const FabricRow*> fabric_row(std::string_view name);

}  // namespace refract::bench
