// SPDX-License-Identifier: Apache-2.0
// Which providers a program has: a table of rows, one for each, from which a domain is opened by name.
//
// The table belongs to the program (or the client library) and is handed in, because the fabric must not link
// its own providers: layers look down only. A provider therefore costs its folder and one row there:
//
//   const ProviderRow rows[] = {
//       {"shm", "shared memory of this host, met at a Unix socket", [] { return shm::open_client({}); }},
//   };
//   Reported<std::unique_ptr<Domain>> domain = open_domain(rows, "shm");
//
// Control path: these calls allocate and report.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "refract/base/report.h"
#include "refract/fabric/channel.h"

namespace refract::fabric {

struct ProviderRow {
  std::string_view name;      // Also the scheme of its addresses: "shm:/run/refract/node.sock".
  std::string_view sentence;  // What it is, for people.
  std::function<Reported<std::unique_ptr<Domain>>()> open;
};

// kUnsupported, with the names there are, where no row has this name.
[[nodiscard]] Reported<std::unique_ptr<Domain>> open_domain(std::span<const ProviderRow> rows,
                                                            std::string_view name);

struct ProviderAddress {
  std::string_view provider;
  std::string_view rest;  // In the provider's own form.
};

// Splits "shm:/run/refract/node.sock" at the first colon; both parts point into `address`. kInvalidArgument
// where there is no provider or nothing behind it.
[[nodiscard]] Reported<ProviderAddress> split_address(std::string_view address);

}  // namespace refract::fabric
