// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/registry.h"

#include <fmt/core.h>

#include <string>

namespace refract::fabric {

Reported<std::unique_ptr<Domain>> open_domain(std::span<const ProviderRow> rows, std::string_view name) {
  std::string known;
  for (const ProviderRow& row : rows) {
    if (row.name == name) return row.open();
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", row.name, row.sentence);
  }
  return report(Code::kUnsupported, fmt::format("this program has no provider named '{}'", name),
                known.empty() ? "" : "it has " + known);
}

Reported<ProviderAddress> split_address(std::string_view address) {
  const size_t colon = address.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == address.size()) {
    return report(Code::kInvalidArgument, fmt::format("'{}' is not an address", address),
                  "write provider:place, for example shm:/run/refract/node.sock");
  }
  return ProviderAddress{address.substr(0, colon), address.substr(colon + 1)};
}

}  // namespace refract::fabric
